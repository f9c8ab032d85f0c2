"""`gputui [JOBS …]` and `gputui app`: open the TUI."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.cli.run.inputs import Inputs
from gputui.cli.run.jobs import StdinReader
from gputui.cli.run.session_options import begin_request, describe_slots, session_options, wanted_slots
from gputui.core.amounts import duration_words, moment
from gputui.core.job import FAILURES
from gputui.logs.plain import plain
from gputui.session.client import NAMES, Client, chosen
from gputui.session.config import load, user_file
from gputui.session.control.connection import ClientError, NoOwner, NoSession
from gputui.session.environment import captured, digest
from gputui.session.event_loop import Ticket
from gputui.session.loading import RerunRules
from gputui.session.lock import OwnerKind
from gputui.session.messages import StatusQuestion
from gputui.session.owner.requests import OpenedWithJobs, OpenSession
from gputui.session.ownership.acquisition import AlreadyOwned, OwnedSession, move_aside
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft
from gputui.tui.terminal.tty import colours, locale_is_utf8, refusal, set_piped_stdin_aside
from gputui.tui.terminal.tty import say as say_to_terminal

from .command import ask_key, suggest_in
from .output import Exit, refuse, say
from .parser import Options

if TYPE_CHECKING:
    from gputui.tui.app import NewSession
    from gputui.tui.bridge import Bridge, Way
    from gputui.tui.chrome import Where
    from gputui.tui.main_screen import MainScreen


SWITCH_INTERVAL = 0.0005
"""Seconds between thread switches. It is short so that a busy TUI does not delay the scheduler."""
SILENT = 5.0
"""Seconds without output after which an owner's terminal is assumed to be gone.

That happens, for example, after a broken ssh connection.
"""


class TakeoverAnswer(Enum):
    TAKE = auto()
    LOOK = auto()
    LEAVE = auto()


def work(options: Options) -> int:
    return AppSession(options).run()


def ask_takeover(root: str, owned: AlreadyOwned) -> TakeoverAnswer:
    """Tell the user that another process owns the session, and ask what to do."""

    def question() -> None:
        say(_describe_owner(root, owned))
        print("[Enter] take over  [l] read-only  [q] quit", file=sys.stderr, flush=True)

    answers = {"\r": TakeoverAnswer.TAKE, "\n": TakeoverAnswer.TAKE, "l": TakeoverAnswer.LOOK}
    return answers.get(ask_key(question) or "", TakeoverAnswer.LEAVE)


def _describe_owner(root: str, owned: AlreadyOwned) -> str:
    try:
        owner = Client(root).ask(StatusQuestion()).process
    except ClientError:
        owner = None
    words = f"{root} is open in gputui {owned.kind} (pid {owned.pid})"
    if owner is None:
        return words
    words += (f" on {owner.terminal}" if owner.terminal else "") + f" since {moment(owner.since, time.time())}"
    if owner.silent_for and owner.silent_for > SILENT:
        words += f"; its terminal has not responded for {duration_words(owner.silent_for)}"
    return words


class AppSession:
    """Opens the session selected by the options, shows it in the TUI, and afterwards reports how the user left it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session = session_options(options)
        self._environment = captured()
        if (problem := refusal()) is not None:
            refuse(problem)
        again = RerunRules(rerun_failed=False, force_rerun=options.force_rerun, ended_before=time.time())
        self._inputs = Inputs(options, again, digest(self._environment), self._session)
        self._slots = wanted_slots(self._session, self._inputs.gpus)
        self._has_jobs = not self._inputs.nothing
        self._pipe = set_piped_stdin_aside()
        self._force = False
        self._paths = self._find_session()
        self._load_first = self._paths is not None
        self._opened: Ticket[OpenedWithJobs] | None = None
        # New jobs end a pause set on leaving, but not a pause after errors, because the user should read its banner.
        self._begin = replace(begin_request(self._session, self._slots), resume=self._has_jobs, keeps_crash_pause=True)

    def run(self) -> int:
        from gputui.tui.bridge import Bridge

        if self._options.adopt and self._paths is not None:
            from gputui.cli.run.join_owner import adopt

            adopt(self._paths, yes=self._options.yes)
        watching = self._watch() if self._options.read_only else None
        if watching is not None:
            if self._has_jobs or self._session.gpus_named:
                what = "the jobs" if self._has_jobs else "--gpus"
                refuse(f"--read-only cannot add jobs or change GPUs; omit {what} or --read-only")
            return self._show(watching, [])
        bridge = Bridge(self._hold if self._paths is not None else None)
        return self._show(*self._take(bridge))

    # The session

    def _find_session(self) -> Paths | None:
        """Return the session to open, or None if there is none.

        This is the session that the user named, else the output directory if jobs were given, else the nearest session.
        """
        options = self._options
        if options.session:
            return Paths(chosen("app", options.session))
        if self._has_jobs or options.output_dir is not None:
            paths = Paths(self._session.output_dir)
            if options.new and (aside := move_aside(paths)) is not None:
                say(f"previous session kept as {aside}")
            return paths
        try:
            return Paths(chosen("app"))
        except NoSession:
            return None

    def _hold(self, on_change: Callable[[], None]) -> OwnedSession:
        assert self._paths is not None
        holding = OwnedSession(
            self._paths,
            OwnerKind.APP,
            layout=self._session.layout,
            daemon=self._session.daemon,
            force=self._force,
            on_change=on_change,
        )
        if self._load_first:
            # Send this before the owner's first turn, which would use the old slots, and do not wait for the TUI.
            try:
                loads = self._inputs.loads(holding.owner.paths.root, self._environment)
            except BaseException:
                holding.let_go(without_successor=True)
                raise
            self._opened, self._load_first = holding.owner.do(OpenSession(self._begin, loads)), False
        return holding

    def _take(self, bridge: Bridge) -> tuple[Bridge, list[str]]:
        """Take ownership of the session.

        If another process owns it and the user only wants to watch, return another bridge and notices.
        """
        try:
            return bridge, bridge.take()
        except AlreadyOwned as owned:
            assert self._paths is not None
            answer = TakeoverAnswer.TAKE if self._options.yes else ask_takeover(self._paths.root, owned)
            if answer is TakeoverAnswer.LEAVE:
                raise Exit(0) from None
        if answer is TakeoverAnswer.LOOK:
            watching = self._watch()
            if watching is None:
                raise Exit(1, "the session is no longer open; run gputui to open it")
            ignored = self._has_jobs or self._session.gpus_named
            return watching, ["read-only: the jobs and options you gave were not applied"] * ignored
        self._force = True
        try:
            return bridge, bridge.take()
        finally:
            self._force = False

    def _watch(self) -> Bridge | None:
        """Return a read-only bridge to the session's owner, or None if it has no owner."""
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

    def _begin_session(self) -> NewSession:
        from gputui.tui.app import NewSession

        self._paths = Paths(self._session.output_dir)
        return NewSession(self._hold, self._where(), begin_request(self._session, self._slots), self._slots.notice)

    def _where(self) -> Where:
        from gputui.tui.bridge import host_name
        from gputui.tui.chrome import Where

        if self._paths is None:
            return Where("", host_name())
        directory, name = os.path.split(self._paths.root)
        return Where(os.path.basename(directory) if name in NAMES else name, host_name())

    # The TUI

    def _show(self, bridge: Bridge, notices: list[str]) -> int:
        from gputui.tui.actions.table import keymap
        from gputui.tui.app import GputuiApp, Setup

        options, config = self._options, load(self._options.jobs)
        try:
            keys = keymap(config.keymap())
        except ValueError as error:
            refuse(f"{user_file()}: {error}")
        setup = Setup(
            where=self._where(),
            environment=self._environment,
            begin_session=self._begin_session,
            first=lambda main: self._on_ready(main, notices),
            keys=keys,
            theme=options.theme or config.get("theme")[0],
            read_only=options.read_only or bridge.read_only,
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
            status = self._after(bridge, app.return_value, app.exit_message)
        return status or app.return_code or 0

    def _on_ready(self, main: MainScreen, notices: list[str]) -> None:
        """Show notices and wait for the owner's answer to the first request. Called when the TUI is ready."""
        self._main = main
        for notice in [*notices, *self._inputs.notices]:
            main.say(notice)
        ticket, self._opened = self._opened, None  # the ticket holds all loaded jobs
        if ticket is not None:
            main.bridge.ask(lambda owner: ticket, self._on_opened, self._say_grave)

    def _on_opened(self, answer: OpenedWithJobs) -> None:
        main = self._main
        notice = describe_slots(answer.begun, self._slots.notice)
        if notice is not None:
            main.say(notice)
        main.asks_which_gpus = not self._begin.given and not answer.begun.kept and not main.read_only
        for loaded in answer.loaded:
            main.paint()
            if loaded.warning:
                self._say_grave(loaded.warning)
            if loaded.sentence:
                snapshot = main.snapshot
                failed = sum(snapshot[job].state.name in FAILURES for job in loaded.jobs)
                main.say(loaded.sentence + (f" {failed} failed before: press R to rerun" if failed else ""))
        if answer.refused is not None:
            self._say_grave(answer.refused)
        if self._pipe is not None and self._inputs.follows_stdin:
            self._stdin = StdinReader(
                self._pipe.fileno(), self._add, lambda: main.bridge.snapshot.waiting, self._on_stdin_end
            )
            self._stdin.start()

    def _say_grave(self, message: str) -> None:
        self._main.say(message, grave=True)

    # Called in the thread that reads standard input

    def _add(self, drafts: list[Draft]) -> None:
        root = self._paths.root if self._paths is not None else self._session.output_dir
        self._main.bridge.do_and_wait(self._inputs.load_lines(drafts, root, self._environment))

    def _on_stdin_end(self) -> None:
        trouble = self._stdin.trouble
        if trouble is not None:
            self._main.bridge.post(lambda: self._say_grave(f"{trouble}; all lines before it were added"))

    # After the TUI

    def _after(self, bridge: Bridge, way: Way | None, parting: str) -> int:
        from gputui.tui.bridge import Way, farewell
        from gputui.views.status import StatusWord, queue_status

        from .progress import closing_lines

        snapshot, daemon, root = bridge.snapshot, bridge.daemon_pid, None if bridge.read_only else bridge.root
        bridge.close()
        if parting:
            say_to_terminal(f"gputui: {plain(parting)}")
            return 1
        if root is not None:
            back, stop = suggest_in(root, "gputui"), suggest_in(root, "gputui stop")
            if words := farewell(snapshot, way or Way.DETACH, root, daemon, back=back, stop=stop):
                say_to_terminal(plain(words))
            if queue_status(bridge.snapshot).word is StatusWord.DONE:
                for line in closing_lines(bridge.snapshot):
                    say_to_terminal(line)
        return 0
