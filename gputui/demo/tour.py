"""The tour of the keys, and the line that shows its hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.text import Text
from textual.widgets import Static

from gputui.core.events import PauseKind
from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.main_screen import MainScreen


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


def _used(*actions: str) -> Callable[[TourProgress], bool]:
    return lambda progress: not progress.actions.isdisjoint(actions)


FAILURE = TourStep(
    "the vit jobs lacked a file; the demo added it: press R, then Enter",
    lambda progress: progress.failed and not progress.paused,
)
BEFORE_FAILURE = "look around: soon the vit jobs will fail, all with one error"
STEPS = (
    TourStep("j and k move through the queue; the log follows", lambda progress: progress.moved),
    TourStep("t shows what each GPU did this evening, and who else used it", _used("timeline")),
    TourStep("= compares the jobs: the best, each parameter, GPU-hours", _used("summary")),
    TourStep("m m draws the curves of the best jobs, or of those marked with Space", _used("metric")),
    FAILURE,
    TourStep("F groups failed jobs by error, with what they have in common", _used("failures")),
    TourStep("a adds a job; A adds a sweep, with a preview as you type", _used("add", "sweep")),
    TourStep("end of the tour. ? lists all keys, q stops and deletes the demo", lambda progress: False),
)


class Tour:
    """Chooses the hints. `fix` is called to remove the cause of the errors after they have paused the scheduler.

    `first_job` is the first one of the demo's own jobs, which is under the cursor until the user moves it.
    """

    def __init__(self, fix: Callable[[], None], first_job: JobId = 0) -> None:
        self.first_job = first_job
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
        progress.moved = progress.moved or cursor not in (None, self.first_job)
        self._done |= {step for step in STEPS if step.done(progress)}
        todo = [step for step in STEPS if step not in self._done]
        step = FAILURE if progress.paused and FAILURE in todo else todo[0]
        text = BEFORE_FAILURE if step is FAILURE and not progress.paused else step.hint
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
        self._begun = False

    def on_mount(self) -> None:
        self.refresh_hint()
        self.set_interval(POLL_INTERVAL, self.refresh_hint)

    def refresh_hint(self) -> None:
        if not self._begun:
            self._begun = self._main.table.move_to(self._tour.first_job)
            if not self._begun:
                return
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
