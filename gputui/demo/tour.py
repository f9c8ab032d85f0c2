"""The tour of the keys, and the line that shows its hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.text import Text
from textual.widgets import Static

from gputui.core.events import PauseKind
from gputui.core.job import Active, Waiting
from gputui.core.snapshot import Snapshot
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.main_screen import MainScreen

FIRST_JOB = 0
"""Id of the job under the cursor until the user moves it."""


@dataclass
class TourProgress:
    """What has happened in the tour so far."""

    actions: set[str] = field(default_factory=set)
    """Names of the actions that the user has used."""
    moved: bool = False
    failed: bool = False
    """Whether the scheduler has been paused after errors at least once."""
    paused: bool = False
    """Whether the scheduler is paused after errors now."""


@dataclass(frozen=True)
class TourStep:
    hint: str
    done: Callable[[TourProgress], bool]
    state: type | None = None
    """State of the jobs that the hint is about, or None for any state."""
    elsewhere: str = ""
    """Hint to show when the cursor is on a job in another state."""


def _used(*actions: str) -> Callable[[TourProgress], bool]:
    return lambda progress: not progress.actions.isdisjoint(actions)


FAILURE = TourStep(
    "the vit jobs lacked a file; the demo added it: press R, then Enter",
    lambda progress: progress.failed and not progress.paused,
)
BEFORE_FAILURE = "look around: soon the vit jobs will fail, all with one error"
STEPS = (
    TourStep("j and k move through the queue; the log follows", lambda progress: progress.moved),
    TourStep("l shows the log full screen; press l again to go back", _used("full_log")),
    TourStep(
        "this job is waiting: + raises its priority so it starts next",
        _used("priority_up", "move_top"),
        Waiting,
        "move to a waiting job (j, j, …); + raises its priority",
    ),
    TourStep(
        "this job is running: K kills it, but asks first",
        _used("kill"),
        Active,
        "move to a running job (k, k, …); K kills it, but asks first",
    ),
    FAILURE,
    TourStep("a adds a job; A adds a sweep, with a preview as you type", _used("add", "sweep")),
    TourStep("1 focuses the GPUs, 2 the queue, 3 the log; Enter shows details", _used("focus_gpus", "next_pane")),
    TourStep("end of the tour. ? lists all keys, q stops and deletes the demo", lambda progress: False),
)


class Tour:
    """Chooses the hints. `fix` is called to remove the cause of the errors after they have paused the scheduler."""

    def __init__(self, fix: Callable[[], None]) -> None:
        self.progress = TourProgress()
        self._done: set[TourStep] = set()
        self._fix = fix

    def hint(self, snapshot: Snapshot, cursor: int | None) -> str:
        """Update the progress and return the hint to show."""
        progress = self.progress
        progress.paused = snapshot.cause is not None and snapshot.cause.kind is PauseKind.CRASHES
        if progress.paused and not progress.failed:
            self._fix()
        progress.failed = progress.failed or progress.paused
        progress.moved = progress.moved or cursor not in (None, FIRST_JOB)
        self._done |= {step for step in STEPS if step.done(progress)}
        todo = [step for step in STEPS if step not in self._done]
        step = FAILURE if progress.paused and FAILURE in todo else todo[0]
        job = snapshot[cursor] if cursor is not None and cursor in snapshot else None
        if step is FAILURE and not progress.paused:
            text = BEFORE_FAILURE
        else:
            fits = step.state is None or (job is not None and isinstance(job.state, step.state))
            text = step.hint if fits else step.elsewhere
        return f"{len(self._done) + 1}/{len(STEPS)}  {text}"


# The line above the footer


POLL_INTERVAL = 0.3


class HintLine(Static):
    DEFAULT_CSS = "HintLine { height: 1; background: $chosen; color: $text; text-wrap: nowrap; }"

    def __init__(self, main: MainScreen, tour: Tour) -> None:
        super().__init__(markup=False)
        self._main = main
        self._tour = tour
        self._shown = ""

    def on_mount(self) -> None:
        self.refresh_hint()
        self.set_interval(POLL_INTERVAL, self.refresh_hint)

    def refresh_hint(self) -> None:
        hint = self._tour.hint(self._main.snapshot, self._main.table.cursor)
        if hint != self._shown:
            self._shown = hint
            self.update(Text(f" demo {hint}", no_wrap=True, overflow="ellipsis"), layout=False)


def guide(main: MainScreen, tour: Tour, leave: Callable[[], None]) -> None:
    """Add the hint line to the TUI, and report the user's actions to the tour."""

    def recording(name: str, action: Callable[[MainScreen], None]) -> Callable[[MainScreen], None]:
        def recorded(main: MainScreen) -> None:
            tour.progress.actions.add(name)
            action(main)

        return recorded

    for name, action in main.acts.items():
        main.acts[name] = recording(name, action)
    main.acts["leave"] = lambda _: _ask_to_leave(main, leave)
    main.lines_around += 1
    main.mount(HintLine(main, tour), before=main.footer)
    main.app.add_class("-guided")
    main.place_panes()


def _ask_to_leave(main: MainScreen, leave: Callable[[], None]) -> None:
    """Ask before leaving because, unlike in a real session, the demo's jobs end with it."""
    body = "This stops and deletes the demo. In a real session, jobs keep running when you quit."
    choices = [Choice("end", "q", "end the demo", also=("y", "ctrl+c"))]
    main.ask(Ask("Quit the demo", body, choices, cancel="stay"), lambda answer: leave() if answer else None)
