"""Actions that only change the display: panes, tabs, filter, sort order, details, logs and curves."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core.job import JobId
from gputui.core.results import Direction
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import paged_lines
from gputui.session.owner.requests import ChooseMetric
from gputui.tui.layout import Pane, write_habits
from gputui.tui.log.pane import Stream
from gputui.tui.queue.rows import BAD_ENDS, QUEUE_ORDER, Filter, Tab
from gputui.views.siblings import behind_words

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


FILTER_HINT = "state:failed lr=0.1 behind text !not       Enter: keep · Esc: clear"
SEARCH_HINT = "search …       Enter, then n and N"
DEFAULT_PAGER = "less -R"
MAX_CURVES = 8
"""Maximum number of curves in a chart. More are hard to distinguish."""
MAX_SCANNED = 2000
"""Maximum number of jobs whose results are searched for metric names."""


def next_pane(main: MainScreen) -> None:
    panes = [Pane.QUEUE, Pane.LOG, Pane.GPUS]
    main.go_to(panes[(panes.index(main.pane) + 1) % len(panes)])


def zoom(main: MainScreen) -> None:
    main.zoom(None if main.zoomed is not None else main.pane)


def full_log(main: MainScreen) -> None:
    """Toggle between showing only the log and showing the queue."""
    is_full = main.zoomed is Pane.LOG
    main.zoomed = None if is_full else Pane.LOG
    main.go_to(Pane.QUEUE if is_full else Pane.LOG)


def open_in_session(main: MainScreen, open_view: Callable[[], None]) -> None:
    if main.bridge.has_session:
        open_view()
    else:
        main.say("no session yet: press a to add a job and start one")


def show_log(main: MainScreen, job: JobId, sought: str, stream: str = "") -> None:
    """Close all views and show the job's log full screen, at the line that contains `sought`."""
    while main.app.screen is not main:
        main.app.pop_screen()
    if not main.table.move_to(job):  # hidden by the tab or the filter
        main.table.set_view(filter=Filter(), tab=Tab.ALL)
        if not main.table.move_to(job):
            main.say(f"#{job} was removed from the list: its log is not shown here")
            return
    main.zoomed = Pane.LOG
    main.go_to(Pane.LOG)
    main.paint_log()

    def search() -> None:
        if stream in (Stream.OUT.value, Stream.ERR.value):
            main.log_pane.turn_to(Stream(stream))
        if sought:
            main.log_pane.search(sought)

    main.call_after_refresh(search)


def wrap(main: MainScreen) -> None:
    """Toggle wrapping of long lines, and save the choice."""
    main.log_pane.wrap(not main.log_pane.wrapped)
    main.habits = replace(main.habits, wrap=main.log_pane.wrapped)
    write_habits(main.habits)


def back(main: MainScreen) -> None:
    """Remove the marks, or else leave the zoom, clear the filter, or reset the tab and sort order. If there is nothing
    to undo, go to the queue.
    """
    if main.table.clear_marks():
        return
    if main.zoomed is not None:
        full_log(main) if main.zoomed is Pane.LOG else zoom(main)
    elif main.table.rows.filter:
        main.table.set_view(filter=Filter())
    elif main.table.rows.tab is not Tab.ALL or main.table.rows.sort != QUEUE_ORDER:
        main.table.set_view(tab=Tab.ALL, sort=QUEUE_ORDER, reverse=False)
    else:
        main.go_to(Pane.QUEUE)


def filter_or_search(main: MainScreen) -> None:
    """Open the input line for a filter of the queue, applied while typing, or for a text to search for in the log."""
    table, bar = main.table, main.filter_bar
    main.footer.display = False

    def searched(text: str | None) -> None:
        main.footer.display = True
        main.log_pane.focus()
        if text is not None:
            main.log_pane.search(text)

    def filtered(text: str | None) -> None:
        main.footer.display = True
        table.focus()
        if text is None:
            table.set_view(filter=Filter())

    def typed(text: str) -> None:
        table.set_view(filter=Filter(text, table.is_behind))

    if main.pane is Pane.LOG:
        bar.begin("", SEARCH_HINT, lambda _: None, searched)
    else:
        table.rows.read_texts(main.snapshot)
        bar.begin(table.rows.filter.written, FILTER_HINT, typed, filtered)


def turn_tab(main: MainScreen, by: int) -> None:
    if main.pane is Pane.QUEUE:
        tabs = list(Tab)
        main.table.set_view(tab=tabs[(tabs.index(main.table.rows.tab) + by) % len(tabs)])


def sort(main: MainScreen) -> None:
    """Sort by the column whose letter the user types next. Choosing the same column again reverses the order."""
    from gputui.tui.dialogs.choosers import SortPrompt, sort_letters

    letters = sort_letters(main.table.current_layout().columns)
    main.ask(SortPrompt(letters), lambda order: main.table.sort_by(order) if order is not None else None)


def details(main: MainScreen) -> None:
    if main.gpu_pane_focused:
        from .devices import show_device

        show_device(main)
        return
    if not main.open_views and main.table.on_fold:
        main.table.set_view(tab=Tab.ACTIVE)
        return
    job = main.job_under_cursor()
    if job is not None:
        main.open_details(job.id)


def interrupt(main: MainScreen) -> None:
    """Copy the text selected with the mouse, or quit if none is selected."""
    selected = main.get_selected_text()
    if selected:
        main.app.copy_to_clipboard(selected)
        main.clear_selection()
        main.say("copied")
    else:
        main.action_act("leave")


def copy_command(main: MainScreen) -> None:
    job = main.job_under_cursor()
    if job is not None:
        main.app.copy_to_clipboard(job.spec.command)
        main.say(f"copied the command of #{job.id}")


def copy_path(main: MainScreen) -> None:
    path = _log_path(main)
    if path is not None:
        main.app.copy_to_clipboard(path)
        main.say(f"copied {path}")


def _log_path(main: MainScreen) -> str | None:
    job = main.job_under_cursor()
    if job is None:
        return None
    number = job.active.attempt if job.active is not None else job.attempts[-1].number if job.attempts else 0
    files = main.bridge.files(job, number) if number else None
    if files is None:
        main.say(f"#{job.id} has not started: no log yet")
    return files.out if files is not None else None


def pager(main: MainScreen) -> None:
    """Show the log in $PAGER. The scheduler keeps running in its own thread."""
    path = _log_path(main)
    if path is None:
        return
    words = shlex.split(os.environ.get("PAGER") or DEFAULT_PAGER)
    try:
        with main.app.suspend():
            _pipe(words, paged_lines(path))
    except (OSError, ValueError, IndexError) as error:
        main.say(f"cannot open the log in {words[0] if words else 'PAGER'}: {error}; set PAGER", grave=True)
    main.app.refresh()


def _pipe(words: list[str], lines: Iterator[bytes]) -> None:
    """Run a program with the lines as its input. Job output is sanitized so that it cannot control the terminal."""
    first = next(lines, b"")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the pager was closed before the end
            process.stdin.write(first)
            process.stdin.writelines(lines)
            process.stdin.close()


# Metrics


def metric(main: MainScreen) -> None:
    """Choose the metric by which jobs are compared. Pressing the same key again shows its curves."""
    from gputui.tui.dialogs.choosers import CURVES, MetricChooser

    results = main.snapshot.results
    scanned = islice(results.values(), MAX_SCANNED)
    names = Counter(metric_result.name for job_results in scanned for metric_result in job_results.metrics)
    if not names:
        main.say("no job has printed a result yet, such as val_loss=0.41")
        return
    chosen = main.snapshot.metric.name if main.snapshot.metric is not None else None

    def answered(answer: str | None) -> None:
        if answer == CURVES:
            curves(main, chosen or next(iter(names)))
        elif answer is not None and answer != chosen:
            main.bridge.do(ChooseMetric(answer), lambda _: main.paint(), lambda why: main.say(why, grave=True))

    job = main.table.cursor
    behind = main.snapshot.behind.get(job) if job is not None else None
    remark = behind_words(behind, chosen) if behind is not None and chosen is not None else ""
    main.ask(MetricChooser(names.most_common(), chosen, f"« #{job} {remark}" if remark else ""), answered)


def curves(main: MainScreen, name: str) -> None:
    """Show the curves of the marked jobs, or of the best jobs if none are marked."""
    marked = sorted(main.table.marks)
    jobs, what = (marked, "marked jobs") if marked else (list(main.snapshot.results), "jobs")
    ranked = _rank(main, jobs, name)
    best = ranked[:MAX_CURVES]
    if not best:
        main.say(f"none of the {len(jobs):,} {what} has printed {name}")
        return
    several = f"{len(best)} {what}" if best == ranked else f"the best {len(best)} of {len(ranked):,} {what}"
    main.open_curves(best, several, name)


def _rank(main: MainScreen, jobs: list[JobId], name: str) -> list[JobId]:
    """Return the jobs that printed the metric, best first."""
    direction = main.snapshot.direction(name)
    sign = -1 if direction is Direction.UP else 1
    values = ((job, main.snapshot.results.get(job)) for job in jobs)
    ranked = [
        (sign * metric_result.best, job)
        for job, job_results in values
        if job_results is not None and (metric_result := job_results.get(name, direction))
    ]
    return [job for _, job in sorted(ranked)]


# Errors


@dataclass(frozen=True)
class ErrorVisit:
    """The state of the screen before the user went to an error, saved so that the user can return to it."""

    error: JobId
    cursor: JobId | None
    tab: Tab
    filter: Filter
    sort: str
    reverse: bool


def visit_error(main: MainScreen) -> None:
    """Go to the job that last paused the scheduler, or else to the last one that failed. The same key returns."""
    visit = main.error_visit
    if visit is not None and main.table.cursor == visit.error:
        main.error_visit = None
        main.table.set_view(tab=visit.tab, filter=visit.filter, sort=visit.sort, reverse=visit.reverse)
        if visit.cursor is not None:
            main.table.move_to(visit.cursor)
        return
    failed = _last_error(main.snapshot)
    if failed is None:
        main.say("no job has failed")
        return
    rows = main.table.rows
    main.error_visit = ErrorVisit(failed, main.table.cursor, rows.tab, rows.filter, rows.sort, rows.reverse)
    if not main.table.move_to(failed):
        main.table.set_view(tab=Tab.ALL, filter=Filter(), sort=QUEUE_ORDER, reverse=False)
        main.table.move_to(failed)


def _last_error(snapshot: Snapshot) -> JobId | None:
    cause = snapshot.cause
    if cause is not None and cause.jobs and cause.jobs[-1] in snapshot:
        return cause.jobs[-1]
    if not snapshot.count(*BAD_ENDS):
        return None
    failed = [job for job in snapshot if job.state.name in BAD_ENDS and job.attempts]
    return max(failed, key=lambda job: job.attempts[-1].ended).id if failed else None
