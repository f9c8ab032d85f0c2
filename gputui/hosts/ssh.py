"""The command lines that start gputui on another machine. ssh asks for passwords and keys itself; we never see them."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping

from .places import HostPlace

CONNECT_SECONDS = 5
FAILED = 255
"""ssh itself failed; every other status is the command's own."""
NOT_THERE = 127
_LASTING = "60"
"""Seconds that a shared connection outlives its last use: the next verb needs no new one."""
_HANDED_ON = ("COLORTERM", "NO_COLOR")
"""What the screen must know of the terminal, and ssh does not tell by itself."""
_FIND = """\
g=$(command -v gputui || command -v "$HOME/.local/bin/gputui" || "${SHELL:-sh}" -lc 'command -v gputui' 2>/dev/null \
| tail -n 1); [ -x "$g" ] || { echo "gputui is not found on this machine" >&2; exit 127; }"""
"""Commands of users often lie where only their login shell looks."""


def ssh_words(place: HostPlace, words: Iterable[str], ssh: str, *, terminal: bool, ask: bool = True) -> list[str]:
    """The whole command line; `ask=False`: a machine that would ask for something fails instead."""
    options = ["-t" if terminal else "-T", *_sharing(place.alias, ssh), "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    options += [] if ask else ["-o", "BatchMode=yes"]
    script = remote_script(place, words, os.environ if terminal else {})
    # Users' shells differ; all of them start sh with two quoted words.
    return [*shlex.split(ssh), *options, "--", place.alias, f"exec sh -c {shlex.quote(script)}"]


def remote_script(place: HostPlace, words: Iterable[str], environment: Mapping[str, str]) -> str:
    exports = [f"export {name}={shlex.quote(environment[name])}" for name in _HANDED_ON if environment.get(name)]
    folder = f"cd {_path(place.folder)} || exit" if place.folder else ""
    command = f"g={_path(place.gputui)}" if place.gputui else _FIND
    steps = [*exports, folder, command, f'exec "$g" {shlex.join(words)}'.rstrip()]
    return "; ".join(step for step in steps if step)


def _path(written: str) -> str:
    """Quoted, but for a leading `~/`, which the other machine's shell must read."""
    return f'"$HOME"/{shlex.quote(written[2:])}' if written.startswith("~/") else shlex.quote(written)


def _sharing(alias: str, ssh: str) -> list[str]:
    """One connection for all we ask; whoever has set that up for this machine has it their way."""
    if _control_path(alias, ssh):
        return []
    folder = _private_folder()
    if folder is None:
        return []
    path = os.path.join(folder, "ssh-%C")
    return ["-o", "ControlMaster=auto", "-o", f"ControlPath={path}", "-o", f"ControlPersist={_LASTING}"]


def _control_path(alias: str, ssh: str) -> str:
    """What ~/.ssh/config says of it, as ssh itself reads that; empty: nothing."""
    try:
        shown = subprocess.run(
            [*shlex.split(ssh), "-G", "--", alias], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=5
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    settings = dict(line.partition(" ")[::2] for line in shown.splitlines())
    return "" if settings.get("controlpath", "none") == "none" else settings["controlpath"]


def _private_folder() -> str | None:
    """Where only we can put sockets, with a path that is short enough for one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = os.path.join(runtime, "gputui") if runtime else os.path.expanduser("~/.ssh")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        about = os.stat(folder)
    except OSError:
        return None
    private = about.st_uid == os.getuid() and not about.st_mode & 0o077
    return folder if private and len(folder) + 48 + 17 < 104 else None  # %C is 40 letters; ssh adds 17 while it binds
