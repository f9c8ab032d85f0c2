"""A job's settings as TOML, for people to edit, and back."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from msgspec.structs import replace

from gputui.core.job import JobSpec
from gputui.session.messages import ShownJob
from gputui.sources.documents import BadTable
from gputui.sources.job_table import checked_command, read_table
from gputui.sources.settings import SETTINGS, Setting
from gputui.sources.source import changed_spec, settings_of

_SHOWN = {key: setting for key, setting in SETTINGS.items() if key != "hold"}
"""Holding and releasing have verbs of their own."""
_NOTHING: tuple[Any, ...] = ("", [], {})
"""What stands for a setting of which nothing is said."""


class BadText(Exception):
    """The message is the sentence the user reads."""


def text_of(shown: ShownJob) -> str:
    spec = shown.spec
    values = _values(spec) | {"priority": shown.priority}
    lines = [
        f"# Job {shown.id} of gputui. Save and leave to change it; leave it as it is to change nothing.",
        f"command = {_toml(spec.command)}",
        *(f"{key} = {_toml(values[key])}  # {setting.help}" for key, setting in _SHOWN.items()),
    ]
    return "\n".join(lines) + "\n"


def _values(spec: JobSpec) -> dict[str, Any]:
    """Each setting as the text has it."""
    said = settings_of(spec)
    values = {key: getattr(said, setting.field) for key, setting in _SHOWN.items()}
    return {key: _nothing(_SHOWN[key]) if value is None else _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _nothing(setting: Setting) -> Any:
    if not setting.metavar:
        return False
    return {} if setting.field == "variables" else [] if setting.field in ("after", "devices") else ""


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value and "'''" not in value and value.replace("\n", "").isprintable():
            return f"'''\n{value}'''"
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{ " + ", ".join(f"{_quoted(key)} = {_toml(entry)}" for key, entry in value.items()) + " }"
    return str(value)


def _quoted(text: str) -> str:
    """JSON's way of writing text is TOML's too, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def spec_in(text: str, job: JobSpec, path: str) -> JobSpec:
    """The spec that the text means; BadText names the file and the key that is wrong."""
    try:
        return _spec(tomllib.loads(text), job)
    except tomllib.TOMLDecodeError as error:
        raise BadText(f"{path} is no TOML: {error}") from None
    except BadTable as error:
        raise BadText(f"{path}: {error}") from None


def _spec(table: dict[str, Any], job: JobSpec) -> JobSpec:
    """What was left as it is stays, also where nobody could write it so today."""
    values_before = _values(job)
    written = {key: value for key, value in table.items() if key not in values_before or value != values_before[key]}
    read = read_table({key: value for key, value in written.items() if key == "command" or value not in _NOTHING})
    if read.command != job.command:
        checked_command(read.command)
    unset = {setting.field: None for key, setting in _SHOWN.items() if key in written or key not in table}
    said = {field: value for field in unset if (value := getattr(read.settings, field)) is not None}
    return changed_spec(job, read.command or "", replace(settings_of(job), **unset | said))
