"""The ssh command lines for another machine, and where gputui is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from gputui.session.config import Config, user_file

# ---- What is known of a machine under its ssh alias ----


ANY = "any"
_ALIAS = re.compile(r"[\w][\w.@%+-]*|\[[0-9a-fA-F:]+\]")
"""What ssh takes as a destination and no shell or option parser takes as something else."""


class BadHost(ValueError):
    """The message is the sentence the user reads."""


class HostPlace(NamedTuple):
    """A machine, and where on it."""

    alias: str
    gputui: str = ""
    """Its command there; empty: the one that is found."""
    folder: str = ""
    """Empty: the home."""


def named(written: str) -> tuple[str, str]:
    """`lab7` or `lab7:runs/sweep`: the alias, and the folder if one was named."""
    alias, colon, folder = written.partition(":")
    if written.startswith("["):
        alias, closing, rest = written.partition("]")
        alias, (colon, folder) = alias + closing, (rest[:1], rest[1:])
    if _ALIAS.fullmatch(alias) is None:
        raise BadHost(f"{written!r} is not a host: write --host lab7, me@lab7, or lab7:FOLDER")
    if colon and not folder:
        raise BadHost(f"{written!r} names no folder: write {alias}:FOLDER, or just {alias}")
    return alias, folder


def place_of(written: str, config: Config) -> HostPlace:
    """What is named wins over what is set, and that over what is remembered."""
    alias, folder = named(written)
    settings = config.host(alias)
    return HostPlace(alias, settings.get("gputui", ""), folder or settings.get("folder") or remembered().get(alias, ""))


def listed(written: str | None, config: Config) -> list[HostPlace]:
    """The machines of `--host lab7,lab8`, or else of the setting `hosts`; each once."""
    names = written.split(",") if written is not None else config.get("hosts")[0] or ()
    places = {name.strip(): place_of(name.strip(), config) for name in names if name.strip()}
    if written is not None and not places:
        raise BadHost("--host names no host: write --host lab7, or --host lab7,lab8")
    return list(places.values())


def notes_file() -> str:
    """Beside the user's settings, and written by us: a settings file of the user's is never changed."""
    return os.path.join(os.path.dirname(user_file()), "hosts.toml")


def remembered() -> dict[str, str]:
    """The folder of each alias; a file that cannot be read is no reason not to work."""
    try:
        with open(notes_file(), "rb") as opened:
            table = tomllib.load(opened)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}
    notes = ((alias, note.get("folder")) for alias, note in table.items() if isinstance(note, dict))
    return {alias: folder for alias, folder in notes if isinstance(folder, str)}


def remember(alias: str, folder: str) -> bool:
    """Whether that is news and could be kept."""
    notes = remembered()
    if notes.get(alias) == folder:
        return False
    notes[alias] = folder
    text = "".join(f"[{json.dumps(name)}]\nfolder = {json.dumps(where)}\n" for name, where in notes.items())
    file = notes_file()
    with suppress(OSError):
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file + ".new", "w", encoding="utf-8") as opened:
            opened.write(f"# Folders that --host was given; written by gputui.\n{text}")
        os.replace(file + ".new", file)
        return True
    return False


# ---- The command lines that start gputui on another machine ----


CONNECT_SECONDS = 5
FAILED = 255
"""ssh itself failed; every other status is the command's own."""
NOT_THERE = 127
_LASTING = "60"
"""Seconds that a shared connection outlives its last use: the next verb needs no new one."""
_HANDED_ON = ("COLORTERM", "NO_COLOR")
"""What the screen must know of the terminal, and ssh does not tell by itself."""
HOST_VARIABLE = "GPUTUI_HOST"
"""Tells gputui there by which name it was called, so that its messages can say so (see `cli/output.py`)."""
_FIND = """\
g=$(command -v gputui || command -v "$HOME/.local/bin/gputui" || "${SHELL:-sh}" -lc 'command -v gputui' 2>/dev/null \
| tail -n 1); [ -x "$g" ] || { echo "gputui is not found on this machine" >&2; exit 127; }"""
"""Commands of users often lie where only their login shell looks."""


def ssh_words(
    place: HostPlace, words: Iterable[str], ssh: str, *, terminal: bool, ask: bool = True, host: str = ""
) -> list[str]:
    """The whole command line; `ask=False`: a machine that would ask for something fails instead.

    `host`: the machine as the user named it, for the messages that gputui prints there.
    """
    options = ["-t" if terminal else "-T", *_sharing(place.alias, ssh), "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    options += [] if ask else ["-o", "BatchMode=yes"]
    handed_on = {name: os.environ.get(name, "") for name in _HANDED_ON} if terminal else {}
    script = remote_script(place, words, {**handed_on, HOST_VARIABLE: host})
    # Users' shells differ; all of them start sh with two quoted words.
    return [*shlex.split(ssh), *options, "--", place.alias, f"exec sh -c {shlex.quote(script)}"]


def remote_script(place: HostPlace, words: Iterable[str], environment: Mapping[str, str]) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if value]
    folder = f"cd {_path(place.folder)} || exit" if place.folder else ""
    command = f"g={_path(place.gputui)}" if place.gputui else _FIND
    steps = [*exports, folder, command, f'exec "$g" {shlex.join(words)}'.rstrip()]
    return "; ".join(step for step in steps if step)


def how_to_install() -> str:
    """How another machine gets this gputui: from where this copy came. A name on a package index may be anybody's."""
    import gputui

    checkout = os.path.dirname(os.path.dirname(os.path.abspath(gputui.__file__)))
    if os.path.exists(os.path.join(checkout, "pyproject.toml")):
        return _copy_and_install(checkout)
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        source = json.loads(distribution("gputui").read_text("direct_url.json") or "{}")  # PEP 610
    except (PackageNotFoundError, OSError, ValueError):
        source = {}
    url, vcs = str(source.get("url", "")), source.get("vcs_info")
    if url.startswith("file://") and not vcs:
        return _copy_and_install(unquote(url.removeprefix("file://")).rstrip("/"))
    if not url:
        return f"install version {gputui.__version__} there as you did here"
    subdirectory = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
    origin = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url
    return f"install it there: pipx install {shlex.quote(origin + subdirectory)}"


def _copy_and_install(path: str) -> str:
    return f"copy {shlex.quote(path)} there, then: pipx install {shlex.quote('./' + os.path.basename(path))}"


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
            [*shlex.split(ssh), "-G", "--", alias],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=5,
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
