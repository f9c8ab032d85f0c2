"""What the app does first, with its screen already there: says what became of its jobs, and reads on for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from gputui.cli.run.jobs import Feeder
from gputui.cli.run.session_options import told_of_lanes
from gputui.core.job import StateName
from gputui.session.event_loop import Ticket
from gputui.session.owner.requests import Begin, Load, Loaded, OpenedWithJobs
from gputui.sources.source import Draft
from gputui.tui.main_screen import MainScreen
from gputui.tui.queue.rows import BAD_ENDS

if TYPE_CHECKING:
    from gputui.cli.run.inputs import Inputs


class AppLoading:
    """Tells what the owner answered to the request that opened the session; then standard input goes on giving jobs."""

    def __init__(
        self, main: MainScreen, inputs: Inputs, environment: dict[str, str], pipe: BinaryIO | None = None
    ) -> None:
        """`pipe`: where further commands come from, if they do."""
        self._main = main
        self._inputs = inputs
        self._environment = environment
        self._pipe = pipe if inputs.follows_stdin else None

    def tell(self, ticket: Ticket[OpenedWithJobs], begin: Begin, lane_notice: str | None) -> None:
        """`ticket`: what the owner was asked first, before there was a screen."""

        def opened(answer: OpenedWithJobs) -> None:
            sentence = told_of_lanes(answer.begun, lane_notice)
            if sentence is not None:
                self._main.say(sentence)
            self._main.asks_which_gpus = not begin.given and not answer.begun.kept and not self._main.read_only
            for loaded in answer.loaded:
                self._loaded(loaded)
            if answer.refused is not None:
                self._refused(answer.refused)
            self._read_on()

        self._main.bridge.ask(lambda owner: ticket, opened, self._refused)

    def _read_on(self) -> None:
        if self._pipe is not None:
            self._feeder = Feeder(self._pipe.fileno(), self._feed, self._waiting, self._fed)
            self._feeder.start()

    def _loaded(self, loaded: Loaded) -> None:
        """What failed before is not run again by itself: the user is told which key does it."""
        self._main.paint()
        if not loaded.sentence:
            return
        snapshot = self._main.snapshot
        failed = sum(snapshot[job].state.name in BAD_ENDS - {StateName.SKIPPED} for job in loaded.jobs)
        advice = f" {failed} failed before: R reruns them" if failed else ""
        self._main.say(loaded.sentence.partition(" All again:")[0] + advice)

    def _refused(self, why: str) -> None:
        self._main.say(why, grave=True)

    # Standard input; in its own thread

    def _waiting(self) -> int:
        return self._main.bridge.snapshot.waiting

    def _feed(self, drafts: list[Draft]) -> None:
        load = Load(self._inputs.from_drafts(drafts), self._environment, "standard input")
        self._main.bridge.do_and_wait(load)

    def _fed(self) -> None:
        trouble = self._feeder.trouble
        if trouble is not None:
            self._main.bridge.post(lambda: self._refused(f"{trouble}; what came before it was added"))
