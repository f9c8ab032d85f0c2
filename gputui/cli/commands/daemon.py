"""`gputui daemon`: run a session in the background, either immediately or when its owner has ended."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct

from gputui.cli.output import Exit, out, print_answer, say
from gputui.cli.parser import Options, Parser
from gputui.core.events import Drain
from gputui.logs.plain import plain
from gputui.process.directories import DirectoryId
from gputui.process.processes import user_name
from gputui.session import lock as locks
from gputui.session.client import Client, no_session_in
from gputui.session.control.connection import NoSession
from gputui.session.lock import Lock, OwnerKind
from gputui.session.messages import Commands, OwnerShown, StatusQuestion
from gputui.session.owner.owner import Owner
from gputui.session.ownership.acquisition import OwnerServer, get_ready
from gputui.session.ownership.daemon import MIN_HEALTHY_LIFE, OrphanWatch, end_daemon, spawn_daemon
from gputui.session.session_dir import Journal, Paths, SessionDir

EXAMPLES = """\
examples:
  gputui daemon                 run the queue in the background until nothing is left
  gputui daemon --foreground    the same in this terminal, or as a service
  gputui daemon --install       write a systemd service that survives logout and reboot
"""


class DaemonAnswer(Struct, frozen=True):
    session: str
    process: OwnerShown | None


ANSWERS = {"daemon": DaemonAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Run a session without the TUI.",
        usage="daemon [options] [SESSION]",
        epilog=EXAMPLES,
        allow_abbrev=True,
    )
    parser.add_argument(
        "root", nargs="?", metavar="SESSION", default="gputui_run", help="session directory (gputui_run)"
    )
    parser.switch("--foreground", help="stay in the foreground")
    parser.switch("--install", help="write a systemd service for the session and print how to start it")
    parser.switch("--wait", help="sleep until the session has no scheduler")
    parser.add_argument("--for", dest="starter", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=DirectoryId.parse, help=argparse.SUPPRESS)
    parser.switch("--start", help="exit if a scheduler is running")
    parser.add_common("json")
    return parser


def work(options: Options) -> int:
    paths = Paths(options.root)
    if not paths.exists():
        raise NoSession(no_session_in(paths.root))
    paths.check()
    for notice in paths.notices:
        say(notice)
    if options.install:
        return install(paths)
    if options.wait or options.start or options.foreground:
        return run_daemon(
            paths, wait=options.wait, quiet=not options.foreground, starter=options.starter, directory=options.directory
        )
    owner = Client(paths.root).ask(StatusQuestion(), work=True).process
    who = f"{owner.kind} {owner.pid}" if owner is not None else "a scheduler"
    return print_answer(lambda: DaemonAnswer(paths.root, owner), lambda _: [plain(f"{who} runs {paths.root}")])


def run_daemon(
    paths: Paths, *, wait: bool, quiet: bool, starter: int | None = None, directory: DirectoryId | None = None
) -> int:
    """Own the session until nothing is left to do, and return the exit status.

    `starter`: process id of the owner that started this daemon. `directory`: identity of the expected session
    directory; if another directory is at this path, return immediately.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    session_dir = SessionDir(paths)
    if directory not in (None, session_dir.id):
        return 0
    get_ready()
    orphan_watch = OrphanWatch(paths, starter) if starter is not None else None
    lock = _take_lock(paths, wait=wait)
    if orphan_watch is not None:
        orphan_watch.end()
    if lock is not None and not session_dir.still_at_path():
        return 0
    session_dir.close()
    if lock is None:
        if quiet:
            return 0
        raise locks.busy(paths)
    try:
        return _own(paths, lock, session_dir.id)
    except BaseException as error:
        Journal(paths.log).write(f"daemon cannot open the session: {str(error) or repr(error)}")
        raise


def _take_lock(paths: Paths, *, wait: bool) -> Lock | None:
    """Take the lock. If another daemon has just failed, wait first, so that an app or a run can take it."""
    while True:
        lock = locks.take(paths, wait=wait, create=False)
        holder = locks.holder(paths)
        if lock is None or holder is None or not holder.cool_down:
            return lock
        lock.release()
        time.sleep(holder.cool_down)


def _own(paths: Paths, lock: Lock, directory: DirectoryId) -> int:
    before = locks.holder(paths)
    lock.sign(OwnerKind.DAEMON, opening=True)
    # Start a successor first, because we may be killed while we recover the session. But if the previous owner died
    # while opening it, opening may be what kills us, and successors would die one after the other.
    successor = None
    if before is None or not before.opening:
        with suppress(OSError):  # if no process can be started now, the owner tries again later
            successor = spawn_daemon(paths.root, wait=True, directory=directory)
    try:
        owner = Owner(paths, lock, OwnerKind.DAEMON)
        OwnerServer(owner, daemon_pid=successor).without_successor = True
    except BaseException:
        if successor is not None:
            end_daemon(successor)
        raise
    owner.journal.write("daemon took over the session")
    owner.loop.call_soon(partial(lock.sign, OwnerKind.DAEMON))
    _drain_on_signal(owner)
    owner.run()
    if owner.failure is None:
        return 0
    print("\n".join(map(plain, owner.failure.splitlines())), file=sys.stderr)
    if time.time() - owner.since < MIN_HEALTHY_LIFE and not lock.sign(OwnerKind.DAEMON, failed=True):
        time.sleep(MIN_HEALTHY_LIFE)  # keep the lock, because the next daemon may fail just as fast
    return 1


def _drain_on_signal(owner: Owner) -> None:
    """Drain on SIGUSR1. The owner's thread handles it because a signal may not wake the main thread while it waits."""
    reads, writes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def on_signal() -> None:
        if signal.SIGUSR1 in os.read(reads, 64):
            owner.do(Commands((Drain(),)))

    owner.loop.add_reader(reads, on_signal)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)


# The systemd service

_UNIT = """\
# Written by `gputui daemon --install`; edit or remove it freely.
[Unit]
Description={description}

[Service]
ExecStart={command}
WorkingDirectory={directory}
{environment}# Jobs keep running when the daemon stops.
KillMode=process
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
_KEPT = ("PATH", "SLURM_CONF", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Environment variables copied to the service, which otherwise gets almost none.

They are needed to find clusters and drivers.
"""


def install(paths: Paths) -> int:
    from gputui.cli.doctor import machine

    if not os.path.isdir(machine.RUNNING):
        line = f"@reboot cd {shlex.quote(os.path.dirname(paths.root))} && {_words(paths, shlex.quote)}"
        raise Exit(
            1,
            "no systemd here: your processes survive logout, so no service is needed; to restart after a reboot, "
            f"add this line with crontab -e:\n{line}",
        )
    name = unit_name(paths.root)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.path.join(config, "systemd/user", name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(unit(paths, os.environ))
    except OSError as error:
        raise Exit(1, f"cannot write {path}: {error.strerror}") from None
    out(plain(f"wrote {path}; now run:"))
    out(f"  loginctl enable-linger {user_name(os.getuid())}")
    out(f"  systemctl --user daemon-reload && systemctl --user enable --now {name}")
    return 0


def unit_name(root: str) -> str:
    """Return a readable unit name that is unique to the session."""
    import hashlib

    place = re.sub(r"[^\w-]+", "-", os.path.basename(os.path.dirname(root))).strip("-")
    return f"gputui-{place or 'session'}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}.service"


def unit(paths: Paths, environment: Mapping[str, str]) -> str:
    variables = {name: environment[name] for name in _KEPT if name in environment}
    return _UNIT.format(
        description=_literal(f"gputui: session in {plain(paths.root)}"),
        command=_words(paths, lambda word: _quoted(word, "$")),
        directory=_literal(os.path.dirname(paths.root)),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()),
    )


def _words(paths: Paths, quoted: Callable[[str], str]) -> str:
    return " ".join(quoted(word) for word in (sys.executable, "-m", "gputui", "daemon", "--foreground", paths.root))


def _literal(text: str) -> str:
    """Escape the characters that systemd would interpret."""
    return text.replace("\\", "\\\\").replace("%", "%%").replace("\n", " ")


def _quoted(word: str, doubled: str = "") -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    for sign in doubled:
        escaped = escaped.replace(sign, sign * 2)
    return f'"{escaped}"'
