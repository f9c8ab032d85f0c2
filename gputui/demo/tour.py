"""The tour through the keys: which hint comes next. Pure; each step is done when the user has done it, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gputui.core.events import PauseKind
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
    TourStep("on a waiting job, + raises its priority: it starts next", _used("priority_up", "move_top")),
    TourStep("on a running job, K ends it, and asks before it does", _used("kill")),
    CRASH,
    TourStep("a adds a job; A adds a whole sweep, with a preview as you type", _used("add", "sweep")),
    TourStep("1 goes to the GPUs, 2 to the queue, 3 to the log; Enter tells more", _used("focus_gpus", "next_pane")),
    TourStep("that was the tour. ? shows all keys, q ends and removes the demo", lambda progress: False),
)


class Tour:
    """`mend` is called when the crashes have paused the scheduler: it puts their cause right."""

    def __init__(self, mend: Callable[[], None]) -> None:
        self.seen = TourProgress()
        self._mend = mend

    def look(self, snapshot: Snapshot, cursor: int | None) -> str:
        """The hint of the moment."""
        self._follow_crashes(snapshot)
        self._follow_cursor(cursor)
        step = CRASH if self.seen.paused else next(step for step in STEPS if not step.done(self.seen))
        hint = BEFORE_CRASH if step is CRASH and not self.seen.paused else step.hint
        return f"{STEPS.index(step) + 1}/{len(STEPS)}  {hint}"

    def _follow_crashes(self, snapshot: Snapshot) -> None:
        paused = snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES
        if paused and not self.seen.crashed:
            self._mend()
        self.seen.paused = paused
        self.seen.crashed = self.seen.crashed or paused

    def _follow_cursor(self, cursor: int | None) -> None:
        """The screen itself goes to a crash; that is not the user's doing."""
        if cursor not in (None, FIRST_JOB) and not self.seen.paused:
            self.seen.moved = True
