"""`gputui keep`: owns a session without a screen; the keeper that waits for an owner to die is this program too."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from gputui.cli.command import carry_out_owning
from gputui.cli.output import Exit, out, say
from gputui.cli.parser import Options, Parser
from gputui.core.events import Drain
from gputui.logs.plain import plain
from gputui.process.directories import FolderId
from gputui.session import lock as locks
from gputui.session.client import no_session_in
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import Commands, StatusQuestion
from gputui.session.owner.owner import Owner
from gputui.session.ownership.acquisition import Serving, keep_modules
from gputui.session.ownership.keeper import LIVED_WELL, Vigil, end_keeper, spawn_keeper
from gputui.session.session_dir import Ground, Journal, Paths

EXAMPLES = """\
examples:
  gputui keep                 run the jobs in the background until nothing is left to do
  gputui keep --foreground    the same, in this terminal or as a service
  gputui keep --install       write a systemd service, so that jobs go on after a logout and a reboot
"""


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Runs a session's jobs without a screen.",
        usage="keep [options] [SESSION]",
        epilog=EXAMPLES,
        allow_abbrev=True,
    )
    verb_parser.add_argument(
        "root", nargs="?", metavar="SESSION", default="gputui_run", help="the session's folder (default: gputui_run)"
    )
    verb_parser.switch("--foreground", help="stay in the foreground")
    verb_parser.switch("--install", help="write a systemd service for the session, and print how to start it")
    verb_parser.switch("--wait", help="wait until the session's owner ends, then take over")
    verb_parser.add_argument("--for", dest="starter", type=int, help=argparse.SUPPRESS)
    verb_parser.add_argument("--folder", type=FolderId.parse, help=argparse.SUPPRESS)
    verb_parser.switch("--start", help="leave at once if the session has an owner")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out_owning(lambda: _work(parser(verb).parse_args(words)))


def _work(options: Options) -> int:
    paths = Paths(options.root)
    if not paths.exists():
        raise Exit(1, no_session_in(paths.root))
    paths.check()
    for notice in paths.notices:
        say(notice)
    if options.install:
        from gputui.cli.doctor.service import install

        return install(paths)
    if options.wait or options.start or options.foreground:
        return keep(
            paths,
            wait=options.wait,
            quiet=not options.foreground,
            starter=options.starter,
            folder=options.folder,
        )
    return _in_background(paths)


def _in_background(paths: Paths) -> int:
    from gputui.session.client import Client
    from gputui.session.control.connection import ClientError

    try:
        owner = Client(paths.root).ask(StatusQuestion(), work=True).owner
    except ClientError as error:
        raise Exit(1, str(error)) from error
    who = f"{owner.kind} {owner.pid}" if owner is not None else "somebody"
    out(plain(f"{who} owns {paths.root}"))
    return 0


def keep(paths: Paths, *, wait: bool, quiet: bool, starter: int | None = None, folder: FolderId | None = None) -> int:
    """`starter`: whoever started this keeper to wait for it. `folder`: the session that it keeps, and no other."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ground = Ground(paths)
    if folder not in (None, ground.id):
        return 0
    keep_modules()
    vigil = Vigil(paths, starter) if starter is not None else None
    lock = locks.take(paths, wait=wait, create=False)
    if vigil is not None:
        vigil.end()
    if lock is not None and not ground.is_there():
        return 0
    ground.close()
    if lock is None:
        if quiet:
            return 0
        raise locks.busy(paths)
    try:
        return _own(paths, lock, ground.id)
    except BaseException as error:
        Journal(paths.log).write(f"the keeper cannot own the session: {str(error) or repr(error)}")
        raise


def _own(paths: Paths, lock: Lock, folder: FolderId) -> int:
    before = locks.holder(paths)
    lock.sign(OwnerKind.KEEPER, opening=True)
    # Before anything else: we may be killed while we recover the session. But where the owner before died of that,
    # opening it may be what kills us too, one after the other.
    successor = None if before is not None and before.opening else _successor(paths, folder)
    try:
        owner = Owner(paths, lock, OwnerKind.KEEPER)
        Serving(owner, keeper_pid=successor).without_successor = True
    except BaseException:
        if successor is not None:
            end_keeper(successor)
        raise
    owner.journal.write("the keeper owns the session")
    owner.loop.call_soon(lambda: lock.sign(OwnerKind.KEEPER))
    _drain_when_told(owner)
    owner.run()
    if owner.failure is None:
        return 0
    print("\n".join(map(plain, owner.failure.splitlines())), file=sys.stderr)
    if time.time() - owner.since < LIVED_WELL:
        time.sleep(LIVED_WELL)  # holding the lock: what killed this owner may kill the next one just as fast
    return 1


def _successor(paths: Paths, folder: FolderId) -> int | None:
    """A keeper that waits for our death; None: the machine gives no process now, and the owner tries again."""
    try:
        return spawn_keeper(paths.root, wait=True, folder=folder)
    except OSError:
        return None


def _drain_when_told(owner: Owner) -> None:
    """Heard by the owner's own thread: a signal need not wake a main thread that waits for another one."""
    reads, writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def heard() -> None:
        if signal.SIGUSR1 in os.read(reads, 64):
            owner.do(Commands((Drain(),)))

    owner.loop.add_reader(reads, heard)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
