"""The table of job settings: their names, help texts and parsers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeVar, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

from gputui.core.job import HIGHEST_PRIORITY, LOWEST_PRIORITY, JobId, OnHang, OnOom
from gputui.core.results import parse_wanted_metric

from . import values
from .values import BadValue, suggestion

LEARN = "learn"
"""Setting value for a memory size that is learned from other jobs of the group."""

C = TypeVar("C", bound=StrEnum)


def choice(kind: type[C]) -> Callable[[str], C]:
    """Return a parser for the members of an enum."""

    def read(written: str) -> C:
        word = written.strip().lower()
        if word not in tuple(kind):
            raise BadValue(f"unknown value {written!r}; {suggestion(word, tuple(kind))}")
        return kind(word)

    return read


def parse_memory(written: str) -> str:
    return LEARN if written.strip().lower() == LEARN else values.memory(written)


def parse_metric(written: str) -> str:
    """Check a metric. It is returned as written."""
    try:
        parse_wanted_metric(written)
    except ValueError as error:
        raise BadValue(str(error)) from None
    return written.strip()


def parse_retry_on(written: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_failure, values.words(written))))


def retry_on_in_file(value: list[str] | str) -> tuple[str, ...]:
    if isinstance(value, str):
        return parse_retry_on(value)
    if not value:
        raise BadValue("is empty; name a failure or omit the setting")
    return tuple(dict.fromkeys(map(_failure, value)))


def _failure(written: str) -> str:
    from gputui.core.policies import FAILURE_NAMES

    word = written.strip().lower()
    kind, colon, code = word.partition(":")
    if kind == "exit" and colon:
        return f"exit:{values.count(code, lowest=1, highest=255)}"
    if word not in FAILURE_NAMES:
        raise BadValue(f"unknown failure {written!r}; {suggestion(word, (*FAILURE_NAMES, 'exit:75'))}")
    return word


def parse_hang_after(written: str) -> float:
    """Return the number of seconds. 0 and `off` mean never."""
    return 0.0 if written.strip().lower() == "off" else values.duration(written)


Scalar = str | int | float | bool


def written(value: Scalar) -> str:
    """Return a value from a file as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Setting(Struct, frozen=True, kw_only=True):
    """How one field of JobSettings is named, explained, parsed and formatted."""

    help: str
    metavar: str = ""
    """Placeholder for the value in a flag's help, or "" for a flag without a value."""
    read: Callable[[str], Any] = values.text
    """Parses text from a `#:` line, a flag or a form."""
    in_file: Any = str
    """Type of the value in spec files, mappings and Python."""
    from_file: Callable[[Any], Any] | None = None
    """Converts a value of the type `in_file`, or None if the value is parsed as text."""
    write: Callable[[Any], str] = str
    """Formats a value so that `read` returns the same value again."""
    key: str = ""
    """Name of the setting for users, if it differs from the field's name."""
    also: tuple[str, ...] = ()
    """Other accepted names."""
    label: str = ""
    hint: str | None = None
    """Hint in a form, or None if forms omit the setting."""
    in_config: bool = False
    """Whether the setting can be made for all jobs in `gputui.toml`."""
    field: str = ""

    def of(self, value: Any) -> Any:
        """Convert a value of the type `in_file`. Raise BadValue if it is invalid."""
        if self.from_file is not None:
            return self.from_file(value)
        # Not str(): 0.00001 would become 1e-05, which is not a valid duration.
        text = f"{value:f}".rstrip("0").rstrip(".") if isinstance(value, float) else written(value)
        return self.read(text)


MOST_GPUS = 1024
MOST_RETRIES = 1000


def _timeout(written: str) -> float:
    seconds = values.duration(written)
    if seconds <= 0:
        raise BadValue("would stop the job at once; use 90s, 5m, 2h or omit it")
    return seconds


def _dependency(written: str) -> JobId | str:
    """Parse the id (`3`, `#3`) or the name of a job."""
    digits = written.removeprefix("#")
    return values.count(digits) if digits.isascii() and digits.isdigit() else values.text(written)


def _after(written: str) -> tuple[JobId | str, ...]:
    return tuple(map(_dependency, values.words(written)))


def _after_in_file(value: list[int | str] | int | str) -> tuple[JobId | str, ...]:
    # Unlike in text, names in a file may contain commas.
    return tuple(_dependency(str(job)) for job in (value if isinstance(value, list) else [value]))


def _devices_in_file(value: list[str | int] | str | int) -> tuple[str, ...]:
    return values.words(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _variables_in_file(value: dict[str, Scalar]) -> dict[str, str]:
    for name in value:
        if not name or "=" in name or "\0" in name:
            raise BadValue(f"{name!r} is not a name for a variable; write letters, digits and _")
    return {name: written(entry) for name, entry in value.items()}


def _comma_separated(value: Iterable[object]) -> str:
    return ", ".join(map(str, value))


_flag = partial(Setting, read=values.boolean, in_file=bool)


def _whole_number(lowest: int, highest: int, **described: Any) -> Setting:
    read = partial(values.count, lowest=lowest, highest=highest)
    return Setting(metavar="N", read=read, in_file=Annotated[int, Meta(ge=lowest, le=highest)], **described)


class JobSettings(Struct, frozen=True, kw_only=True):
    """The settings of one job. None means that the setting was not given."""

    name: Annotated[str | None, Setting(help="job name", metavar="NAME", hint="default: what differs")] = None
    gpus: Annotated[
        int | None,
        _whole_number(
            0, MOST_GPUS, help="number of GPUs; 0: none (one slot)", label="GPUs", hint="one slot · 2 · 0 for a CPU job"
        ),
    ] = None
    devices: Annotated[
        tuple[str, ...] | None,
        Setting(
            help="only on these GPUs",
            metavar="LIST",
            read=values.words,
            in_file=list[str | int] | str | int,
            from_file=_devices_in_file,
            write=_comma_separated,
        ),
    ] = None
    memory: Annotated[
        str | None,
        Setting(
            help="GPU memory needed: 6G, 500M, 40%, or learn (from its group's use)",
            metavar="SIZE",
            read=parse_memory,
            hint="6G, learn or 40% per GPU: jobs share a GPU while they fit",
        ),
    ] = None
    priority: Annotated[
        int | None,
        _whole_number(
            LOWEST_PRIORITY, HIGHEST_PRIORITY, help="0 to 99, higher first (30)", hint="30 · 0 to 99, higher first"
        ),
    ] = None
    after: Annotated[
        tuple[JobId | str, ...] | None,
        Setting(
            help="start when these have succeeded (ids or names)",
            metavar="JOBS",
            read=_after,
            in_file=list[int | str] | int | str,
            from_file=_after_in_file,
            write=_comma_separated,
            hint="start when these have succeeded: 3, prepare",
        ),
    ] = None
    variables: Annotated[
        dict[str, str] | None,
        Setting(
            help="environment variables",
            metavar="K=V",
            read=values.variables,
            in_file=dict[str, str | int | float | bool],
            from_file=_variables_in_file,
            write=values.variables_text,
            key="env",
            also=("variables",),
            hint="SEED=1 WANDB_MODE=offline",
        ),
    ] = None
    cwd: Annotated[str | None, Setting(help="working directory", metavar="DIR", label="directory", hint="")] = None
    retries: Annotated[
        int | None,
        _whole_number(
            0, MOST_RETRIES, help="retry up to N times if it fails", hint="0 · retries if it fails", in_config=True
        ),
    ] = None
    retry_on: Annotated[
        tuple[str, ...] | None,
        Setting(
            help="retry only on: oom, signal, exit:75, node … (sets retries to 2)",
            metavar="LIST",
            read=parse_retry_on,
            in_file=list[str] | str,
            from_file=retry_on_in_file,
            write=_comma_separated,
            in_config=True,
        ),
    ] = None
    on_oom: Annotated[
        OnOom | None,
        Setting(
            help="after GPU out of memory: alone, bigger (one retry) or fail (alone)",
            metavar="WHAT",
            read=choice(OnOom),
            in_config=True,
        ),
    ] = None
    hang_after: Annotated[
        float | None,
        Setting(
            help="consider it hung after no output and an idle GPU for this long (30m); 0: never",
            metavar="TIME",
            read=parse_hang_after,
            in_file=float | str,
            write=values.duration_text,
            in_config=True,
        ),
    ] = None
    on_hang: Annotated[
        OnHang | None,
        Setting(
            help="if it hangs: notify, kill or requeue (notify)",
            metavar="WHAT",
            read=choice(OnHang),
            in_config=True,
        ),
    ] = None
    metric: Annotated[
        str | None,
        Setting(
            help="metric to compare jobs by: 'val_acc max', or a regex: '/best: ([0-9.]+)/ max'",
            metavar="NAME",
            read=parse_metric,
            hint="val_loss · val_acc max · /best: ([0-9.]+)/ max",
            in_config=True,
        ),
    ] = None
    notify: Annotated[bool | None, _flag(help="notify when it ends or hangs")] = None
    checkpoint: Annotated[bool | None, _flag(help="it can resume from a checkpoint")] = None
    preempt: Annotated[
        bool | None, _flag(help="may preempt a running lower-priority job with checkpoint; needs priority 90 or more")
    ] = None
    timeout: Annotated[
        float | None,
        Setting(
            help="stop it after 90 (seconds), 5m, 2h …",
            metavar="TIME",
            read=_timeout,
            in_file=float | str,
            write=values.duration_text,
            hint="none · 90, 5m, 2h",
            in_config=True,
        ),
    ] = None
    after_any: Annotated[bool | None, _flag(help="start even if jobs in `after` failed")] = None
    hold: Annotated[bool | None, _flag(help="do not start it until released")] = None
    outfile: Annotated[
        str | None, Setting(help="write both streams to this file; it must not exist", metavar="FILE")
    ] = None
    group: Annotated[str | None, Setting(help="group", metavar="NAME", also=("project",))] = None
    budget: Annotated[
        float | None,
        Setting(
            help="start no further job of its group after this GPU time: 20 gpu-h",
            metavar="TIME",
            read=values.gpu_time,
            write=values.gpu_time_text,
        ),
    ] = None
    shell: Annotated[str | None, Setting(help="instead of bash", metavar="SHELL", in_config=True)] = None
    login_shell: Annotated[bool | None, _flag(help="use a login shell (-l)", in_config=True)] = None
    wrap: Annotated[str | None, Setting(help="command prefix: 'apptainer exec --nv x.sif'", metavar="WORDS")] = None
    key: Annotated[
        str | None,
        Setting(help="add it only once: the same key is always the same job", metavar="KEY", read=values.key),
    ] = None
    snapshot: Annotated[
        bool | None, _flag(help="run in a snapshot of the git work tree as it is now", in_config=True)
    ] = None
    task: Annotated[
        str | None, Setting(help="call module:function instead of a shell", metavar="FUNCTION", read=values.task)
    ] = None

    def over(self, defaults: JobSettings) -> JobSettings:
        """Return these settings, with missing ones taken from the defaults. Environment variables are merged."""
        if self == NO_SETTINGS:
            return defaults
        given = {field: getattr(self, field) for field in self.__struct_fields__}
        merged = {field: getattr(defaults, field) if value is None else value for field, value in given.items()}
        if self.variables and defaults.variables:
            merged["variables"] = defaults.variables | self.variables
        return JobSettings(**merged)


NO_SETTINGS = JobSettings()


def _table() -> dict[str, Setting]:
    hints = get_type_hints(JobSettings, include_extras=True)
    named = (replace(hints[field].__metadata__[0], field=field) for field in JobSettings.__struct_fields__)
    return {setting.key or setting.field: replace(setting, key=setting.key or setting.field) for setting in named}


SETTINGS = _table()
"""All settings, by the names that users write."""
_ALSO = {other: setting for setting in SETTINGS.values() for other in setting.also}


def known_setting(written_key: str) -> Setting | None:
    """Return the setting with this name. `after-any` and `after_any` are the same."""
    key = written_key.replace("-", "_")
    return SETTINGS.get(key) or _ALSO.get(key)


# `#:` lines


def settings_in(line: str) -> dict[str, Any]:
    """Parse the settings on a line and return them by field. Raise BadValue if one is invalid."""
    settings: dict[str, Any] = {}
    for word in _split(line):
        field, value = _parse_setting(word)
        if field in settings:
            raise BadValue(f"{field} is given twice; keep one")
        settings[field] = value
    return settings


def _parse_setting(word: str) -> tuple[str, object]:
    """Parse `key=value`, or only a key for a setting without a value."""
    written_key, equals, value = word.partition("=")
    setting = known_setting(written_key)
    if setting is None:
        raise BadValue(_unknown(written_key, bool(equals)))
    if not equals:
        if setting.metavar:
            raise BadValue(f"{setting.key} has no value; use {setting.key}=…")
        return setting.field, True
    try:
        return setting.field, setting.read(value)
    except BadValue as bad:
        raise BadValue(f"{setting.key}: {bad}") from None


def _split(line: str) -> list[str]:
    # shlex is slow, and rarely needed.
    if not any(mark in line for mark in "'\"\\"):
        return line.split()
    from shlex import split

    try:
        return split(line)
    except ValueError as error:
        reason = "unclosed quote" if "quotation" in str(error) else "trailing backslash"
        raise BadValue(f"{reason}; end it on the same line (several #: lines are combined)") from None


def _unknown(key: str, has_value: bool) -> str:
    reason = no_setting(key, SETTINGS)
    if not has_value and "; known: " in reason:
        return f"{key!r} is not key=value; write comments as '# …', not '#: …'"
    return reason


def no_setting(key: str, known_names: Iterable[str]) -> str:
    return f"{key!r} is not a setting; {suggestion(key.lower().replace('-', '_'), known_names)}"
