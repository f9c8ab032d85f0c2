"""`gputui summary`: what came of the session, as text or JSON."""

from __future__ import annotations

import time
from typing import Any

from msgspec import to_builtins

from gputui.cli.command import carry_out, print_json, session
from gputui.cli.output import out
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Paper
from gputui.logs.plain import plain
from gputui.session.result_requests import SummaryQuestion
from gputui.views.summary import Summary, summary_lines

from .results import shaped_row


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Sums up the session: counts, times, the best jobs, what each parameter did, failures by kind.",
        usage="summary [--metric NAME] [--json]",
        examples="gputui summary\ngputui summary --metric 'val_acc max'",
    )
    verb_parser.add_argument(
        "--metric", default="", metavar="NAME", help="by another result; 'score max': higher is better"
    )
    verb_parser.add_common("json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    reply = session(options).ask(SummaryQuestion(options.metric))
    if options.json:
        print_json(shaped(reply))
    else:
        out("\n".join(lines_of(reply, Paper())))
    return 0


def lines_of(summary: Summary, paper: Paper) -> list[str]:
    lines = [paper.cut(plain(line)) for line in summary_lines(summary, time.time())]
    return [paper.painted(lines[0], "1"), *lines[1:]]


def shaped(summary: Summary) -> dict[str, Any]:
    """Stable, additions only."""
    fields: dict[str, Any] = to_builtins(summary)
    del fields["table"]
    metric = summary.table.metric
    return fields | {
        "wall": summary.wall,
        "busy": summary.busy,
        "metric": {"name": metric.name, "direction": metric.direction} if metric is not None else None,
        "best": [shaped_row(row) for row in summary.best],
    }
