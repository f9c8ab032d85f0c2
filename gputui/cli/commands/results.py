"""`gputui results` and `gputui summary`: list the jobs by their metrics, best first, and summarize the session."""

from __future__ import annotations

import sys
import time

from msgspec import Struct

from gputui.cli.command import find_session
from gputui.cli.output import Column, OutputFormat, colour, print_answer, refuse, table, without_empty
from gputui.cli.parser import Options, Parser, whole_number
from gputui.core.amounts import duration_cell
from gputui.core.job import JobId
from gputui.core.results import Direction
from gputui.logs.plain import plain
from gputui.session.owner.requests import ResultsQuestion, SummaryQuestion
from gputui.views.format import result_text
from gputui.views.heat_map import HeatMap, find_map
from gputui.views.results_table import ResultFacts, ResultsRow, ResultsTable
from gputui.views.summary import Summary, SummaryFacts, summary_lines

from .ls import STATE_CELLS

MOST_OTHERS = 3
"""Maximum number of additional metrics in the table. CSV and JSON contain all of them."""


def parser(subcommand: str) -> Parser:
    if subcommand == "summary":
        parser = Parser(
            subcommand,
            "Summarize the session: counts, times, best jobs, effect of each parameter, failures by error.",
            usage="summary [--metric NAME] [--by A,B] [--json]",
            examples="gputui summary\ngputui summary --metric 'val_acc max'\ngputui summary --by lr,bs",
        )
        parser.add_metric()
        parser.add_argument("--by", metavar="A,B", help="the two parameters of the map of medians")
        parser.add_common("json", "session")
        return parser
    parser = Parser(
        subcommand,
        "Show the metrics that jobs printed, best first, next to the parameters that differ.",
        usage="results [--metric NAME] [--top N] [--csv | --json] [--save]",
        examples="gputui results\ngputui results --metric 'val_acc max' --top 10\ngputui results --csv > sweep.csv",
    )
    parser.add_metric()
    parser.add_argument("--top", type=whole_number, metavar="N", help="only the best N")
    parser.switch("--save", help="use --metric from now on, also in the TUI; --metric '' picks one automatically")
    parser.switch("--csv", help="all metrics, one row per job")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    if options.subcommand == "summary":
        summary = find_session(options).ask(SummaryQuestion(options.metric))
        heat_map = chosen_map(summary, options.by) if options.by is not None else None
        return print_answer(lambda: summary_answer(summary, heat_map), lambda fmt: summary_text(summary, fmt, heat_map))
    if options.csv and options.json:
        refuse("use either --csv or --json")
    if options.top is not None and options.top < 1:
        refuse("invalid --top: use 1 or more")
    client = find_session(options)
    if options.save:
        from gputui.session.owner.requests import ChooseMetric

        client.ask(ChooseMetric(options.metric))
    reply = client.ask(ResultsQuestion(options.metric, options.top))
    if options.csv:
        write_csv(reply)
        return 0
    return print_answer(lambda: results_answer(reply), lambda fmt: render(reply, fmt))


class MainMetric(Struct, frozen=True):
    name: str
    direction: Direction


class ResultShown(ResultFacts, frozen=True, kw_only=True):
    id: JobId

    @staticmethod
    def of(row: ResultsRow) -> ResultShown:
        fields = {name: getattr(row, name) for name in ResultShown.__struct_fields__ if name != "id"}
        return ResultShown(id=row.job, **fields)


class ResultsAnswer(Struct, frozen=True):
    metric: MainMetric | None
    params: list[str]
    others: tuple[str, ...]
    jobs: list[ResultShown]


def results_answer(results: ResultsTable) -> ResultsAnswer:
    params, jobs = [column.name for column in results.columns], [ResultShown.of(row) for row in results.rows]
    return ResultsAnswer(_metric(results), params, results.others, jobs)


def _metric(results: ResultsTable) -> MainMetric | None:
    return MainMetric(results.metric.name, results.metric.direction) if results.metric is not None else None


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


def render(results: ResultsTable, fmt: OutputFormat) -> list[str]:
    if not results.rows:
        return ["no results yet: print val_loss=0.41, or ::gputui metric val_loss=0.41 step=3:: to be exact"]
    metric, others = results.metric, results.others[:MOST_OTHERS]
    columns = [Column(""), Column("id", right=True), Column("state", least=4)]
    columns += [Column(column.title, right=column.is_number, least=4) for column in results.columns] or [
        Column("job", least=12)
    ]
    columns += [Column(metric.name if metric is not None else "result", right=True), Column("at", right=True)]
    columns += [Column(other, right=True, least=4) for other in others]
    columns += [Column("time", right=True), Column("gpu")]
    rows = [_cells(row, number, results, others) for number, row in enumerate(results.rows)]
    colours = [colour(row.state) if number else "1" for number, row in enumerate(results.rows)]
    return table(*without_empty(columns, rows), fmt, colours)


def _cells(row: ResultsRow, number: int, results: ResultsTable, others: tuple[str, ...]) -> list[str]:
    is_ranked = results.metric is not None and results.metric.direction is not Direction.UNKNOWN
    params = [row.params.get(column.name) or "" for column in results.columns] or [row.label]
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


# summary


def chosen_map(summary: Summary, by: str) -> HeatMap:
    """Return the heat map of two parameters written as `lr,bs`."""
    names = [name.strip() for name in by.split(",")]
    found = find_map(summary.maps, names) if len(names) == 2 else None
    if found is None:
        titles = dict.fromkeys(axis.title for each in summary.maps for axis in (each.rows, each.columns))
        known = f"use two of {', '.join(titles)}" if titles else "no two parameters with results differ"
        refuse(f"--by {by}: {plain(known)}")
    return found


def summary_text(summary: Summary, fmt: OutputFormat, heat_map: HeatMap | None) -> list[str]:
    first, *lines = [fmt.cut(plain(line)) for line in summary_lines(summary, time.time(), heat_map)]
    return [fmt.paint(first, "1"), *lines]


class SummaryAnswer(SummaryFacts, frozen=True, kw_only=True):
    """The facts of a Summary, with the best jobs instead of the whole table."""

    wall: float
    busy: float | None
    metric: MainMetric | None
    best: list[ResultShown]


def summary_answer(summary: Summary, heat_map: HeatMap | None) -> SummaryAnswer:
    same = {name: getattr(summary, name) for name in SummaryAnswer.__struct_fields__ if name not in ("metric", "best")}
    if heat_map is not None:
        same["maps"] = (heat_map,)
    return SummaryAnswer(metric=_metric(summary.table), best=[ResultShown.of(row) for row in summary.best], **same)


ANSWERS = {"results": ResultsAnswer, "summary": SummaryAnswer}
