"""Keys that only look: panes, tabs, filter, order, details, logs, curves, crashes."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.widget import Widget

from gputui.core.job import JobId
from gputui.core.results import Direction
from gputui.core.snapshot import Snapshot
from gputui.logs.plain import paged_lines
from gputui.session.owner.requests import ChooseMetric
from gputui.tui.dialogs.choosers import SortPrompt, sort_letters
from gputui.tui.layout import Pane
from gputui.tui.log.pane import Stream
from gputui.tui.queue.rows import BAD_ENDS, QUEUE_ORDER, Filter, Tab

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- Keys that only look ----


DEFAULT_PAGER = "less -R"
MOST_CURVES = 6
"""More of them cannot be told apart."""


def _widget(main: MainScreen, pane: Pane) -> Widget:
    return {Pane.GPUS: main.gpus, Pane.QUEUE: main.table, Pane.LOG: main.log_pane}[pane]


def _go_to(main: MainScreen, pane: Pane) -> None:
    """A pane that has no room yet is given some first; without a session there is but one."""
    if not main.bridge.has_session:
        pane = Pane.GPUS
    if main.places.zoomed is not None:
        main.places.zoomed = pane
    main.places.focus = pane
    main.places.arrange()
    _widget(main, pane).focus()


def focus_gpus(main: MainScreen) -> None:
    _go_to(main, Pane.GPUS)


def focus_queue(main: MainScreen) -> None:
    _go_to(main, Pane.QUEUE)


def focus_log(main: MainScreen) -> None:
    _go_to(main, Pane.LOG)


def next_pane(main: MainScreen) -> None:
    panes = [Pane.QUEUE, Pane.LOG, Pane.GPUS]
    _go_to(main, panes[(panes.index(main.pane) + 1) % len(panes)])


def zoom(main: MainScreen) -> None:
    main.places.zoomed = None if main.places.zoomed is not None else main.pane
    main.places.arrange()


def full_log(main: MainScreen) -> None:
    """The log alone; from there back to the queue."""
    if main.places.zoomed is Pane.LOG:
        main.places.zoomed = None
        _go_to(main, Pane.QUEUE)
    else:
        main.places.zoomed = Pane.LOG
        _go_to(main, Pane.LOG)


def failures(main: MainScreen) -> None:
    main.open_failures()


def timeline(main: MainScreen) -> None:
    if main.bridge.has_session:
        main.open_timeline()
    else:
        main.say("there is no session yet: a adds a job and begins one")


def summary(main: MainScreen) -> None:
    if main.bridge.has_session:
        main.occasion.open()
    else:
        main.say("there is no session yet: a adds a job and begins one")


def show_log(main: MainScreen, job: JobId, sought: str, stream: str = "") -> None:
    """The log of a job on the whole screen, at a line of it; views that are open over the queue go."""
    while main.app.screen is not main:
        main.app.pop_screen()
    if not main.table.move_to(job):  # hidden by the tab or the filter
        main.table.set_view(filter=Filter(), tab=Tab.ALL)
        if not main.table.move_to(job):
            main.say(f"#{job} was removed from the list: its log is not shown here")
            return
    main.places.zoomed = Pane.LOG
    _go_to(main, Pane.LOG)
    main.logs.show()

    def search() -> None:
        if stream in (Stream.OUT.value, Stream.ERR.value):
            main.log_pane.turn_to(Stream(stream))
        if sought:
            main.log_pane.search(sought)

    main.call_after_refresh(search)


def wrap(main: MainScreen) -> None:
    """Or not; kept for the next time."""
    main.log_pane.toggle_wrap()
    main.places.keep_wrap(main.log_pane.wrapped)


def back(main: MainScreen) -> None:
    """One step: out of the filter, the marks, the zoom, the log."""
    if main.table.clear_marks():
        return
    if main.places.zoomed is not None:
        full_log(main) if main.places.zoomed is Pane.LOG else zoom(main)
    elif main.table.rows.filter:
        main.table.set_view(filter=Filter())
    elif main.table.rows.tab is not Tab.ALL or main.table.rows.sort != QUEUE_ORDER:
        main.table.set_view(tab=Tab.ALL, sort=QUEUE_ORDER, reverse=False)
    else:
        focus_queue(main)


def filter_or_search(main: MainScreen) -> None:
    search = main.pane is Pane.LOG
    if not search:
        main.table.rows.read_texts(main.snapshot)
    bar = main.filter_bar
    main.footer.display = False
    bar.begin("" if search else main.table.rows.filter.written, search=search)


def _turn_tab(main: MainScreen, by: int) -> None:
    if main.pane is Pane.QUEUE:
        tabs = list(Tab)
        main.table.set_view(tab=tabs[(tabs.index(main.table.rows.tab) + by) % len(tabs)])


def next_tab(main: MainScreen) -> None:
    _turn_tab(main, 1)


def previous_tab(main: MainScreen) -> None:
    _turn_tab(main, -1)


def sort(main: MainScreen) -> None:
    """By the column whose letter comes next; the same again turns it round."""
    letters = sort_letters(main.table.laid_out().columns)
    main.ask(SortPrompt(letters), lambda order: main.table.sort_by(order) if order is not None else None)


def details(main: MainScreen) -> None:
    if main.cards_chosen:
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
    """Ctrl-C copies in a desktop and ends in a shell; here a selection decides."""
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
        main.say(f"#{job.id} has not started: it has no log yet")
    return files.out if files is not None else None


def pager(main: MainScreen) -> None:
    """The program has the terminal meanwhile; the scheduler goes on in its own thread."""
    path = _log_path(main)
    if path is None:
        return
    words = shlex.split(os.environ.get("PAGER") or DEFAULT_PAGER)
    try:
        with main.app.suspend():
            _feed(words, paged_lines(path))
    except (OSError, ValueError, IndexError) as error:
        main.say(f"the log cannot be shown in {words[0] if words else 'PAGER'}: {error}; set PAGER", grave=True)
    main.app.refresh()


def _feed(words: list[str], lines: Iterator[bytes]) -> None:
    """Given what it may have, never the file: what a job printed must not act on the terminal."""
    first = next(lines, b"")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it was left before the end
            process.stdin.write(first)
            process.stdin.writelines(lines)
            process.stdin.close()


# ---- Keys that compare jobs by what they printed ----


MOST_LOOKED_AT = 2000
"""Jobs whose results are looked through for names."""


def metric(main: MainScreen) -> None:
    """Which one jobs are compared by; again: curves."""
    from gputui.tui.dialogs.choosers import CURVES, MetricChooser

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
    marked = sorted(main.table.marks)
    jobs, what = (marked, "marked jobs") if marked else (list(main.snapshot.results), "jobs")
    printed = _best(main, jobs, name)
    best = printed[:MOST_CURVES]
    if not best:
        main.say(f"none of the {len(jobs):,} {what} has printed {name}")
        return
    several = f"{len(best)} {what}" if best == printed else f"the best {len(best)} of {len(printed):,} {what}"
    main.open_curves(best, several, name)


def _best(main: MainScreen, jobs: list[JobId], name: str) -> list[JobId]:
    """Those that printed it, the best first."""
    direction = main.snapshot.direction(name)
    sign = -1 if direction is Direction.UP else 1
    values = ((job, main.snapshot.results.get(job)) for job in jobs)
    ranked = [
        (sign * metric_result.best, job)
        for job, job_results in values
        if job_results is not None and (metric_result := job_results.get(name, direction))
    ]
    return [job for _, job in sorted(ranked)]


# ---- The key that goes to the crash, and back to where the user was ----


@dataclass(frozen=True)
class CrashVisit:
    """Where the user was before."""

    crash: JobId
    cursor: JobId | None
    tab: Tab
    filter: Filter
    sort: str
    reverse: bool
    focus: Pane


def visit_crash(main: MainScreen) -> None:
    """The last crash of the pause, or else the newest; the same key again goes back."""
    visit = main.crash_visit
    if visit is not None and main.table.cursor == visit.crash:
        _go_back(main, visit)
        return
    crash = _last_crash(main.snapshot)
    if crash is None:
        main.say("no job has failed")
        return
    rows = main.table.rows
    main.crash_visit = CrashVisit(crash, main.table.cursor, rows.tab, rows.filter, rows.sort, rows.reverse, main.pane)
    if not main.table.move_to(crash):
        main.table.set_view(tab=Tab.ALL, filter=Filter(), sort=QUEUE_ORDER, reverse=False)
        main.table.move_to(crash)


def _go_back(main: MainScreen, visit: CrashVisit) -> None:
    main.crash_visit = None
    main.table.set_view(tab=visit.tab, filter=visit.filter, sort=visit.sort, reverse=visit.reverse)
    if visit.cursor is not None:
        main.table.move_to(visit.cursor)


def _last_crash(snapshot: Snapshot) -> JobId | None:
    cause = snapshot.cause
    if cause is not None and cause.jobs and cause.jobs[-1] in snapshot:
        return cause.jobs[-1]
    failed = (
        [job for job in snapshot if job.state.name in BAD_ENDS and job.attempts] if snapshot.count(*BAD_ENDS) else []
    )
    return max(failed, key=lambda job: job.attempts[-1].ended).id if failed else None
