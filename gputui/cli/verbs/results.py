"""`gputui results`: the jobs by what they printed, best first, as a table, CSV or JSON."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import to_builtins

from gputui.cli.command import carry_out, print_json, session
from gputui.cli.output import out, refuse
from gputui.cli.parser import Options, Parser, whole
from gputui.cli.tables import Column, Paper, colour, table
from gputui.core.amounts import duration_cell
from gputui.core.results import Direction
from gputui.session.result_requests import ResultsQuestion
from gputui.views.format import result_text
from gputui.views.results_table import ResultsRow, ResultsTable

from .ls import STATE_CELLS

MOST_OTHERS = 3
"""Further metrics in a table for people; CSV and JSON have all."""


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows what the jobs printed as results, best first, beside the parameters in which they differ.",
        usage="results [--metric NAME] [--top N] [--csv | --json] [--keep]",
        examples="gputui results\ngputui results --metric 'val_acc max' --top 10\ngputui results --csv > sweep.csv",
    )
    verb_parser.add_argument(
        "--metric", default="", metavar="NAME", help="another result; 'score max': higher is better"
    )
    verb_parser.add_argument("--top", type=whole, metavar="N", help="only the best N")
    verb_parser.switch(
        "--keep", help="compare jobs by --metric from now on, also on the screen; --metric '' guesses it again"
    )
    verb_parser.switch("--csv", help="all metrics, one job per line")
    verb_parser.add_common("json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.csv and options.json:
        refuse("--csv and --json are two things; choose one")
    if options.top is not None and options.top < 1:
        refuse("--top needs a number from 1 on")
    client = session(options)
    if options.keep:
        from gputui.session.owner.requests import ChooseMetric

        client.ask(ChooseMetric(options.metric))
    reply = client.ask(ResultsQuestion(options.metric, options.top))
    if options.json:
        print_json(shaped(reply))
    elif options.csv:
        write_csv(reply)
    else:
        out("\n".join(drawn(reply, Paper())))
    return 0


def shaped(results: ResultsTable) -> dict[str, Any]:
    """Stable, additions only."""
    metric = results.metric
    return {
        "metric": {"name": metric.name, "direction": metric.direction} if metric is not None else None,
        "params": [column.name for column in results.columns],
        "others": results.others,
        "jobs": [shaped_row(row) for row in results.rows],
    }


def shaped_row(row: ResultsRow) -> dict[str, Any]:
    fields = to_builtins(row)
    return {"id": row.job, **{key: fields[key] for key in fields if key not in ("job", "trend", "counts")}}


def write_csv(results: ResultsTable) -> None:
    from csv import writer

    name = results.metric.name if results.metric is not None else "metric"
    columns = [column.name for column in results.columns]
    lines = writer(sys.stdout, lineterminator="\n")
    lines.writerow(
        ["id", "name", "state", *columns, name, f"{name} step", f"{name} last", *results.others, "seconds", "gpus"]
    )
    for row in results.rows:
        beside = [row.beside.get(other) for other in results.others]
        params = [row.params.get(column) for column in columns]
        main = (row.best, row.step, row.last)
        when = (row.seconds, " ".join(row.gpus))
        lines.writerow([row.job, row.name, row.state, *params, *main, *beside, *when])


def drawn(results: ResultsTable, paper: Paper) -> list[str]:
    if not results.rows:
        return [
            "no results yet: jobs print them as val_loss=0.41, or exactly as ::gputui metric val_loss=0.41 step=3::"
        ]
    metric, others = results.metric, results.others[:MOST_OTHERS]
    columns = [Column(""), Column("id", right=True), Column("state", least=4)]
    columns += [Column(column.title, right=column.is_number, least=4) for column in results.columns] or [
        Column("job", least=12)
    ]
    columns += [Column(metric.name if metric is not None else "result", right=True), Column("at", right=True)]
    columns += [Column(other, right=True, least=4) for other in others]
    columns += [Column("time", right=True), Column("gpu")]
    rows = [cells(row, number, results, others) for number, row in enumerate(results.rows)]
    shown = [at for at, column in enumerate(columns) if not column.title or any(row[at] for row in rows)]
    rows = [[row[at] for at in shown] for row in rows]
    colours = [colour(row.state) if number else "1" for number, row in enumerate(results.rows)]
    return table([columns[at] for at in shown], rows, paper, colours)


def cells(row: ResultsRow, number: int, results: ResultsTable, others: tuple[str, ...]) -> list[str]:
    is_ranked = results.metric is not None and results.metric.direction is not Direction.UNKNOWN
    params = [row.params.get(column.name) or "" for column in results.columns] or [row.name]
    return [
        "★" if not number and is_ranked and row.counts and row.best is not None else "",
        str(row.job),
        str(STATE_CELLS.get(row.state, row.state)),
        *params,
        row.not_finite if row.best is None else result_text(row.best, results.decimals),
        "" if row.step is None else f"{row.step:g}",
        *("" if (value := row.beside.get(other)) is None else f"{value:.4g}" for other in others),
        "" if row.seconds is None else duration_cell(row.seconds),
        ",".join(row.gpus),
    ]
