"""A job as fields that a person fills in, and back. Pure but for one look whether the folder is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from gputui.core.job import DEFAULT_PRIORITY, JobSpec
from gputui.sources.settings.setting import Setting
from gputui.sources.settings.table import SETTINGS
from gputui.sources.source import changed_spec, settings_of


class BadField(ValueError):
    """What is wrong with one field, in words."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    hint: str


COMMAND = "command"
_ASKED_FOR = {setting.field: setting for setting in SETTINGS.values() if setting.hint is not None}
FIELDS = (
    Field(COMMAND, COMMAND, "python train.py --lr 0.1      ↑ ↓ earlier ones"),
    *(Field(name, setting.label or setting.key, setting.hint or "") for name, setting in _ASKED_FOR.items()),
)


def texts_of(spec: JobSpec, priority_now: int | None = None) -> dict[str, str]:
    """What the fields say for a job that is there."""
    priority = spec.priority if priority_now is None else priority_now
    said = replace(settings_of(spec), priority=None if priority == DEFAULT_PRIORITY else priority)
    return {COMMAND: spec.command} | {
        name: "" if (value := getattr(said, name)) is None else setting.write(value)
        for name, setting in _ASKED_FOR.items()
    }


def spec_of(texts: dict[str, str], before: JobSpec) -> JobSpec:
    """The job that the fields describe; the first that is wrong raises BadField."""
    said = {name: _read(name, texts[name].strip(), _reader(setting)) for name, setting in _ASKED_FOR.items()}
    settings = replace(settings_of(before), **said)
    return changed_spec(before, _read(COMMAND, texts[COMMAND].strip(), _command, needed=True), settings)


def _reader(setting: Setting) -> Callable[[str], Any]:
    return _folder if setting.field == "cwd" else setting.read


def _read(name: str, written: str, reader: Callable[[str], Any], *, needed: bool = False) -> Any:
    if not written and not needed:
        return None
    try:
        return reader(written)
    except ValueError as error:
        raise BadField(name, str(error)) from None


def _command(written: str) -> str:
    if not written:
        raise ValueError("what is to run?")
    if "\0" in written:
        raise ValueError("a NUL byte can be in no command")
    return written


def _folder(written: str) -> str:
    path = os.path.abspath(os.path.expanduser(written))
    if not os.path.isdir(path):
        raise ValueError(f"there is no folder {path}")
    return path
