"""What the keys of the failures view do: rerun a kind, with or without an edit, hold what is alike, go to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core.events import Hold, UserCommand
from gputui.core.job import JobId, JobSpec
from gputui.core.views.amounts import counted
from gputui.core.views.caution import rerun_manner
from gputui.logs.crashes.excerpts import Excerpt
from gputui.tui.actions.looking import show_log
from gputui.tui.actions.scheduler import rerun_and_resume
from gputui.tui.model.replacing import likely_changed

from .replace_form import ReplaceForm

if TYPE_CHECKING:
    from .view import FailuresView


def rerun_group(view: FailuresView) -> None:
    jobs = view.picked()
    if jobs:
        rerun_and_resume(view.main, jobs)
        view.marked = set()


def edit_group(view: FailuresView) -> None:
    jobs, group = view.picked(), view.group
    if group is None or not jobs:
        return
    names = likely_changed([name for name, _, _ in group.common.parameters], group.kind)

    def answered(changed: dict[JobId, JobSpec] | None) -> None:
        if changed:
            rerun_and_resume(view.main, [job for job in jobs if job.id in changed], changed)
            view.marked = set()

    view.main.ask(ReplaceForm(jobs, names, lambda some: rerun_manner(view.snapshot, some)), answered)


def hold_alike(view: FailuresView) -> None:
    group, jobs = view.group, view.alike(fresh=True)
    if group is None:
        return
    if not group.common.parameters:
        view.main.say("nothing in their commands is the same in all of these: which others would fail cannot be told")
    elif not jobs:
        view.main.say(f"no job that is not held waits with {group.common.told}")
    else:
        main = view.main
        events: list[UserCommand] = [Hold(job=job, seen=main.table.seen(main.snapshot[job])) for job in jobs]
        done = f"held {counted(len(jobs), 'job', 'jobs')} with {group.common.told}; h on the queue releases"
        main.send(events, done, keeps_marks=True)


def log_at_error(view: FailuresView, job: JobId, crash: Excerpt) -> None:
    """The log on the whole screen, at the line that names the error."""
    show_log(view.main, job, crash.needle, stream=crash.stream)
