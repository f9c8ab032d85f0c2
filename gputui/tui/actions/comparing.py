"""Keys that compare jobs by what they printed: the metric, and curves over each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gputui.core.job import JobId
from gputui.core.metric_names import direction_of
from gputui.core.results import Direction
from gputui.session.owner.requests import ChooseMetric

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

MOST_LOOKED_AT = 2000
"""Jobs whose results are looked through for names."""


def metric(main: MainScreen) -> None:
    """Which one jobs are compared by; again: curves."""
    from gputui.tui.screens.curves.chooser import CURVES, MetricChooser

    results = main.snapshot.results
    looked_at = (results[job] for job, _ in zip(results, range(MOST_LOOKED_AT), strict=False))
    names = Counter(metric_result.name for job_results in looked_at for metric_result in job_results.metrics)
    if not names:
        main.say("no job has printed a result yet, such as val_loss=0.41")
        return
    chosen = main.snapshot.metric.name if main.snapshot.metric is not None else None

    def answered(answer: str | None) -> None:
        if answer == CURVES:
            curves(main, chosen or next(iter(names)))
        elif answer is not None and answer != chosen:
            main.bridge.do(ChooseMetric(answer), lambda _: main.paint(), lambda why: main.say(why, grave=True))

    main.ask(MetricChooser(names.most_common(), chosen), answered)


def curves(main: MainScreen, name: str) -> None:
    """Of the marked jobs; without marks, of the best."""
    from gputui.tui.screens.curves.view import MOST, CurvesView

    marked = sorted(main.table.marks)
    jobs, what = (marked, "marked jobs") if marked else (list(main.snapshot.results), "jobs")
    best = _best(main, jobs, name)[:MOST]
    if not best:
        main.say(f"none of the {len(jobs):,} {what} has printed {name}")
        return
    several = f"{len(best)} {what}" if len(best) == len(jobs) else f"the best {len(best)} of {len(jobs):,} {what}"
    main.open_view(CurvesView(main, best, several, name))


def _best(main: MainScreen, jobs: list[JobId], name: str) -> list[JobId]:
    """Those that printed it, the best first."""
    sign = -1 if direction_of(name) is Direction.UP else 1
    values = ((job, main.snapshot.results.get(job)) for job in jobs)
    ranked = [
        (sign * metric_result.best, job)
        for job, job_results in values
        if job_results is not None and (metric_result := job_results.get(name))
    ]
    return [job for _, job in sorted(ranked)]
