"""The tour through the keys: which hint comes next. Pure; each step is done when the user has done it, in any order.

Hints are numbered by how many steps are done, so that the numbers only ever rise, whatever crashes in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gputui.core.events import PauseKind
from gputui.core.job import Active, Job, Waiting
from gputui.core.snapshot import Snapshot

FIRST_JOB = 0
"""Where the cursor is until the user moves it."""


@dataclass
class TourProgress:
    """What has happened so far."""

    acts: set[str] = field(default_factory=set)
    """Names of the actions that the user has used."""
    moved: bool = False
    crashed: bool = False
    """The breaker has paused the scheduler."""
    paused: bool = False
    """By the breaker, and still."""


@dataclass(frozen=True)
class TourStep:
    hint: str
    done: Callable[[TourProgress], bool]
    of: type | None = None
    """The state of the jobs that it is about; None: any."""
    way: str = ""
    """The hint where the cursor is on no such job."""


def _used(*acts: str) -> Callable[[TourProgress], bool]:
    return lambda progress: not progress.acts.isdisjoint(acts)


CRASH = TourStep(
    "vit jobs miss a file; the demo just put it there: R, then Enter",
    lambda progress: progress.crashed and not progress.paused,
)
BEFORE_CRASH = "look around: soon the vit jobs will crash, all in the same way"
STEPS = (
    TourStep("j and k move through the queue, and the log follows", lambda progress: progress.moved),
    TourStep("l shows the log on the whole screen, and l again the queue", _used("full_log")),
    TourStep(
        "this job waits: + raises its priority, so that it starts next",
        _used("priority_up", "move_top"),
        Waiting,
        "go on to a job that waits (j, j, …): there + raises its priority",
    ),
    TourStep(
        "this job runs: K ends it, and asks before it does",
        _used("kill"),
        Active,
        "go to a job that runs (k, k, …): there K ends it, and asks first",
    ),
    CRASH,
    TourStep("a adds a job; A adds a whole sweep, with a preview as you type", _used("add", "sweep")),
    TourStep("1 goes to the GPUs, 2 to the queue, 3 to the log; Enter tells more", _used("focus_gpus", "next_pane")),
    TourStep("that was the tour. ? shows all keys, q ends and removes the demo", lambda progress: False),
)


class Tour:
    """`mend` is called when the crashes have paused the scheduler: it puts their cause right."""

    def __init__(self, mend: Callable[[], None]) -> None:
        self.seen = TourProgress()
        self._done: set[TourStep] = set()
        self._mend = mend

    def look(self, snapshot: Snapshot, cursor: int | None) -> str:
        """The hint of the moment."""
        self._follow_crashes(snapshot)
        self._follow_cursor(cursor)
        self._done |= {step for step in STEPS if step.done(self.seen)}
        todo = [step for step in STEPS if step not in self._done]
        step = CRASH if self.seen.paused and CRASH in todo else todo[0]
        job = snapshot[cursor] if cursor is not None and cursor in snapshot else None
        return f"{len(self._done) + 1}/{len(STEPS)}  {self._hint(step, job)}"

    def _hint(self, step: TourStep, job: Job | None) -> str:
        if step is CRASH and not self.seen.paused:
            return BEFORE_CRASH
        return step.hint if step.of is None or (job is not None and isinstance(job.state, step.of)) else step.way

    def _follow_crashes(self, snapshot: Snapshot) -> None:
        paused = snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES
        if paused and not self.seen.crashed:
            self._mend()
        self.seen.paused = paused
        self.seen.crashed = self.seen.crashed or paused

    def _follow_cursor(self, cursor: int | None) -> None:
        if cursor not in (None, FIRST_JOB):
            self.seen.moved = True
