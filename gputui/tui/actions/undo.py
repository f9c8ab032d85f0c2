"""The action that takes back the last command of this screen, then the one before it, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core import events
from gputui.core.amounts import counted
from gputui.core.job import JobId
from gputui.session.owner.requests import TakeBack
from gputui.tui.bridge import Done

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen

NOUNS: dict[type, str] = {
    events.Rerun: "rerun", events.Edit: "edit", events.Hold: "hold", events.Release: "release",
    events.SetPriority: "priority change", events.Move: "move", events.Remove: "removal",
    events.Notify: "notification setting", events.AddJobs: "addition", events.Kill: "kill",
    events.Suspend: "suspension", events.Continue: "continuation", events.Requeue: "requeue",
    events.Pause: "pause", events.Drain: "drain", events.Resume: "resume", events.SetSlots: "choice of GPUs",
    events.TryFirst: "order of reruns",
}  # fmt: skip
"""The noun for each kind of command. If commands of several kinds were sent at once, the first kind in this order names
them all.
"""
MOST_NAMED = 3


def undo(main: MainScreen) -> None:
    """Take back the last command. If that is impossible, only say so; the next key press then takes back the last
    command for which it is possible.
    """
    commands, skipped = main.bridge.done, list[str]()
    while commands and not _is_possible(main, commands[-1]):
        skipped.append(describe(commands.pop()))
    if skipped:
        more = f" and {counted(len(skipped) - 1, 'command', 'commands')} before it" if len(skipped) > 1 else ""
        before = f"; press again to undo: {describe(commands[-1])}" if commands else ""
        main.say(f"{skipped[0]}{more} cannot be undone{before}", grave=True)
        return
    if not commands:
        main.say("nothing to undo")
        return
    done = commands.pop()
    assert done.undo is not None
    what, jobs = describe(done), _jobs_of(done)

    def undone(changed: list[JobId]) -> None:
        left = (
            f"; changed since, so left as it is: {_named([job for job in changed if job in jobs] or changed)}"
            if changed
            else ""
        )
        main.say(f"undone: {what}{left}", grave=bool(changed))
        main.paint()
        main.table.move_to(jobs[0])

    main.bridge.do(TakeBack(done.undo), undone, lambda why: main.say(f"{what} cannot be undone: {why}", grave=True))


def _is_possible(main: MainScreen, done: Done) -> bool:
    """Return whether the commands can be undone: not all of their jobs have changed since."""
    jobs = main.bridge.snapshot
    return done.undo is not None and any(job in jobs and jobs[job] == after for job, after in done.undo.after.items())


def describe(done: Done) -> str:
    """Describe commands, such as `rerun of #3 #4`."""
    jobs = _jobs_of(done)
    return f"{NOUNS[_kind_of(done)]} of {_named(jobs)}" if jobs else NOUNS[_kind_of(done)]


def _kind_of(done: Done) -> type:
    return next(kind for kind in NOUNS if any(type(command) is kind for command in done.commands))


def _jobs_of(done: Done) -> list[JobId]:
    """Return the jobs that the commands were about, or the jobs that were added."""
    kind = _kind_of(done)
    if kind is events.AddJobs and done.undo is not None:
        return [job for job, before in done.undo.before.items() if before is None] or list(done.undo.before)
    return [each.job for each in done.commands if type(each) is kind and isinstance(each, events.JobCommand)]


def _named(jobs: list[JobId]) -> str:
    return " ".join(f"#{job}" for job in jobs) if len(jobs) <= MOST_NAMED else f"{len(jobs):,} jobs"
