"""The tour through the keys, and the line that shows its hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.text import Text
from textual.widgets import Static

from gputui.core.events import PauseKind
from gputui.core.job import Active, Job, Waiting
from gputui.core.snapshot import Snapshot
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.main_screen import MainScreen

# ---- The tour through the keys ----


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


# ---- The line above the footer that only the demo has ----


LOOK_EVERY = 0.3


class HintLine(Static):
    DEFAULT_CSS = "HintLine { height: 1; background: $primary 35%; color: $text; text-wrap: nowrap; }"

    def __init__(self, main: MainScreen, tour: Tour) -> None:
        super().__init__(markup=False)
        self._main = main
        self._tour = tour
        self._shown = ""

    def on_mount(self) -> None:
        self.look()
        self.set_interval(LOOK_EVERY, self.look)

    def look(self) -> None:
        hint = self._tour.look(self._main.snapshot, self._main.table.cursor)
        if hint != self._shown:
            self._shown = hint
            self.update(Text(f" demo {hint}", no_wrap=True, overflow="ellipsis"), layout=False)


def guide(main: MainScreen, tour: Tour, leave: Callable[[], None]) -> None:
    """Gives a screen the line, and has the tour see every key that does something."""
    for name, act in main.acts.items():
        main.acts[name] = _watched(name, act, tour)
    main.acts["leave"] = lambda _: _ask_to_leave(main, leave)
    main.places.lines += 1
    main.mount(HintLine(main, tour), before=main.footer)
    main.app.add_class("-guided")
    main.places.arrange()


def _watched(name: str, act: Callable[[MainScreen], None], tour: Tour) -> Callable[[MainScreen], None]:
    def watched(main: MainScreen) -> None:
        tour.seen.acts.add(name)
        act(main)

    return watched


def _ask_to_leave(main: MainScreen, leave: Callable[[], None]) -> None:
    """A real session would go on without its screen; the demo does not."""
    body = "Everything of it is ended and removed. Jobs of a real session go on when you leave."
    choices = [Choice("end", "q", "end the demo", also=("y", "ctrl+c"))]
    main.ask(Ask("Leave", body, choices, cancel="stay"), lambda answer: leave() if answer else None)
