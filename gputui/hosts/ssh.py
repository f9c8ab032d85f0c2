"""The ssh command lines that run gputui on another machine, and the directory remembered for each machine."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec

from gputui.core.regex import lazy_regex
from gputui.process.directories import atomic_write
from gputui.session.config import Config, user_file

ANY = "any"
_ALIAS = lazy_regex(r"[\w][\w.@%+-]*|\[[0-9a-fA-F:]+\]")
"""Matches the ssh destinations that no shell or option parser can misinterpret."""


class BadHost(ValueError):
    """Raised when a host is invalid. The message is shown to the user."""


class HostPlace(NamedTuple):
    """A machine, given by its ssh alias, and a directory on it."""

    alias: str
    gputui: str = ""
    """The gputui command on that machine, or "" to search for it."""
    directory: str = ""
    """The directory, or "" for the home directory."""


def parse_host(written: str) -> tuple[str, str]:
    """Parse `lab7` or `lab7:runs/sweep` into the alias and the directory, which may be empty."""
    alias, colon, directory = written.partition(":")
    if written.startswith("["):
        alias, closing, rest = written.partition("]")
        alias, (colon, directory) = alias + closing, (rest[:1], rest[1:])
    if _ALIAS.fullmatch(alias) is None:
        raise BadHost(f"invalid host {written!r}: use --host lab7, me@lab7 or lab7:DIR")
    if colon and not directory:
        raise BadHost(f"no directory in {written!r}: use {alias}:DIR or just {alias}")
    return alias, directory


def place_of(written: str, config: Config) -> HostPlace:
    """Return a host with its directory: the given one, else the configured one, else the remembered one."""
    alias, directory = parse_host(written)
    settings = config.host(alias)
    return HostPlace(
        alias, settings.get("gputui", ""), directory or settings.get("directory") or remembered().get(alias, "")
    )


def parse_hosts(written: str | None, config: Config) -> list[HostPlace]:
    """Return the machines named by `--host lab7,lab8`, or else by the setting `hosts`, without duplicates."""
    names = written.split(",") if written is not None else config.get("hosts")[0] or ()
    places = {name.strip(): place_of(name.strip(), config) for name in names if name.strip()}
    if written is not None and not places:
        raise BadHost("--host needs a name: --host lab7, or --host lab7,lab8")
    return list(places.values())


def notes_file() -> str:
    """Return the path of gputui's own file, which is beside the user's settings. gputui never changes the settings."""
    return os.path.join(os.path.dirname(user_file()), "hosts.json")


def remembered() -> dict[str, str]:
    """Return the remembered directory of each alias. It is empty if the file cannot be read."""
    try:
        with open(notes_file(), "rb") as file:
            return msgspec.json.decode(file.read(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def remember(alias: str, directory: str) -> bool:
    """Remember the directory of an alias. Return False if it was already known or could not be saved."""
    directories = remembered()
    if directories.get(alias) == directory:
        return False
    file = notes_file()
    with suppress(OSError):
        os.makedirs(os.path.dirname(file), exist_ok=True)
        atomic_write(file, msgspec.json.encode(directories | {alias: directory}))
        return True
    return False


# Running gputui on another machine

CONNECT_SECONDS = 5
FAILED = 255
"""Exit status with which ssh reports its own errors. Any other status is that of the command."""
NOT_THERE = 127
_PERSIST = "60"
"""Seconds for which a shared connection stays open for the next command."""
_FORWARDED = ("COLORTERM", "NO_COLOR")
"""Environment variables about the terminal that ssh does not forward itself."""
HOST_VARIABLE = "GPUTUI_HOST"
"""Environment variable with the user's name for the machine, for messages there (see `cli/output.py`)."""
_FIND = """\
g=$(command -v gputui || command -v "$HOME/.local/bin/gputui" || "${SHELL:-sh}" -lc 'command -v gputui' 2>/dev/null \
| tail -n 1); [ -x "$g" ] || { echo "gputui not found on this machine" >&2; exit 127; }"""
"""Shell code that finds gputui, also in the PATH of a login shell, where users' own commands often are."""


def ssh_words(
    place: HostPlace, words: Iterable[str], ssh: str, *, terminal: bool, ask: bool = True, host: str = ""
) -> list[str]:
    """Return the ssh command line. With `ask=False` ssh fails instead of asking for a password.

    `host`: the name that the user gave the machine, for messages of gputui there.
    """
    options = ["-t" if terminal else "-T", *_sharing(place.alias, ssh), "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    options += [] if ask else ["-o", "BatchMode=yes"]
    forwarded = {name: os.environ.get(name, "") for name in _FORWARDED} if terminal else {}
    script = remote_script(place, words, {**forwarded, HOST_VARIABLE: host})
    # Users' shells differ, but all of them can run sh with two quoted words.
    return [*shlex.split(ssh), *options, "--", place.alias, f"exec sh -c {shlex.quote(script)}"]


def remote_script(place: HostPlace, words: Iterable[str], environment: Mapping[str, str]) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if value]
    directory = f"cd {_path(place.directory)} || exit" if place.directory else ""
    command = f"g={_path(place.gputui)}" if place.gputui else _FIND
    steps = [*exports, directory, command, f'exec "$g" {shlex.join(words)}'.rstrip()]
    return "; ".join(step for step in steps if step)


def ssh_missing(ssh: str, error: OSError) -> str:
    return f"cannot start {ssh.partition(' ')[0]}: {error.strerror}; install an ssh client or set GPUTUI_SSH"


def how_to_install() -> str:
    """Return instructions for installing this version of gputui on another machine. It is not in any package index."""
    import gputui

    checkout = os.path.dirname(os.path.dirname(os.path.abspath(gputui.__file__)))
    if os.path.exists(os.path.join(checkout, "pyproject.toml")):
        return (
            f"copy {shlex.quote(checkout)} there, then: pipx install {shlex.quote('./' + os.path.basename(checkout))}"
        )
    return f"install version {gputui.__version__} there as you did here"


def _path(written: str) -> str:
    """Quote a path, but let the other machine's shell expand a leading `~/`."""
    return f'"$HOME"/{shlex.quote(written[2:])}' if written.startswith("~/") else shlex.quote(written)


def _sharing(alias: str, ssh: str) -> list[str]:
    """Return the ssh options for sharing one connection, or none if the user has configured sharing."""
    if _control_path(alias, ssh):
        return []
    directory = _private_directory()
    if directory is None:
        return []
    path = os.path.join(directory, "ssh-%C")
    return ["-o", "ControlMaster=auto", "-o", f"ControlPath={path}", "-o", f"ControlPersist={_PERSIST}"]


def _control_path(alias: str, ssh: str) -> str:
    """Return the ControlPath in the user's ssh configuration, or "" if there is none."""
    try:
        output = subprocess.run(
            [*shlex.split(ssh), "-G", "--", alias],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=5,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    settings = dict(line.partition(" ")[::2] for line in output.splitlines())
    return "" if settings.get("controlpath", "none") == "none" else settings["controlpath"]


def _private_directory() -> str | None:
    """Return a directory for sockets that only we can write to and whose path is short enough, or None."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    directory = os.path.join(runtime, "gputui") if runtime else os.path.expanduser("~/.ssh")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        about = os.stat(directory)
    except OSError:
        return None
    private = about.st_uid == os.getuid() and not about.st_mode & 0o077
    return (
        directory if private and len(directory) + 48 + 17 < 104 else None
    )  # %C is 40 letters; ssh adds 17 while it binds
