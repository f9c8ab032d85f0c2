"""The settings of gputui.toml, config.toml and GPUTUI_* variables, and the table of session options."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from gputui.core.events import Settings
from gputui.core.job import JobSpec
from gputui.sources import values
from gputui.sources.settings import SETTINGS, JobSettings

from .errors import ConfigError as ConfigError

# Parsing values


T = TypeVar("T")


def _listed(written: Any) -> str:
    return ",".join(map(str, written)) if isinstance(written, list) else str(written)


def _names(written: Any) -> list[str]:
    names = written.split(",") if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'invalid list {written!r}: use ["lab7", "lab8"]')
    return [name.strip() for name in names if name.strip()]


def _of(parse: Callable[[str], T]) -> Callable[[Any], T]:
    """Return a parser for TOML values that also accepts numbers and booleans."""
    return lambda written: parse(str(written))


def _positive_seconds(written: Any) -> float:
    seconds = values.duration(str(written))
    if seconds <= 0:
        raise ValueError("must be above 0; omit it for no limit")
    return seconds


def _probe(written: Any) -> float | str:
    return values.probe_wait("off" if written is False else str(written))


def text_value(written: Any) -> str:
    if not isinstance(written, str):
        raise ValueError(f"{written!r} is not a string: put it in quotes")
    return values.text(written)


def _bytes(written: Any) -> int:
    size, _ = values.bytes_or_share(str(written))
    if size is None:
        raise ValueError(f"{written!r} is not a size: use 500M or 2G")
    return size


def _engine(written: Any) -> str:
    if written not in ("local", "slurm"):
        raise ValueError(f"invalid engine {written!r}: use local or slurm")
    return str(written)


def _words(written: Any) -> tuple[str, ...]:
    """Parse a list, or a string that is split like a command line."""
    return tuple(map(str, written)) if isinstance(written, list) else tuple(shlex.split(text_value(written)))


# The tables of settings


class SessionOption(Struct, frozen=True):
    """An option of a session. It is a flag of `run` and the app, a field of `Settings`, and usually also a
    setting.
    """

    name: str
    read: Callable[[Any], Any]
    metavar: str
    """Placeholder for the value in the help; empty for a flag without a value."""
    help: str
    in_cluster: bool = False
    """Whether the option applies only to jobs in Slurm."""
    in_settings: bool = True
    """Whether the option is also a setting; if not, it is only a flag."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def key(self) -> str:
        """The name of the setting in configuration files."""
        return f"engine.{self.name}" if self.in_cluster else self.name

    @property
    def field(self) -> str:
        """The name of the field in `Settings`."""
        return "ignored" if self.name == "ignore_processes" else self.name


_in_slurm = partial(SessionOption, in_cluster=True)
SESSION_OPTIONS = (
    SessionOption("pause_after", _of(values.count), "N", "pause after N identical failures in a row (3)"),
    SessionOption(
        "probe", _probe, "TIME", "when paused after errors, probe with one job after this time (90, 5m …), or off"
    ),
    SessionOption("grace", _of(values.duration), "TIME", "time between SIGTERM and SIGKILL (30 s)"),
    SessionOption(
        "gpu_file", text_value, "FILE", "read the list of GPUs from this file, also when it changes", in_settings=False
    ),
    SessionOption("keep_free", _of(values.count), "K", "leave K GPUs free"),
    SessionOption("max_gpus", _of(values.count), "M", "use at most M GPUs at a time"),
    SessionOption("budget", _of(values.gpu_time), "TIME", "start no further job after this GPU time: 20 gpu-h"),
    SessionOption("most_waiting", _of(values.count), "N", "refuse to add jobs if more than N would wait"),
    SessionOption("share_gpus", _of(values.boolean), "", "also use GPUs with external processes"),
    SessionOption("ignore_processes", _listed, "WHO", "users, programs or pids to ignore on GPUs"),
    _in_slurm("partition", text_value, "NAME", "Slurm partition, for --gpus slurm:N"),
    _in_slurm("account", text_value, "NAME", "Slurm account to charge"),
    _in_slurm("qos", text_value, "NAME", "Slurm QOS"),
    _in_slurm("time", _of(values.time_limit), "TIME", "Slurm time limit of a job: 90m, 2h, 1-12:00:00"),
    _in_slurm("constraint", text_value, "FEATURES", "use only Slurm nodes with these features"),
    _in_slurm("sbatch_opt", _words, "OPTION", "any other sbatch option: --mem=16G"),
)
CLUSTER_OPTIONS = tuple(option.name for option in SESSION_OPTIONS if option.in_cluster)
JOB_SETTINGS = {key: setting for key, setting in SETTINGS.items() if setting.in_config}
"""Job settings that can be set for all jobs in a configuration file or variable."""


KEYS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "gpus": (_listed, None),
    "output_dir": (text_value, "gputui_run"),
    "prefix": (text_value, "job_"),
    "job_dir": (text_value, ""),
    **{option.key: (option.read, None) for option in SESSION_OPTIONS if option.in_settings and not option.in_cluster},
    **{key: (setting.of, None) for key, setting in JOB_SETTINGS.items()},
    "snapshot_limit": (_bytes, 500 << 20),
    "daemon": (_of(values.boolean), True),
    "theme": (text_value, None),
    "bell": (_of(values.boolean), True),
    "mouse": (_of(values.boolean), True),
    "notify": (text_value, None),
    "hosts": (_names, None),
    "ssh": (text_value, "ssh"),
    "engine.kind": (_engine, None),
    "engine.jobs": (_listed, None),
    **{option.key: (option.read, None) for option in SESSION_OPTIONS if option.in_cluster},
    "hooks.on_job_start": (text_value, None),
    "hooks.on_job_end": (text_value, None),
    "hooks.on_hang": (text_value, None),
    "hooks.on_pause": (text_value, None),
    "hooks.on_drained": (text_value, None),
    "hooks.timeout": (_positive_seconds, 60.0),
}
"""The parser and the default value of each setting."""


OWN_KEYS = ("hooks", "host", "hosts", "ssh", "keys", "notify")
"""Settings that are read only from the user's own file. They are refused in a project file, because a colleague could
use them to run commands.
"""
HOST_KEYS = ("gputui", "directory")
"""Keys in a `[host."lab7"]` table that tell `--host lab7` how to find gputui on that machine. All other keys in the
table are settings that apply on that machine.
"""

VARIABLES = {
    key: "GPUTUI_" + ("JOB_DIR_PATTERN" if key == "job_dir" else key.upper().replace(".", "_"))
    for key in KEYS
    if not key.startswith("hooks.") and key != "notify"
}
"""Environment variable for each setting. The variable for `job_dir` has another name because GPUTUI_JOB_DIR is set for
jobs already.
"""


# The effective settings and their origins


PROJECT_FILE = "gputui.toml"
KEYMAP = "keys."
DEFAULT = "default"
SLOTS_IN_SLURM = 8
"""Number of Slurm jobs in flight at the same time if the settings choose Slurm but give no number."""

ValuesWithOrigin = dict[str, tuple[Any, str]]


class Config:
    """The values of all settings with their origins: a file, a variable or `default`."""

    def __init__(self, found: ValuesWithOrigin, hosts: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._found = found
        self._hosts = hosts or {}

    def job_settings(self) -> JobSettings:
        return JobSettings(**{setting.field: self.get(key)[0] for key, setting in JOB_SETTINGS.items()})

    def session_options(self, *, in_cluster: bool) -> dict[str, Any]:
        """Return the session options, keyed by their field names in `Settings`."""
        options = [option for option in SESSION_OPTIONS if option.in_settings and (in_cluster or not option.in_cluster)]
        fields = {option.field: self.get(option.key)[0] for option in options}
        return {**fields, "ignored": tuple(fields["ignored"].split(",")) if fields["ignored"] else None}

    def host(self, alias: str) -> Mapping[str, str]:
        """Return the HOST_KEYS settings for this host alias."""
        return self._hosts.get(alias, {})

    def get(self, key: str) -> tuple[Any, str]:
        """Return the value and its origin. The value is None if the setting is not set and its default depends on how
        it is used.
        """
        return self._found[key] if key in self._found else (KEYS[key][1], DEFAULT)

    def effective(self, key: str) -> tuple[Any, str]:
        """Return the value that a new session would use, and its origin."""
        value, origin = self.get(key)
        if value is not None:
            return value, origin
        spec, settings = JobSpec(command="", cwd="", environment=""), Settings()
        defaults = {option.key: getattr(settings, option.field) for option in SESSION_OPTIONS}
        defaults |= {key: getattr(spec, setting.field) for key, setting in JOB_SETTINGS.items()}
        defaults |= {"gpus": "all", "probe": "600 (10 min); run: 0", "shell": "bash", "theme": "dark"}
        default = defaults.get(key)
        return (default if default not in ("", ()) else None), origin

    def gpus(self) -> tuple[str | None, str]:
        """Return the value for `--gpus` and its origin. The value is the `gpus` setting, or `slurm:N` if the engine is
        set to Slurm.
        """
        written, origin = self.get("gpus")
        kind, kind_origin = self.get("engine.kind")
        in_slurm = str(written).lower().startswith("slurm")
        if kind == "slurm" and written is not None and not in_slurm:
            conflict = f"engine.kind is slurm, but gpus is {written} ({origin}); omit one of them"
            raise ConfigError(f"{kind_origin}: {conflict}")
        if kind == "slurm" and written is None:
            return f"slurm:{self.get('engine.jobs')[0] or SLOTS_IN_SLURM}", kind_origin
        return written, origin

    def keymap(self) -> dict[str, str]:
        """Return the user's key bindings, keyed by action."""
        mine = {key: self._found[key] for key in self._found if key.startswith(KEYMAP)}
        return {key.removeprefix(KEYMAP): str(value) for key, (value, _) in mine.items()}

    def __iter__(self) -> Iterator[str]:
        return iter([*KEYS, *(key for key in self._found if key not in KEYS)])


def load(job_files: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> Config:
    """Load the settings that apply to these job files. Raise ConfigError, naming the file and the key, if a setting is
    invalid.
    """
    found, hosts = _from_user_file(user_file(environment))
    project = project_file(job_files)
    if project is not None:
        found |= _from_project_file(project)
    for key, name in VARIABLES.items():
        if environment.get(name):
            found[key] = (_parse(name, key, environment[name]), name)
    return Config(found, hosts)


def user_file(environment: Mapping[str, str] = os.environ) -> str:
    directory = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(directory, "gputui", "config.toml")


def project_file(job_files: Iterable[str] = ()) -> str | None:
    """Return the gputui.toml next to the first job file that has one. If none has one, return the gputui.toml in the
    current directory, or None.
    """
    directories = [os.path.dirname(os.path.abspath(file)) for file in job_files if file != "-"]
    with suppress(OSError):  # the current directory was removed
        directories.append(os.getcwd())
    files = (os.path.join(directory, PROJECT_FILE) for directory in directories)
    return next((file for file in files if os.path.isfile(file)), None)


def _from_user_file(file: str) -> tuple[ValuesWithOrigin, dict[str, dict[str, str]]]:
    if not os.path.isfile(file):
        return {}, {}
    table = _load_toml(file)
    parts = table.pop("host", {})
    if not isinstance(parts, dict) or not all(isinstance(part, dict) for part in parts.values()):
        raise ConfigError(f'{file}: host must be a table: [host."NAME"]')
    found = _settings(file, table)
    hosts: dict[str, dict[str, str]] = {}
    by_host: dict[str, ValuesWithOrigin] = {}
    for name, part in parts.items():
        where = f'host."{name}".'
        hosts[name] = {
            key: _checked(f"{file}: {where}{key}", text_value, part.pop(key)) for key in HOST_KEYS if key in part
        }
        by_host[name] = _settings(file, part, where)
    here = os.uname().nodename
    for name in (here.partition(".")[0], here):
        found |= by_host.get(name, {})
    return found, hosts


def _from_project_file(file: str) -> ValuesWithOrigin:
    table = _load_toml(file)
    for key in OWN_KEYS:
        if key in table:
            raise ConfigError(f"{file}: {key} is only allowed in your own {user_file()}")
    if "shell" in table and os.stat(file).st_uid not in (os.getuid(), 0):
        raise ConfigError(f"{file} belongs to another user; ignoring its shell setting; use --shell")
    return _settings(file, table)


def _load_toml(file: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(file, "rb") as opened:
            return tomllib.load(opened)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"invalid TOML in {file}: {error}") from None


def _settings(file: str, table: Mapping[str, Any], where: str = "") -> ValuesWithOrigin:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if key in ("engine", "hooks", "keys") and isinstance(value, dict):
            flat |= {f"{key}.{inner}": setting for inner, setting in value.items()}
        else:
            flat[key] = value
    for key in flat:
        if key not in KEYS and not key.startswith(KEYMAP):
            hint = values.suggestion(key.replace("-", "_"), KEYS)
            raise ConfigError(f"{file}: {where}{key} is not a setting; {hint}")
    return {key: (_parse(f"{file}: {where}{key}", key, value), file) for key, value in flat.items()}


def _parse(origin: str, key: str, written: Any) -> Any:
    if isinstance(written, dict):
        raise ConfigError(f"{origin} is a table; use a value instead: {key} = …")
    return _checked(origin, KEYS[key][0] if key in KEYS else text_value, written)


def _checked(origin: str, read: Callable[[Any], Any], written: Any) -> Any:
    try:
        return read(written)
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None
