"""What keys do to jobs: each asks where it must, and sends what the user saw along, so that nothing stale is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.core.amounts import counted
from gputui.core.events import (
    Continue,
    Hold,
    Kill,
    Move,
    MoveTarget,
    Notify,
    Release,
    Remove,
    Requeue,
    Rerun,
    Seen,
    SetPriority,
    Suspend,
    TryFirst,
    UserCommand,
)
from gputui.core.job import (
    HIGHEST_PRIORITY,
    LOWEST_PRIORITY,
    Active,
    Ended,
    Held,
    Job,
    Stopping,
    Succeeded,
    Suspended,
    Waiting,
)
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.queue.row_facts import clock, stake
from gputui.views.status import is_wanted, next_in_line

from .scheduler import order_told

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


PRIORITY_STEP = 10
SHOWN = 8
Make = Callable[[Job, Seen], UserCommand | None]


def _each(main: MainScreen, jobs: list[Job], make: Make, done: str = "", *, keeps_marks: bool = False) -> None:
    """One command for each of the jobs, with the attempt and state that they had when they were chosen."""
    events = [event for job in jobs if (event := make(job, main.table.seen(job))) is not None]
    main.send(events, done, keeps_marks=keeps_marks)


def _chosen(main: MainScreen, fits: Callable[[Job], bool], otherwise: str) -> list[Job]:
    """The jobs of those chosen that the action applies to; a sentence when there is none."""
    jobs = main.chosen()
    fitting = [job for job in jobs if fits(job)]
    if jobs and not fitting:
        main.say(otherwise if len(jobs) > 1 else f"#{jobs[0].id} {otherwise}", grave=True)
    elif not jobs:
        main.say("there is no job here")
    return fitting


def _listed(main: MainScreen, jobs: list[Job]) -> str:
    """The jobs in question, and how many of them the filter hides."""
    lines = [f"  #{job.id}  {main.names.of(job)}{_stake(job, main.now())}" for job in jobs[:SHOWN]]
    if len(jobs) > SHOWN:
        lines.append(f"  … and {len(jobs) - SHOWN} more")
    hidden = sum(job.id not in main.table.rows for job in jobs)
    if hidden:
        lines.append(f"  {counted(hidden, 'of them is', 'of them are')} not in this view")
    return "\n".join(lines)


def _confirm(
    main: MainScreen, question: str, jobs: list[Job], words: str, choice: Choice, make: Make, done: str
) -> None:
    """One question for all of them."""

    def answered(answer: str | None) -> None:
        if answer is not None:
            _each(main, jobs, make, done)

    main.ask(Ask(_how_many(jobs, question), f"{_listed(main, jobs)}\n{words}", [choice]), answered)


def _stake(job: Job, now: float) -> str:
    if job.active is None:
        return ""
    if job.submitted:
        return "   submitted, not begun"
    gpus = f" on {counted(len(job.active.gpus), 'GPU', 'GPUs')}" if job.active.gpus else ""
    return f"   {stake(now - job.active.since)}{gpus}"


def _how_many(jobs: list[Job], what: str) -> str:
    return f"{what} {_named(jobs)}?"


def _named(jobs: list[Job]) -> str:
    return f"#{jobs[0].id}" if len(jobs) == 1 else f"{len(jobs):,} jobs"


def kill(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "is not running and does not wait")
    if not jobs:
        return
    grace = main.snapshot.settings.grace

    def body() -> str:
        return f"{_listed(main, jobs)}\n{_countdown(main, jobs)}".rstrip("\n")

    choices = _ways_to_kill(jobs, grace)

    def answered(answer: str | None) -> None:
        if answer is not None:
            now = answer == "now"
            _each(main, jobs, lambda job, seen: Kill(job=job.id, seen=_still(main, job, seen), now=now))

    main.ask(Ask(_how_many(jobs, "Kill"), body, choices, every=1.0), answered)


def _ways_to_kill(jobs: list[Job], grace: float) -> list[Choice]:
    """Grace is for what runs and is not being stopped already."""
    if not any(isinstance(job.state, Active) and not job.submitted for job in jobs):
        queue = "Slurm's queue" if any(job.submitted for job in jobs) else "the queue"
        return [Choice("grace", "y", f"take out of {queue}: it does not run", also=("K", "f9"))]
    now = Choice("now", "K", "kill now: SIGKILL, nothing is saved", also=("f9",))
    if all(isinstance(job.state, Stopping) for job in jobs):
        return [now]
    return [Choice("grace", "y", f"kill: SIGTERM, and SIGKILL after {grace:g} s"), now]


def _countdown(main: MainScreen, jobs: list[Job]) -> str:
    """How long those that are being stopped have left."""
    newest = [main.snapshot[job.id] for job in jobs if job.id in main.snapshot]
    stopping = [job.state for job in newest if isinstance(job.state, Stopping)]
    if not stopping:
        return ""
    remaining = max(state.deadline for state in stopping) - main.now()
    return f"being stopped; SIGKILL in {clock(remaining)}" if remaining > 0 else "SIGKILL was sent"


def _still(main: MainScreen, job: Job, seen: Seen) -> Seen:
    """A job that went from running to stopping while the question stood is still the one that was meant."""
    newest = main.snapshot[job.id] if job.id in main.snapshot else job  # noqa: SIM401  # it has no get
    return Seen(seen.attempt, newest.state.name) if isinstance(newest.state, Active) else seen


def suspend(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Active) and not job.submitted, "is not running")
    standing = [job for job in jobs if isinstance(job.state, Suspended)]
    if standing:
        _each(main, standing, lambda job, seen: Continue(job=job.id, seen=seen), f"continued {_named(standing)}")
    elif jobs:
        words = "It stands still until S is pressed again. Its GPU memory stays taken."
        choice = Choice("yes", "S", "suspend", also=("y",))
        _confirm(main, "Suspend", jobs, words, choice, _suspend, f"suspended {_named(jobs)}")


def _suspend(job: Job, seen: Seen) -> UserCommand:
    return Suspend(job=job.id, seen=seen)


def requeue(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Active), "is not running")
    if jobs:
        words = "Ended with grace; waits again at its place. Its checkpoint folder stays the same."
        if all(job.submitted for job in jobs):
            words = "It has not begun: taken back from Slurm's queue, and waits again at its place."
        choice = Choice("yes", "B", "requeue", also=("y",))
        _confirm(main, "Requeue", jobs, words + restarts(main, jobs), choice, _requeue, f"requeued {_named(jobs)}")


def restarts(main: MainScreen, jobs: list[Job]) -> str:
    """On a machine with nothing else to do, a job that is put back runs again before one has looked."""
    first = [f"#{job.id}" for job in jobs if next_in_line(main.snapshot, job)]
    if not first:
        return ""
    who = " ".join(first[:SHOWN]) + (" …" if len(first) > SHOWN else "")
    return f"\nNothing waits before {who}: starts again at once (p pauses first)."


def _requeue(job: Job, seen: Seen) -> UserCommand:
    return Requeue(job=job.id, seen=seen)


def rerun(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Ended), "has not ended; B requeues a running job")
    if not jobs:
        return
    done = f"{_named(jobs)} queued again in the same environment"
    if any(isinstance(job.state, Succeeded) for job in jobs):
        words = "It succeeded. A new attempt is made; nothing of the old one is overwritten."
        _confirm(main, "Run again", jobs, words, Choice("yes", "y", "run it again", also=("r",)), _rerun, done)
    else:
        first = [TryFirst(tuple(job.id for job in jobs))] if len(jobs) > 1 else []
        sentence = done + order_told(main.snapshot, jobs)
        main.send([*(_rerun(job, main.table.seen(job)) for job in jobs), *first], sentence)


def _rerun(job: Job, seen: Seen) -> UserCommand:
    return Rerun(job=job.id, seen=seen)


def hold(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: isinstance(job.state, Waiting) or job.submitted, "does not wait")
    held = [job for job in jobs if isinstance(job.state, Held)]
    if held:
        _each(main, held, lambda job, seen: Release(job=job.id, seen=seen), f"released {_named(held)}")
    elif jobs:
        back = ", and taken back from Slurm" if any(job.submitted for job in jobs) else ""
        _each(main, jobs, lambda job, seen: Hold(job=job.id, seen=seen), f"held {_named(jobs)}{back}")


def tell_me(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "has ended: there is nothing left to tell")
    if not jobs:
        return
    wanted = any(not is_wanted(job) for job in jobs)
    when = f"when {_named(jobs)} {'ends' if len(jobs) == 1 else 'end'}"
    done = f"you will be notified {when} (bell, and notify of your settings)" if wanted else f"no notification {when}"
    _each(main, jobs, lambda job, seen: Notify(job=job.id, seen=seen, wanted=wanted), done, keeps_marks=True)


def remove(main: MainScreen) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Active), "is running; K ends it first")
    if jobs:
        words = "Taken off the list. All files stay."
        choice = Choice("yes", "y", "remove from the list", also=("D", "delete"))
        _confirm(main, "Remove", jobs, words, choice, _remove, f"removed {_named(jobs)}")


def _remove(job: Job, seen: Seen) -> UserCommand:
    return Remove(job=job.id, seen=seen)


def priority_up(main: MainScreen) -> None:
    _change_priority(main, PRIORITY_STEP)


def priority_down(main: MainScreen) -> None:
    _change_priority(main, -PRIORITY_STEP)


def _change_priority(main: MainScreen, by: int) -> None:
    jobs = _chosen(main, lambda job: not isinstance(job.state, Ended), "has ended; priority no longer matters")

    def make(job: Job, seen: Seen) -> UserCommand:
        newest = main.bridge.snapshot[job.id].priority  # a key that is held comes faster than the screen is painted
        wanted = max(LOWEST_PRIORITY, min(HIGHEST_PRIORITY, newest + by))
        return SetPriority(job=job.id, seen=seen, priority=wanted)

    seen_there = any(column.title == "pri" for column in main.table.laid_out().columns)
    changed = f"priority of #{jobs[0].id}" if len(jobs) == 1 else f"priority of {counted(len(jobs), 'job', 'jobs')}"
    done = "" if seen_there else f"{changed} {'raised' if by > 0 else 'lowered'}"
    _each(main, jobs, make, done, keeps_marks=True)


def _mover(where: MoveTarget) -> Callable[[MainScreen], None]:
    """Moving several keeps their order among themselves."""

    def move(main: MainScreen) -> None:
        jobs = _chosen(
            main, lambda job: isinstance(job.state, Waiting), "does not wait, so it has no place to move from"
        )
        jobs.sort(key=lambda job: job.position, reverse=where in (MoveTarget.DOWN, MoveTarget.TOP))
        _each(main, jobs, lambda job, seen: Move(job=job.id, seen=seen, where=where), keeps_marks=True)

    return move


move_up, move_down = _mover(MoveTarget.UP), _mover(MoveTarget.DOWN)
move_top, move_bottom = _mover(MoveTarget.TOP), _mover(MoveTarget.BOTTOM)
