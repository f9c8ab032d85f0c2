"""The table of job settings: names, help, parsers and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import replace

from gputui.core.job import HIGHEST_PRIORITY, LOWEST_PRIORITY, JobId, OnHang, OnOom
from gputui.core.results import wanted_of

from . import values
from .values import BadValue

# ---- What a user writes of how a job is treated and judged ----


LEARN = "learn"
"""Instead of a size: what jobs of the group were seen to use."""

C = TypeVar("C", bound=StrEnum)


def choice(kind: type[C]) -> Callable[[str], C]:
    """One of a few words."""

    def read(written: str) -> C:
        word = written.strip().lower()
        if word not in tuple(kind):
            raise BadValue(f"{written!r} is not known{_near(word, tuple(kind))}")
        return kind(word)

    return read


def parse_memory(written: str) -> str:
    return LEARN if written.strip().lower() == LEARN else values.memory(written)


def parse_metric(written: str) -> str:
    """As it was written: what it means is read from it again."""
    try:
        wanted_of(written)
    except ValueError as error:
        raise BadValue(str(error)) from None
    return written.strip()


def parse_retry_on(written: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_failure, values.words(written))))


def retry_on_in_file(value: list[str] | str) -> tuple[str, ...]:
    if isinstance(value, str):
        return parse_retry_on(value)
    if not value:
        raise BadValue("is empty; name a failure or leave the setting out")
    return tuple(dict.fromkeys(map(_failure, value)))


def _failure(written: str) -> str:
    from gputui.core.policies import KNOWN

    word = written.strip().lower()
    kind, colon, code = word.partition(":")
    if kind == "exit" and colon:
        return f"exit:{values.count(code, lowest=1, highest=255)}"
    if word not in KNOWN:
        raise BadValue(f"{written!r} is not a failure that is known{_near(word, (*KNOWN, 'exit:75'))}")
    return word


def parse_hang_after(written: str) -> float:
    """Seconds; `off` and 0: never."""
    return 0.0 if written.strip().lower() == "off" else values.duration(written)


def hang_after_in_file(value: float | str) -> float:
    return parse_hang_after(value if isinstance(value, str) else f"{value:f}".rstrip("0").rstrip("."))


def _near(word: str, choices: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, choices, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(dict.fromkeys(choices))}"


# ---- One thing that can be said of a job ----


Scalar = str | int | float | bool


def written(value: Scalar) -> str:
    """A value of a file as words have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Setting(Struct, frozen=True, kw_only=True):
    """A row of the table `settings.JobSettings`."""

    help: str
    metavar: str = ""
    """What stands for its value behind a flag; empty: yes or no."""
    read: Callable[[str], Any] = values.text
    """Its value from words: in a `#:` line, behind a flag, in a form."""
    in_file: Any = str
    """What it may be in spec files, mappings and Python."""
    from_file: Callable[[Any], Any] | None = None
    """Its value from that; None: as if it had been written as words."""
    write: Callable[[Any], str] = str
    """Words that are read as just this value."""
    key: str = ""
    """How users call it, if not by its field's name."""
    also: tuple[str, ...] = ()
    """What else they may call it."""
    label: str = ""
    hint: str | None = None
    """In a form; None: forms do not ask for it."""
    in_config: bool = False
    """`gputui.toml` may say it for all jobs."""
    field: str = ""

    def of(self, value: Any) -> Any:
        """From a value that fits `in_file`; BadValue says why it cannot be."""
        return self.read(written(value)) if self.from_file is None else self.from_file(value)


# ---- All that can be said of a job ----


MOST_GPUS = 1024
MOST_RETRIES = 1000


def _gpus(written: str) -> int:
    return values.count(written, highest=MOST_GPUS)


def _retries(written: str) -> int:
    return values.count(written, highest=MOST_RETRIES)


def _timeout(written: str) -> float:
    seconds = values.duration(written)
    if seconds <= 0:
        raise BadValue("would end the job at once; write 90s, 5m, 2h or leave it out")
    return seconds


def _timeout_in_file(value: float | str) -> float:
    return _timeout(value if isinstance(value, str) else f"{value:f}".rstrip("0").rstrip("."))


def _earlier(written: str) -> JobId | str:
    """Job ids are digits, as they are or as `#3`; anything else is a name."""
    digits = written.removeprefix("#")
    return values.count(digits) if digits.isascii() and digits.isdigit() else values.text(written)


def _after(written: str) -> tuple[JobId | str, ...]:
    return tuple(map(_earlier, values.words(written)))


def _after_in_file(value: list[int | str] | int | str) -> tuple[JobId | str, ...]:
    """Names in a file may hold commas."""
    return tuple(_earlier(str(job)) for job in (value if isinstance(value, list) else [value]))


def _devices_in_file(value: list[str | int] | str | int) -> tuple[str, ...]:
    return values.words(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _variables_in_file(value: dict[str, Scalar]) -> dict[str, str]:
    for name in value:
        if not name or "=" in name or "\0" in name:
            raise BadValue(f"{name!r} is not a name for a variable; write letters, digits and _")
    return {name: written(entry) for name, entry in value.items()}


def _comma_separated(value: Iterable[object]) -> str:
    return ", ".join(map(str, value))


class JobSettings(Struct, frozen=True, kw_only=True):
    """What was said about one job; None: nothing was said, so a default below may decide."""

    name: Annotated[
        str | None, Setting(help="how the job is called", metavar="NAME", hint="what differs from its group")
    ] = None
    gpus: Annotated[
        int | None,
        Setting(
            help="how many GPUs; 0: none (one lane)",
            metavar="N",
            read=_gpus,
            in_file=Annotated[int, Meta(ge=0, le=MOST_GPUS)],
            label="GPUs",
            hint="one lane · 2 · 0 for a CPU job",
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
            help="GPU memory it will use: 6G, 500M, 40%, or learn: what its group was seen to use",
            metavar="SIZE",
            read=parse_memory,
            hint="6G, learn or 40% on each GPU: several jobs share a card while they fit",
        ),
    ] = None
    priority: Annotated[
        int | None,
        Setting(
            help="0 to 99, higher first (30)",
            metavar="N",
            read=values.priority,
            in_file=Annotated[int, Meta(ge=LOWEST_PRIORITY, le=HIGHEST_PRIORITY)],
            hint="30 · 0 to 99, higher first",
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
            help="variables of this job",
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
    cwd: Annotated[
        str | None, Setting(help="where it runs, instead of here", metavar="DIR", label="folder", hint="")
    ] = None
    retries: Annotated[
        int | None,
        Setting(
            help="run it again when it fails, up to N times",
            metavar="N",
            read=_retries,
            in_file=Annotated[int, Meta(ge=0, le=MOST_RETRIES)],
            hint="0 · how often to try again when it fails",
            in_config=True,
        ),
    ] = None
    retry_on: Annotated[
        tuple[str, ...] | None,
        Setting(
            help="only after these failures: oom, signal, exit:75, node … (retries: 2 if not said)",
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
            help="when its card was full, once more: alone on its card, on a bigger one, or fail (alone)",
            metavar="WHAT",
            read=choice(OnOom),
            in_config=True,
        ),
    ] = None
    hang_after: Annotated[
        float | None,
        Setting(
            help="no output and an idle GPU for so long means that it hangs (30m); 0: never",
            metavar="TIME",
            read=parse_hang_after,
            in_file=float | str,
            from_file=hang_after_in_file,
            write=values.duration_text,
            in_config=True,
        ),
    ] = None
    on_hang: Annotated[
        OnHang | None,
        Setting(
            help="when it hangs: notify, kill or requeue (notify)",
            metavar="WHAT",
            read=choice(OnHang),
            in_config=True,
        ),
    ] = None
    metric: Annotated[
        str | None,
        Setting(
            help="compare jobs by this result, 'val_acc max', or find it by '/best: ([0-9.]+)/ max'",
            metavar="NAME",
            read=parse_metric,
            hint="val_loss · val_acc max · /best: ([0-9.]+)/ max",
            in_config=True,
        ),
    ] = None
    notify: Annotated[bool | None, Setting(help="tell me when it ends or hangs", read=values.boolean, in_file=bool)] = (
        None
    )
    checkpoint: Annotated[
        bool | None,
        Setting(help="it goes on where it was when it is started again", read=values.boolean, in_file=bool),
    ] = None
    preempt: Annotated[
        bool | None,
        Setting(
            help="a running job with checkpoint and a lower priority gives way to it; needs priority 90 or more",
            read=values.boolean,
            in_file=bool,
        ),
    ] = None
    timeout: Annotated[
        float | None,
        Setting(
            help="end it after 90 (seconds), 5m, 2h …",
            metavar="TIME",
            read=_timeout,
            in_file=float | str,
            from_file=_timeout_in_file,
            write=values.duration_text,
            hint="none · 90, 5m, 2h",
            in_config=True,
        ),
    ] = None
    after_any: Annotated[
        bool | None, Setting(help="start however those of `after` ended", read=values.boolean, in_file=bool)
    ] = None
    hold: Annotated[
        bool | None, Setting(help="do not start it before it is released", read=values.boolean, in_file=bool)
    ] = None
    outfile: Annotated[
        str | None, Setting(help="both streams into this file, which must not exist", metavar="FILE")
    ] = None
    group: Annotated[str | None, Setting(help="the group it belongs to", metavar="NAME", also=("project",))] = None
    shell: Annotated[str | None, Setting(help="instead of bash", metavar="SHELL", in_config=True)] = None
    login_shell: Annotated[
        bool | None, Setting(help="under a login shell (-l)", read=values.boolean, in_file=bool, in_config=True)
    ] = None
    wrap: Annotated[
        str | None, Setting(help="words before its shell: 'apptainer exec --nv x.sif'", metavar="WORDS")
    ] = None
    task: Annotated[
        str | None, Setting(help="call module:function instead of a shell", metavar="FUNCTION", read=values.task)
    ] = None

    def over(self, defaults: JobSettings) -> JobSettings:
        """These, and the defaults where these say nothing; variables add up."""
        if self == NO_SETTINGS:
            return defaults
        merged: dict[str, Any] = {}
        for field in self.__struct_fields__:
            said = getattr(self, field)
            merged[field] = getattr(defaults, field) if said is None else said
        if self.variables and defaults.variables:
            merged["variables"] = defaults.variables | self.variables
        return JobSettings(**merged)


NO_SETTINGS = JobSettings()


def _table() -> dict[str, Setting]:
    hints = get_type_hints(JobSettings, include_extras=True)
    named = (replace(hints[field].__metadata__[0], field=field) for field in JobSettings.__struct_fields__)
    return {setting.key or setting.field: replace(setting, key=setting.key or setting.field) for setting in named}


SETTINGS = _table()
"""By the names that users write."""
_ALSO = {other: setting for setting in SETTINGS.values() for other in setting.also}


def known_setting(written_key: str) -> Setting | None:
    """The setting that is called so; `after-any` and `after_any` are the same."""
    key = written_key.replace("-", "_")
    return SETTINGS.get(key) or _ALSO.get(key)


# ---- Settings in words, as `#:` lines have them ----


def settings_in(line: str) -> dict[str, Any]:
    """The settings in a line, by field; BadValue says what is wrong."""
    said: dict[str, Any] = {}
    for word in _split(line):
        field, value = parse_setting(word)
        if field in said:
            raise BadValue(f"{field} is given twice; keep one")
        said[field] = value
    return said


def parse_setting(word: str) -> tuple[str, object]:
    """One `key=value` word; a yes-or-no setting may stand alone."""
    written_key, equals, value = word.partition("=")
    setting = known_setting(written_key)
    if setting is None:
        raise BadValue(_unknown(written_key, bool(equals)))
    if not equals:
        if setting.metavar:
            raise BadValue(f"{setting.key} has no value; write {setting.key}=…")
        return setting.field, True
    try:
        return setting.field, setting.read(value)
    except BadValue as bad:
        raise BadValue(f"{setting.key}: {bad}") from None


def _split(line: str) -> list[str]:
    """As the shell would; its slow splitter only where there is something to unquote."""
    if not any(mark in line for mark in "'\"\\"):
        return line.split()
    from shlex import split

    try:
        return split(line)
    except ValueError as error:
        reason = "a quote is not closed" if "quotation" in str(error) else "it ends in a backslash"
        raise BadValue(f"{reason}; close it on the same line (several #: lines add up)") from None


def _unknown(key: str, has_value: bool) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.lower().replace("-", "_"), SETTINGS, n=1)
    if near:
        return f"{key!r} is not a setting; did you mean {near[0]}?"
    if not has_value:
        return f"{key!r} is no key=value; write a comment as '# …', not '#: …'"
    return f"{key!r} is not a setting; known are {', '.join(SETTINGS)}"
