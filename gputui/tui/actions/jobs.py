"""Actions on jobs. Each command carries the job state that the user saw, so that an outdated command is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core import events
from gputui.core.amounts import counted, duration_exact, duration_words
from gputui.core.job import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    Active,
    Ended,
    Held,
    Job,
    JobId,
    Stopping,
    Succeeded,
    Suspended,
    Waiting,
)
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.views.status import next_in_line, wants_notification

from .scheduler import describe_order

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


PRIORITY_STEP = 10
SHOWN = 8
MakeCommand = Callable[..., events.UserCommand]
"""A command class or another callable that makes a command from `job` and `seen`."""


def _send(main: MainScreen, jobs: list[Job], make: MakeCommand, done: str = "", *, keeps_marks: bool = False) -> None:
    """Send one command per job, with the attempt and state that the table showed for it."""
    main.send([make(job=job.id, seen=main.table.seen(job)) for job in jobs], done, keeps_marks=keeps_marks)


def _chosen(main: MainScreen, fits: Callable[[Job], bool], otherwise: str) -> list[Job]:
    """Return the chosen jobs that the action applies to. Notify the user if there are none."""
    jobs = main.chosen()
    fitting = [job for job in jobs if fits(job)]
    if jobs and not fitting:
        main.say(otherwise if len(jobs) > 1 else f"#{jobs[0].id} {otherwise}", grave=True)
    elif not jobs:
        main.say("no job selected")
    return fitting


def _list_jobs(main: MainScreen, jobs: list[Job]) -> str:
    """Return the list of jobs for a dialog, and how many of them the filter hides."""
    lines = [f"  #{job.id}  {main.names.of(job)}{_runtime(job, main.now())}" for job in jobs[:SHOWN]]
    if len(jobs) > SHOWN:
        lines.append(f"  … and {len(jobs) - SHOWN} more")
    hidden = sum(job.id not in main.table.rows for job in jobs)
    if hidden:
        lines.append(f"  {hidden:,} not shown in this view")
    return "\n".join(lines)


def _confirm(
    main: MainScreen, verb: str, jobs: list[Job], words: str, choice: Choice, make: MakeCommand, done: str
) -> None:
    """Ask for confirmation in a dialog, then send the commands."""
    question = Ask(f"{verb} {_named(jobs)}?", f"{_list_jobs(main, jobs)}\n{words}", [choice])
    main.ask(question, lambda answer: _send(main, jobs, make, f"{done} {_named(jobs)}") if answer else None)


def _runtime(job: Job, now: float) -> str:
    if job.active is None:
        return ""
    if job.submitted:
        return "   submitted, not started"
    gpus = f" on {counted(len(job.active.gpus), 'GPU', 'GPUs')}" if job.active.gpus else ""
    return f"   {duration_words(now - job.active.since)}{gpus}"


def _named(jobs: list[Job]) -> str:
    return f"#{jobs[0].id}" if len(jobs) == 1 else f"{len(jobs):,} jobs"


def kill(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "is neither running nor waiting")
    if not jobs:
        return
    ended = len(main.chosen()) - len(jobs)
    skipped = f"  skipped: {counted(ended, 'job that has', 'jobs that have')} already ended" if ended else ""

    def body() -> str:
        return "\n".join(filter(None, (_list_jobs(main, jobs), skipped, _countdown(main, jobs))))

    def make(job: JobId, seen: events.Seen, *, now: bool) -> events.Kill:
        # A job may have gone from running to stopping while the dialog was open.
        newest = main.snapshot[job].state if job in main.snapshot else None
        seen = replace(seen, state=newest.name) if isinstance(newest, Active) else seen
        return events.Kill(job=job, seen=seen, now=now)

    def answered(answer: str | None) -> None:
        if answer is not None:
            _send(main, jobs, partial(make, now=answer == "now"))

    main.ask(Ask(f"Kill {_named(jobs)}?", body, _kill_choices(jobs, main.snapshot.settings.grace), every=1.0), answered)


def _kill_choices(jobs: list[Job], grace: float) -> list[Choice]:
    if not any(isinstance(job.state, Active) and not job.submitted for job in jobs):
        queue = "Slurm's queue" if any(job.submitted for job in jobs) else "the queue"
        return [Choice("grace", "y", f"remove from {queue}: it will not run", also=("K", "f9"))]
    now = Choice("now", "K", "kill now: SIGKILL, nothing is saved", also=("f9",))
    if all(isinstance(job.state, Stopping) for job in jobs):
        return [now]
    return [Choice("grace", "y", f"kill: SIGTERM, then SIGKILL after {grace:g} s"), now]


def _countdown(main: MainScreen, jobs: list[Job]) -> str:
    """Describe the time left until SIGKILL if any of the jobs is being stopped."""
    newest = [main.snapshot[job.id] for job in jobs if job.id in main.snapshot]
    stopping = [job.state for job in newest if isinstance(job.state, Stopping)]
    if not stopping:
        return ""
    remaining = max(state.deadline for state in stopping) - main.now()
    return f"stopping; SIGKILL in {duration_exact(remaining)}" if remaining > 0 else "SIGKILL sent"


def suspend(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Active) and not job.submitted, "is not running")
    suspended = [job for job in jobs if isinstance(job.state, Suspended)]
    if suspended:
        _send(main, suspended, events.Continue, f"continued {_named(suspended)}")
    elif jobs:
        words = "It stays frozen until you press S again and keeps its GPU memory."
        choice = Choice("yes", "S", "suspend", also=("y",))
        _confirm(main, "Suspend", jobs, words, choice, events.Suspend, "suspended")


def requeue(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Active), "is not running")
    if jobs:
        words = "Stops gracefully and goes back to the queue; the checkpoint directory stays."
        if all(job.submitted for job in jobs):
            words = "Not started yet: leaves Slurm's queue and goes back to this one."
        choice = Choice("yes", "B", "requeue", also=("y",))
        words += warn_of_restart(main, jobs)
        _confirm(main, "Requeue", jobs, words, choice, events.Requeue, "requeued")


def warn_of_restart(main: MainScreen, jobs: list[Job]) -> str:
    """Return a warning about jobs that are next in the queue and would therefore restart at once if requeued."""
    first = [f"#{job.id}" for job in jobs if next_in_line(main.snapshot, job)]
    if not first:
        return ""
    who = " ".join(first[:SHOWN]) + (" …" if len(first) > SHOWN else "")
    return f"\nNext in the queue: {who}; restarts at once (press p to pause first)."


def rerun(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Ended), "has not ended; B requeues running jobs")
    if not jobs:
        return
    if any(isinstance(job.state, Succeeded) for job in jobs):
        words = "It succeeded. Rerunning makes a new attempt; nothing is overwritten."
        _confirm(main, "Rerun", jobs, words, Choice("yes", "y", "rerun", also=("r",)), events.Rerun, "queued again:")
    else:
        first = [events.TryFirst(tuple(job.id for job in jobs))] if len(jobs) > 1 else []
        reruns = [events.Rerun(job=job.id, seen=main.table.seen(job)) for job in jobs]
        main.send([*reruns, *first], f"{_named(jobs)} queued again{describe_order(main.snapshot, jobs)}")


def hold(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Waiting) or job.submitted, "is not waiting")
    held = [job for job in jobs if isinstance(job.state, Held)]
    if held:
        _send(main, held, events.Release, f"released {_named(held)}")
    elif jobs:
        back = ", and taken back from Slurm" if any(job.submitted for job in jobs) else ""
        _send(main, jobs, events.Hold, f"held {_named(jobs)}{back}")


def notify(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "has already ended")
    if not jobs:
        return
    wanted = any(not wants_notification(job) for job in jobs)
    when = f"when {_named(jobs)} {'ends' if len(jobs) == 1 else 'end'}"
    done = f"you will be notified {when} (bell, and your notify setting)" if wanted else f"no notification {when}"
    _send(main, jobs, partial(events.Notify, wanted=wanted), done, keeps_marks=True)


def remove(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Active), "is running; kill it first (K)")
    if jobs:
        words = "Removes it from the list. Files stay."
        choice = Choice("yes", "y", "remove", also=("D", "delete"))
        _confirm(main, "Remove", jobs, words, choice, events.Remove, "removed")


def change_priority(main: MainScreen, by: int) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "has ended; priority has no effect")

    def make(job: JobId, seen: events.Seen) -> events.SetPriority:
        newest = main.bridge.snapshot[job].priority  # a held key repeats faster than the screen is painted
        wanted = max(LOWEST_PRIORITY, min(HIGHEST_PRIORITY, newest + by))
        return events.SetPriority(job=job, seen=seen, priority=wanted)

    is_shown = any(column.title == "pri" for column in main.table.current_layout().columns)
    done = "" if is_shown else f"priority of {_named(jobs)} {'raised' if by > 0 else 'lowered'}"
    _send(main, jobs, make, done, keeps_marks=True)


def move(main: MainScreen, where: events.MoveTarget) -> None:
    """Move the chosen jobs in the queue without changing their order relative to each other."""
    jobs = _chosen(main, lambda job: isinstance(job.state, Waiting), "is not waiting, so it cannot be moved")
    jobs.sort(key=lambda job: job.position, reverse=where in (events.MoveTarget.DOWN, events.MoveTarget.TOP))
    _send(main, jobs, partial(events.Move, where=where), keeps_marks=True)
