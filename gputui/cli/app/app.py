"""`gputui [JOBS …]`, or `gputui app`: opens the screen. What can be refused is refused here, before there is one."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.cli.output.words import Exit, refuse, say
from gputui.cli.owning import carried_out
from gputui.cli.parsing.options import gathered
from gputui.cli.run.inputs import Inputs
from gputui.cli.run.layouts import check_layout
from gputui.cli.run.settled import settle
from gputui.cli.run.wishes import begin_request, job_settings, lanes_on_screen, layout, named_inputs, wanted_lanes
from gputui.logs.plain import plain
from gputui.session.config import load, user_file
from gputui.session.control.client import ClientError, NoOwner, NoSession
from gputui.session.environment import captured, digest
from gputui.session.files.archive import move_aside
from gputui.session.files.paths import Paths
from gputui.session.locate import NAMES, chosen
from gputui.session.owner.load_plan import Again
from gputui.session.owner.requests import OpenedWithJobs, OpenSession
from gputui.session.owner.ticket import Ticket
from gputui.session.ownership.acquisition import Owned
from gputui.session.ownership.holding import Holding
from gputui.session.ownership.lock import OwnerKind
from gputui.tui.terminal.checks import colours, locale_is_utf8, refusal
from gputui.tui.terminal.stdin import set_piped_stdin_aside
from gputui.tui.terminal.tty import say as say_to_terminal

from .options import parser
from .takeover_question import TakeoverAnswer, asked

if TYPE_CHECKING:
    from gputui.core.snapshot import Snapshot
    from gputui.gpus.picture import DevicesPicture
    from gputui.tui.app import Beginning
    from gputui.tui.bridge import Bridge
    from gputui.tui.farewell import Way
    from gputui.tui.screens.main import MainScreen
    from gputui.tui.widgets.status import Where


SWITCH_INTERVAL = 0.0005
"""Seconds: a busy screen must not keep the scheduler waiting for its turn."""


def main(verb: str, words: list[str]) -> int:
    return carried_out(lambda: _work(verb, words))


def _summary(snapshot: Snapshot) -> list[str]:
    """What came of a session in which nothing is left to do."""
    from gputui.cli.output.closing_words import closing_words
    from gputui.core.views.standing import Word, standing

    return closing_words(snapshot) if standing(snapshot).word is Word.DONE else []


def _work(verb: str, words: list[str]) -> int:
    options = parser(verb).parse_args(gathered(words))
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
            from gputui.cli.run.adoption import adopt

            adopt(self._paths)
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
            answer = asked(self._paths.root, owned)
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
        from gputui.tui.watch_bridge import WatchBridge

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
            raise Exit(1, "nobody has the session open any more; gputui opens it")
        wishes = self._has_jobs or self._options.gpus_given
        return bridge, ["this screen only looks: what the command line asks for was not done"] if wishes else []

    def _refuse_wishes(self) -> None:
        if self._has_jobs or self._options.gpus_given:
            what = "the jobs" if self._has_jobs else "--gpus"
            refuse(f"--read-only only looks, as another gputui has the session: leave out {what}, or --read-only")

    def _begin_session(self, monitored: DevicesPicture) -> Beginning:
        """On the devices that the monitor showed."""
        from gputui.tui.app import Beginning

        self._paths = Paths(self._options.output_dir)
        given_lanes = lanes_on_screen(self._options, self._given, monitored)
        return Beginning(self._hold, self._where(), begin_request(self._options, given_lanes), given_lanes.notice)

    def _where(self) -> Where:
        from gputui.tui.bridge import host_name
        from gputui.tui.widgets.status import Where

        if self._paths is None:
            return Where("", host_name())
        folder, name = os.path.split(self._paths.root)
        return Where(os.path.basename(folder) if name in NAMES else name, host_name())

    # The screen

    def _show(self, bridge: Bridge, notices: list[str]) -> int:
        from gputui.tui.app import GputuiApp, Setup

        options = self._options
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
            bell=bool(load(options.jobs).get("bell")[0]),
        )
        sys.setswitchinterval(SWITCH_INTERVAL)
        app = GputuiApp(bridge, setup)
        try:
            app.run()
        finally:
            status = self._after(bridge, app.return_value, app.parting)
        return status or app.return_code or 0

    def _first(self, main: MainScreen, notices: list[str]) -> None:
        """With the screen there: what must be said."""
        from .loading import AppLoading

        for notice in [*notices, *self._inputs.notices]:
            main.say(notice)
        if self._opened is not None:
            loading = AppLoading(main, self._inputs, self._environment, self._pipe)
            loading.tell(self._opened, self._begin, self._given.notice)

    def _after(self, bridge: Bridge, way: Way | None, parting: str) -> int:
        from gputui.tui.farewell import Way, farewell

        snapshot, keeper, root = bridge.snapshot, bridge.keeper_pid, None if bridge.only_looks else bridge.root
        bridge.close()
        if parting:
            say_to_terminal(f"gputui: {plain(parting)}")
            return 1
        if root is not None and (
            words := farewell(snapshot, way or Way.DETACH, root, keeper, here=self._is_here(root))
        ):
            say_to_terminal(plain(words))
        for line in _summary(bridge.snapshot) if root is not None else ():
            say_to_terminal(line)
        return 0

    def _is_here(self, root: str) -> bool:
        """Bare `gputui` in this folder would find the same session."""
        try:
            return chosen("app") == root
        except ClientError:
            return False


def _keymap(jobs: list[str]) -> dict[str, str]:
    from gputui.tui.actions.table import keymap

    try:
        return keymap(load(jobs).keymap())
    except ValueError as error:
        refuse(f"{user_file()}: {error}")
