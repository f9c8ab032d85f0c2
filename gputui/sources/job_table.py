"""A job written as a table of settings: in a spec file, or as a mapping that a yielder gave."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from .command_list import LONGEST_COMMAND
from .documents import BadTable, Place, converted, no_setting
from .settings import NO_SETTINGS, SETTINGS, JobSettings, Setting, known_setting
from .values import BadValue

__all__ = ["JobTable", "checked_command", "read_table", "table_schema"]

COMMAND = "command"


class JobTable(Struct, frozen=True):
    """What one table says."""

    command: str | None = None
    settings: JobSettings = NO_SETTINGS


def read_table(value: object, place: Place = (), others: Collection[str] = ()) -> JobTable:
    """BadTable with the place of what is wrong. `others`: keys that are somebody else's to read."""
    table = converted(value, dict[str, Any], place)
    said: dict[str, Any] = {}
    written_as: dict[str, str] = {}
    for key, entry in table.items():
        if key in others or key == COMMAND or entry is None:
            continue
        setting = known_setting(key) if "-" not in key else None
        if setting is None:
            raise BadTable(no_setting(key, [COMMAND, *SETTINGS, *others]), (*place, key))
        if setting.field in written_as:
            reason = f"{written_as[setting.field]} and {key} are the same thing; keep one"
            raise BadTable(reason, (*place, key))
        written_as[setting.field] = key
        said[setting.field] = _read(setting, entry, (*place, key))
    command = converted(table[COMMAND], str, (*place, COMMAND)) if table.get(COMMAND) is not None else None
    return JobTable(command, JobSettings(**said) if said else NO_SETTINGS)


def _read(setting: Setting, value: object, place: Place) -> Any:
    fitting = converted(value, setting.in_file, place)
    try:
        return setting.of(fitting)
    except BadValue as bad:
        raise BadTable(f"{place[-1]}: {bad}", place) from None


def table_schema(others: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of such a table, for editors."""
    import msgspec

    properties: dict[str, Any] = {COMMAND: {"type": "string", "description": "what a shell runs"}}
    for key, setting in SETTINGS.items():
        for name in (key, *setting.also):
            properties[name] = {**msgspec.json.schema(setting.in_file), "description": setting.help}
    return {"type": "object", "properties": {**properties, **(others or {})}, "additionalProperties": False}


def checked_command(command: str | None) -> str:
    """The command, if it can be one; BadTable says why not."""
    if command is None or not command.strip():
        raise BadTable("command is missing" if command is None else "command is empty", ("command",))
    if "\0" in command:
        raise BadTable("command holds a NUL byte; remove it", ("command",))
    try:
        if len(command.encode()) > LONGEST_COMMAND:
            reason = f"command is longer than the {LONGEST_COMMAND} bytes it may have"
            raise BadTable(f"{reason}; put it in a script and call that", ("command",))
    except UnicodeEncodeError:
        raise BadTable("command is not UTF-8", ("command",)) from None
    return command.strip("\n")
