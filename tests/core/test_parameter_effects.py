"""What each parameter did to the result: told by jobs that came to their end."""

from __future__ import annotations

from gputui.core.job import StateName
from gputui.core.parameter_columns import ParameterColumn
from gputui.core.results import Direction, MainMetric
from gputui.views.results_table import ResultsRow, ResultsTable, compared, effects


def row(number: int, rate: str, best: float, state: StateName = StateName.SUCCEEDED) -> ResultsRow:
    return ResultsRow(number, f"lr={rate}", state, 1, {"lr": rate}, best, None, best, {})


def test_jobs_that_run_or_were_killed_do_not_spoil_the_median_of_those_that_succeeded() -> None:
    rows = (
        row(0, "0.1", 0.2), row(1, "0.1", 0.4), row(2, "0.01", 0.5),
        row(3, "0.1", 4.0, StateName.RUNNING), row(4, "0.01", 5.0, StateName.KILLED),
    )  # fmt: skip
    metric = MainMetric("loss", Direction.DOWN)
    table = ResultsTable(metric, (ParameterColumn("lr", "lr", is_number=True, width=4),), (), rows, 4)
    [rate] = effects(table)
    assert [(one.value, one.count, round(one.median, 6)) for one in rate.values] == [("0.1", 2, 0.3), ("0.01", 1, 0.5)]
    assert [one.job for one in compared(table)] == [0, 1, 2]
