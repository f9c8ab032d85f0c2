"""gputui [JOBS …]: opens the screen."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from gputui.cli.run.inputs import Inputs
from gputui.cli.run.jobs import Feeder
from gputui.cli.run.session_options import (
    begin_request,
    check_layout,
    job_settings,
    layout,
    named_inputs,
    settle,
    told_of_lanes,
    wanted_lanes,
)
from gputui.core.amounts import duration_words, moment
from gputui.core.job import FAILURES
from gputui.logs.plain import plain
from gputui.session.client import NAMES, Client, chosen
from gputui.session.config import load, user_file
from gputui.session.control.connection import ClientError, NoOwner, NoSession
from gputui.session.environment import captured, digest
from gputui.session.event_loop import Ticket
from gputui.session.loading import Again
from gputui.session.lock import OwnerKind
from gputui.session.messages import OwnerShown, StatusQuestion
from gputui.session.owner.requests import Begin, Load, Loaded, OpenedWithJobs, OpenSession
from gputui.session.ownership.acquisition import Holding, Owned
from gputui.session.ownership.old_sessions import move_aside
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft
from gputui.tui.terminal.tty import colours, locale_is_utf8, refusal, set_piped_stdin_aside
from gputui.tui.terminal.tty import say as say_to_terminal

from .command import again_in, ask_one_key, carry_out_owning
from .output import Exit, refuse, say
from .session_flags import app_parser, gathered

if TYPE_CHECKING:
    from gputui.core.snapshot import Snapshot
    from gputui.tui.app import Beginning
    from gputui.tui.bridge import Bridge, Way
    from gputui.tui.chrome import Where
    from gputui.tui.main_screen import MainScreen


# ---- Another app or run has the session, as after a dead link ----


QUIET = 5.0
"""Seconds in which a terminal that is alive has taken something."""


class TakeoverAnswer(Enum):
    TAKE = auto()
    LOOK = auto()
    LEAVE = auto()


def asked(root: str, owned: Owned) -> TakeoverAnswer:
    def question() -> None:
        say(sentence(root, owned))
        print("[Enter] take over  [l] only look  [q] leave", file=sys.stderr, flush=True)

    return _KEYS.get(ask_one_key(question) or "", TakeoverAnswer.LEAVE)


_KEYS = {"\r": TakeoverAnswer.TAKE, "\n": TakeoverAnswer.TAKE, "l": TakeoverAnswer.LOOK}


def sentence(root: str, owned: Owned) -> str:
    """Who has it, where, since when, and whether anybody seems to be there."""
    who = _owner(root)
    where = f" on {who.terminal}" if who is not None and who.terminal else ""
    since = f" since {moment(who.since, time.time())}" if who is not None else ""
    words = f"{root} is open in gputui {owned.kind} (pid {owned.pid}){where}{since}"
    silent = who.silent_for if who is not None else None
    return (
        f"{words}; its terminal has taken nothing for {duration_words(silent)}" if silent and silent > QUIET else words
    )


def _owner(root: str) -> OwnerShown | None:
    try:
        return Client(root).ask(StatusQuestion()).owner
    except ClientError:
        return None


# ---- `gputui [JOBS …]`, or `gputui app` ----


SWITCH_INTERVAL = 0.0005
"""Seconds: a busy screen must not keep the scheduler waiting for its turn."""


def main(verb: str, words: list[str]) -> int:
    return carry_out_owning(lambda: _work(verb, words))


def _summary(snapshot: Snapshot) -> list[str]:
    """What came of a session in which nothing is left to do."""
    from gputui.views.status import Word, standing

    from .progress import closing_words

    return closing_words(snapshot) if standing(snapshot).word is Word.DONE else []


def _work(verb: str, words: list[str]) -> int:
    options = app_parser(verb).parse_args(gathered(words))
    named = options.output_dir
    settle(options)
    return Opening(options, named).run()


class Opening:
    """From the words of the command line to a screen, and from the screen back to the shell."""

    def __init__(self, options: argparse.Namespace, named: str | None) -> None:
        """`named`: the session's folder as the user wrote it, if they did."""
        self._options = options
        self._environment = captured()
        why_not = refusal()
        if why_not is not None:
            refuse(why_not)
        again = Again(rerun_failed=False, force_rerun=options.force_rerun, ended_before=time.time())
        self._inputs = Inputs(named_inputs(options, again), digest(self._environment), job_settings(options))
        self._given = wanted_lanes(options, self._inputs.gpus)
        self._has_jobs = not self._inputs.nothing
        self._pipe = set_piped_stdin_aside()
        self._force = False
        self._paths = self._session(named)
        self._found = self._paths is not None
        self._opened: Ticket[OpenedWithJobs] | None = None
        # A pause of leaving ends when jobs are given; a breaker's never does: its banner is to be read.
        self._begin = replace(begin_request(options, self._given), resume=self._has_jobs, keeps_crash_pause=True)

    def run(self) -> int:
        from gputui.tui.bridge import Bridge

        if self._options.adopt and self._paths is not None:
            from gputui.cli.run.join_owner import adopt

            adopt(self._paths, yes=self._options.yes)
        looking = self._look_on() if self._options.read_only else None
        if looking is not None:
            self._refuse_wishes()
            return self._show(looking, [])
        bridge = Bridge(self._hold if self._paths is not None else None)
        return self._show(*self._take(bridge))

    # The session

    def _session(self, named: str | None) -> Paths | None:
        """Jobs go to ./gputui_run or where the user says; without jobs the nearest session is opened, if any is."""
        options = self._options
        if options.session:
            return Paths(chosen("app", options.session))
        if self._has_jobs or named is not None:
            paths = Paths(options.output_dir)
            if options.new and (aside := move_aside(paths)) is not None:
                say(f"the session before is kept as {aside}")
            return paths
        try:
            return Paths(chosen("app"))
        except NoSession:
            return None

    def _hold(self, on_change: Callable[[], None]) -> Holding:
        assert self._paths is not None
        options = self._options
        check_layout(layout(options))
        holding = Holding(
            self._paths,
            OwnerKind.APP,
            layout=layout(options),
            keeper=not options.no_keeper,
            force=self._force,
            on_change=on_change,
        )
        if self._opened is None and self._found:
            self._opened = self._ask_first(holding)
        return holding

    def _ask_first(self, holding: Holding) -> Ticket[OpenedWithJobs]:
        """Before its first turn, which would use the lanes it had; what runs need not wait for a screen."""
        try:
            loads = self._inputs.loads(holding.owner.paths.root, self._environment)
        except BaseException:
            holding.let_go(without_successor=True)
            raise
        return holding.owner.do(OpenSession(self._begin, loads))

    def _take(self, bridge: Bridge) -> tuple[Bridge, list[str]]:
        """Another bridge where another process goes on owning the session."""
        try:
            return bridge, bridge.take()
        except Owned as owned:
            assert self._paths is not None
            answer = TakeoverAnswer.TAKE if self._options.yes else asked(self._paths.root, owned)
            if answer is TakeoverAnswer.LEAVE:
                raise Exit(0) from None
        if answer is TakeoverAnswer.LOOK:
            return self._look_instead()
        self._force = True
        try:
            return bridge, bridge.take()
        finally:
            self._force = False

    def _look_on(self) -> Bridge | None:
        """At a session that another process owns; None: nobody does."""
        from gputui.tui.bridge import WatchBridge

        if self._paths is None or not os.path.isdir(self._paths.private):
            return None
        self._paths.check()
        bridge = WatchBridge(self._paths)
        try:
            bridge.take()
        except NoOwner:
            return None
        return bridge

    def _look_instead(self) -> tuple[Bridge, list[str]]:
        bridge = self._look_on()
        if bridge is None:
            raise Exit(1, "nobody has the session open any more; start gputui again to open it")
        wishes = self._has_jobs or self._options.gpus_given
        return bridge, ["this screen only looks: what the command line asks for was not done"] if wishes else []

    def _refuse_wishes(self) -> None:
        if self._has_jobs or self._options.gpus_given:
            what = "the jobs" if self._has_jobs else "--gpus"
            refuse(f"--read-only only looks, as another gputui has the session: leave out {what}, or --read-only")

    def _begin_session(self) -> Beginning:
        from gputui.tui.app import Beginning

        self._paths = Paths(self._options.output_dir)
        return Beginning(self._hold, self._where(), begin_request(self._options, self._given), self._given.notice)

    def _where(self) -> Where:
        from gputui.tui.bridge import host_name
        from gputui.tui.chrome import Where

        if self._paths is None:
            return Where("", host_name())
        folder, name = os.path.split(self._paths.root)
        return Where(os.path.basename(folder) if name in NAMES else name, host_name())

    # The screen

    def _show(self, bridge: Bridge, notices: list[str]) -> int:
        from gputui.tui.app import GputuiApp, Setup

        options, config = self._options, load(self._options.jobs)
        setup = Setup(
            where=self._where(),
            environment=self._environment,
            begin_session=self._begin_session,
            first=lambda main: self._first(main, notices),
            keys=_keymap(options.jobs),
            theme=options.theme,
            read_only=options.read_only or bridge.only_looks,
            colours=colours(),
            ascii_signs=options.ascii or not locale_is_utf8(),
            cell_diff=not options.no_diff,
            bell=bool(config.get("bell")[0]),
        )
        sys.setswitchinterval(SWITCH_INTERVAL)
        app = GputuiApp(bridge, setup)
        try:
            app.run(mouse=bool(config.get("mouse")[0]))
        finally:
            status = self._after(bridge, app.return_value, app.parting)
        return status or app.return_code or 0

    def _first(self, main: MainScreen, notices: list[str]) -> None:
        """With the screen there: what must be said."""

        for notice in [*notices, *self._inputs.notices]:
            main.say(notice)
        if self._opened is not None:
            loading = AppLoading(main, self._inputs, self._environment, self._pipe)
            loading.tell(self._opened, self._begin, self._given.notice)

    def _after(self, bridge: Bridge, way: Way | None, parting: str) -> int:
        from gputui.tui.bridge import Way, farewell

        snapshot, keeper, root = bridge.snapshot, bridge.keeper_pid, None if bridge.only_looks else bridge.root
        bridge.close()
        if parting:
            say_to_terminal(f"gputui: {plain(parting)}")
            return 1
        if root is not None:
            back, stop = again_in(root, "gputui"), again_in(root, "gputui stop")
            if words := farewell(snapshot, way or Way.DETACH, root, keeper, back=back, stop=stop):
                say_to_terminal(plain(words))
        for line in _summary(bridge.snapshot) if root is not None else ():
            say_to_terminal(line)
        return 0


def _keymap(jobs: list[str]) -> dict[str, str]:
    from gputui.tui.action_table import keymap

    try:
        return keymap(load(jobs).keymap())
    except ValueError as error:
        refuse(f"{user_file()}: {error}")


# ---- What the app does first, with its screen already there ----


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
        if loaded.warning:
            self._main.say(loaded.warning, grave=True)
        if not loaded.sentence:
            return
        snapshot = self._main.snapshot
        failed = sum(snapshot[job].state.name in FAILURES for job in loaded.jobs)
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
