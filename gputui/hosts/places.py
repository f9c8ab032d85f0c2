"""What is known of a machine under its ssh alias: which gputui to start there, and in which folder.

The user's own settings say so (`[host."lab7"]`); a folder that was named once, `--host lab7:runs`, is remembered.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from contextlib import suppress
from typing import NamedTuple

from gputui.session.config import Config, user_file

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
        raise BadHost(f"{written!r} is no host: write --host lab7, me@lab7, or lab7:FOLDER")
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
