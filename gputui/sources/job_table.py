"""A job written as a table of settings: in a spec file, or as a mapping that a yielder gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta, Struct

from .command_list import LONGEST_COMMAND
from .settings import NO_SETTINGS, JobSettings
from .tables import BadTable
from .values import BadValue, duration, memory, task, text, words

__all__ = ["JobTable", "Scalar", "checked_command", "written"]

Scalar = str | int | float | bool


class JobTable(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every setting of a job."""

    command: str | None = None
    name: Annotated[str, Meta(description="how the job is called")] | None = None
    project: Annotated[str, Meta(description="the group it belongs to")] | None = None
    group: Annotated[str, Meta(description="the same as project")] | None = None
    gpus: Annotated[int, Meta(ge=0, le=1024, description="how many GPUs; 0: none")] | None = None
    devices: Annotated[list[str | int] | str | int, Meta(description="only on these GPUs")] | None = None
    memory: Annotated[str, Meta(description="GPU memory it will use: 6G, 500M or 40%")] | None = None
    priority: Annotated[int, Meta(ge=0, le=99, description="higher first; 30 if nothing is said")] | None = None
    retries: Annotated[int, Meta(ge=0, le=1000, description="run it again when it fails")] | None = None
    timeout: Annotated[float | str, Meta(description="end it after so many seconds, or 5m, 2h")] | None = None
    after: Annotated[list[int | str] | int | str, Meta(description="ids or names of jobs to wait for")] | None = None
    after_any: Annotated[bool, Meta(description="go on however those ended")] | None = None
    hold: Annotated[bool, Meta(description="do not start it before it is released")] | None = None
    cwd: Annotated[str, Meta(description="the folder it runs in")] | None = None
    outfile: Annotated[str, Meta(description="both streams into this file, which must not exist")] | None = None
    shell: Annotated[str, Meta(description="instead of bash")] | None = None
    login_shell: Annotated[bool, Meta(description="under a login shell")] | None = None
    env: Annotated[dict[str, str | int | float | bool], Meta(description="variables of this job")] | None = None
    wrap: Annotated[str, Meta(description="words before its shell: apptainer exec --nv x.sif")] | None = None
    task: Annotated[str, Meta(description="call module:function instead of a shell")] | None = None

    def settings(self) -> JobSettings:
        """BadTable names the key that is wrong."""
        if self.project is not None and self.group is not None:
            raise BadTable("project and group are the same thing; keep one", ("group",))
        said = {
            "name": self._read("name", text),
            "group": self._read("project", text) or self._read("group", text),
            "devices": self._read("devices", _devices),
            "memory": self._read("memory", memory),
            "timeout": self._read("timeout", _timeout),
            "after": self._read("after", _after),
            "cwd": self._read("cwd", text),
            "outfile": self._read("outfile", text),
            "shell": self._read("shell", text),
            "wrap": self._read("wrap", text),
            "task": self._read("task", task),
            "variables": self._read("env", _variables),
        }
        plain = ("gpus", "priority", "retries", "after_any", "hold", "login_shell")
        said |= {key: getattr(self, key) for key in plain}
        said = {key: value for key, value in said.items() if value is not None}
        return JobSettings(**said) if said else NO_SETTINGS

    def _read(self, key: str, reader: Callable[[Any], Any]) -> Any:
        value = getattr(self, key)
        if value is None:
            return None
        try:
            return reader(value)
        except BadValue as bad:
            raise BadTable(f"{key}: {bad}", (key,)) from None


def _devices(value: list[str | int] | str | int) -> tuple[str, ...]:
    return words(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _after(value: list[int | str] | int | str) -> tuple[int | str, ...]:
    """A number is an id; text is a name, but for one that is all digits."""
    return tuple(int(one) if str(one).isdecimal() and str(one).isascii() else text(str(one)) for one in
                 (value if isinstance(value, list) else [value]))  # fmt: skip


def _timeout(value: float | str) -> float:
    seconds = duration(value) if isinstance(value, str) else duration(f"{value:f}".rstrip("0").rstrip("."))
    if seconds <= 0:
        raise BadValue("would end the job at once; write 90, 5m, 2h or leave it out")
    return seconds


def _variables(value: dict[str, Scalar]) -> dict[str, str]:
    for key in value:
        if not key or "=" in key or "\0" in key:
            raise BadValue(f"{key!r} is no name of a variable")
    return {key: written(one) for key, one in value.items()}


def written(value: Scalar) -> str:
    """A value as a command has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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
