"""What the app does first, with its screen already there: lanes, jobs, and what must be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from gputui.cli.run.stdin_feed import Feeder
from gputui.cli.run.wishes import told_of_lanes
from gputui.core.job import StateName
from gputui.session.errors import SessionError
from gputui.session.owner.requests import Begin, Begun, Load, Loaded
from gputui.session.owner.ticket import Ticket
from gputui.sources.source import Draft
from gputui.tui.model.rows import BAD_ENDS
from gputui.tui.screens.main import MainScreen

if TYPE_CHECKING:
    from gputui.cli.run.inputs import Inputs, Source


class AppLoading:
    """One after the other, each when the one before is durable."""

    def __init__(
        self, main: MainScreen, inputs: Inputs, environment: dict[str, str], pipe: BinaryIO | None = None
    ) -> None:
        """`pipe`: where further commands come from, if they do."""
        self._main = main
        self._inputs = inputs
        self._environment = environment
        self._pipe = pipe if inputs.follows_stdin else None

    def begin(self, ticket: Ticket[Begun], begin: Begin, lane_notice: str | None) -> None:
        """`ticket`: what the owner was asked first, before there was a screen."""

        def begun(answer: Begun) -> None:
            told = told_of_lanes(answer, lane_notice)
            if told is not None:
                self._main.say(told)
            self._main.asks_which_gpus = not begin.given and not answer.kept and not self._main.read_only
            self._load_all()

        self._main.bridge.ask(lambda owner: ticket, begun, self._refused)

    def _load_all(self) -> None:
        for source in self._inputs.sources:
            self._load_source(source)
        if self._inputs.lasting:
            self._load(Load((), self._environment, "", sources=tuple(self._inputs.lasting)))
        if self._pipe is not None:
            self._feeder = Feeder(self._pipe.fileno(), self._feed, self._waiting, self._fed)
            self._feeder.start()

    def _load_source(self, source: Source) -> None:
        root = self._main.bridge.root
        assert root is not None  # lanes were begun in it
        try:
            load = source.load(root, self._environment, self._inputs.again)
        except SessionError as error:
            self._refused(str(error))
        else:
            self._load(load)

    def _load(self, load: Load) -> None:
        self._main.bridge.do(load, self._loaded, self._refused)

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
