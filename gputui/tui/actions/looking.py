"""Keys that only look: panes, tabs, filter, order, details, logs, clipboard."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from textual.widget import Widget

from gputui.core.job import JobId
from gputui.logs.paged import paged_lines
from gputui.tui.model.arrangement import Pane
from gputui.tui.model.filtering import Filter
from gputui.tui.model.rows import Tab
from gputui.tui.model.sorting import QUEUE_ORDER
from gputui.tui.screens.sort_prompt import SortPrompt, sort_letters
from gputui.tui.widgets.logs.job_log import Stream

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

DEFAULT_PAGER = "less -R"


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
    """Imported when it is wanted: most looks at a queue need none of it."""
    from gputui.tui.screens.failures.view import FailuresView

    main.open_view(FailuresView(main))


def timeline(main: MainScreen) -> None:
    from gputui.tui.screens.timeline import TimelineView

    if main.bridge.has_session:
        main.open_view(TimelineView(main))
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
        main.table.move_to(job)
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
    if main.pane is Pane.GPUS:
        from .devices import show_device

        show_device(main)
        return
    if not main.views and main.table.on_fold:
        main.table.set_view(tab=Tab.ACTIVE)
        return
    job = main.job_under_cursor()
    if job is not None:
        from gputui.tui.screens.details.view import DetailsView

        main.open_view(DetailsView(main, job.id))


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
