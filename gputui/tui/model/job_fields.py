"""A job as fields that a person fills in, and back. Pure but for one look whether the folder is there."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from gputui.core.job import JobSpec, Request
from gputui.core.parameters import following
from gputui.sources.values import BadValue, bytes_or_share, count, duration, priority, text, words

MOST_GPUS, MOST_RETRIES = 1024, 1000
PLACES = range(10)
"""Digits after the point that a number may need."""


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


FIELDS = (
    Field("command", "command", "python train.py --lr 0.1      ↑ ↓ earlier ones"),
    Field("name", "name", "what differs from its group"),
    Field("gpus", "GPUs", "one lane · 2 · 0 for a CPU job"),
    Field("memory", "memory", "6G or 40% on each GPU: several jobs share a card while they fit"),
    Field("priority", "priority", "30 · 0 to 99, higher first"),
    Field("after", "after", "start when these have succeeded: 3, prepare"),
    Field("variables", "env", "SEED=1 WANDB_MODE=offline"),
    Field("cwd", "folder", ""),
    Field("retries", "retries", "0 · how often to try again when it fails"),
    Field("timeout", "timeout", "none · 90, 5m, 2h"),
)


def texts_of(spec: JobSpec, priority_now: int | None = None) -> dict[str, str]:
    """What the fields say for a job that is there."""
    request = spec.request
    number = priority_now if priority_now is not None else spec.priority
    return {
        "command": spec.command,
        "name": spec.name or "",
        "gpus": "" if request.gpus is None else str(request.gpus),
        "memory": _memory_text(request),
        "priority": "" if number == JobSpec(command="", cwd="", environment="").priority else str(number),
        "after": ", ".join(map(str, spec.after)),
        "variables": " ".join(f"{key}={shlex.quote(value)}" for key, value in spec.variables.items()),
        "cwd": spec.cwd,
        "retries": str(spec.retries or ""),
        "timeout": _shortest((f"{spec.timeout:.{places}f}" for places in PLACES), duration, spec.timeout)
        if spec.timeout
        else "",
    }


def _memory_text(request: Request) -> str:
    if request.memory_share is not None:
        percent = round(100 * request.memory_share, len(PLACES))
        return _shortest((f"{percent:.{places}f}%" for places in PLACES), lambda text: float(text[:-1]), percent)
    if request.memory is None:
        return ""
    sizes = [(request.memory / 1024 ** " KMGT".index(unit), unit) for unit in "TGMK"]
    written = (f"{size:.{places}f}{unit}" for places in PLACES for size, unit in sizes)
    return _shortest(written, bytes_or_share, (request.memory, None))


def _shortest(ways: Iterable[str], reader: Callable[[str], object], value: object) -> str:
    """The first way to write the value that is read as just this value."""
    written = ""
    for written in ways:
        with suppress(BadValue):
            if reader(written) == value:
                break
    return written


def spec_of(texts: dict[str, str], before: JobSpec) -> JobSpec:
    """The job that the fields describe; the first that is wrong raises BadField."""
    said = {name: _read(name, written.strip(), reader) for name, written, reader in _given(texts)}
    memory, share = said.get("memory") or (None, None)
    fresh = JobSpec(command="", cwd="", environment="")
    written = replace(
        before,
        command=said["command"],
        name=said.get("name"),
        request=replace(before.request, gpus=said.get("gpus"), memory=memory, memory_share=share),
        priority=said.get("priority", fresh.priority),
        after=said.get("after", ()),
        variables=said.get("variables", {}),
        cwd=said.get("cwd", before.cwd),
        retries=said.get("retries", 0),
        timeout=said.get("timeout"),
    )
    return following(written, before)


def _given(texts: dict[str, str]) -> list[tuple[str, str, Callable[[str], Any]]]:
    """The fields that say something; the command must."""
    return [(name, texts[name], READERS[name]) for name in texts if texts[name].strip() or name == "command"]


def _read(name: str, written: str, reader: Callable[[str], Any]) -> Any:
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


def _after(written: str) -> tuple[int | str, ...]:
    return tuple(int(word.removeprefix("#")) if word.removeprefix("#").isdecimal() else word for word in words(written))


def _variables(written: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(written)]
    except ValueError as error:
        raise ValueError(f"{written!r}: {error}") from None
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise ValueError(f"{name!r} is no NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _folder(written: str) -> str:
    path = os.path.abspath(os.path.expanduser(written))
    if not os.path.isdir(path):
        raise ValueError(f"there is no folder {path}")
    return path


def _timeout(written: str) -> float:
    seconds = duration(written)
    if seconds <= 0:
        raise ValueError("would end it at once; leave it empty for no limit")
    return seconds


READERS: dict[str, Callable[[str], Any]] = {
    "command": _command,
    "name": text,
    "gpus": lambda written: count(written, highest=MOST_GPUS),
    "memory": bytes_or_share,
    "priority": priority,
    "after": _after,
    "variables": _variables,
    "cwd": _folder,
    "retries": lambda written: count(written, highest=MOST_RETRIES),
    "timeout": _timeout,
}
