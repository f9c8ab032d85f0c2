"""The settings of gputui.toml and GPUTUI_* variables: the table of keys and their effective values."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gputui.core.job import JobSpec
from gputui.sources import values
from gputui.sources.settings import SETTINGS, JobSettings

from .errors import ConfigError as ConfigError

# ---- The table of settings ----


def _listed(written: Any) -> str:
    if isinstance(written, list):
        return ",".join(map(str, written))
    return str(written)


def _names(written: Any) -> list[str]:
    names = written.split(",") if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'{written!r} is no list of names; write ["lab7", "lab8"]')
    return [name.strip() for name in names if name.strip()]


def _seconds(written: Any) -> float:
    return values.duration(str(written))


def _some_seconds(written: Any) -> float:
    seconds = _seconds(written)
    if seconds <= 0:
        raise ValueError("must be more than 0; leave it out for no limit")
    return seconds


def _probe(written: Any) -> float | str:
    """Seconds, or `off`."""
    return values.probe_wait("off" if written is False else str(written))


def _whole(written: Any) -> int:
    return values.count(str(written))


def _bool(written: Any) -> bool:
    return values.boolean(str(written))


def text_value(written: Any) -> str:
    if not isinstance(written, str):
        raise ValueError(f"{written!r} is no text; put it in quotes")
    return values.text(written)


def _engine(written: Any) -> str:
    if written not in ("local", "slurm"):
        raise ValueError(f"{written!r} is no engine; write local or slurm")
    return str(written)


def _time_limit(written: Any) -> float:
    return values.time_limit(str(written))


def _options(written: Any) -> tuple[str, ...]:
    """A list, or words as on a command line."""
    return tuple(map(str, written)) if isinstance(written, list) else tuple(shlex.split(text_value(written)))


JOB_SETTINGS = {key: setting for key, setting in SETTINGS.items() if setting.in_config}
"""Those of a job that may be said for all of them, as the table of job settings has it."""
Reader = tuple[Callable[[Any], Any], Any]
KEYS: dict[str, Reader] = {
    "gpus": (_listed, None),
    "output_dir": (text_value, "gputui_run"),
    "prefix": (text_value, "job_"),
    "job_dir": (text_value, ""),
    "pause_after": (_whole, None),
    "probe": (_probe, None),
    "grace": (_seconds, None),
    **{key: (setting.of, None) for key, setting in JOB_SETTINGS.items()},
    "keep_free": (_whole, None),
    "at_most": (_whole, None),
    "ignore_strangers": (_bool, None),
    "ignore": (_listed, None),
    "keeper": (_bool, True),
    "theme": (text_value, None),
    "bell": (_bool, True),
    "mouse": (_bool, True),
    "notify": (text_value, None),
    "hosts": (_names, None),
    "ssh": (text_value, "ssh"),
    "engine.kind": (_engine, None),
    "engine.lanes": (_listed, None),
    "engine.partition": (text_value, None),
    "engine.account": (text_value, None),
    "engine.qos": (text_value, None),
    "engine.time": (_time_limit, None),
    "engine.constraint": (text_value, None),
    "engine.sbatch_opt": (_options, None),
    "hooks.on_job_start": (text_value, None),
    "hooks.on_job_end": (text_value, None),
    "hooks.on_hang": (text_value, None),
    "hooks.on_pause": (text_value, None),
    "hooks.on_drained": (text_value, None),
    "hooks.timeout": (_some_seconds, 60.0),
}
"""Each key, how its value is read, and what it is when nobody says."""


def _job_defaults() -> dict[str, Any]:
    """What a job is that says nothing; where that is nothing, there is nothing to tell."""
    spec = JobSpec(command="", cwd="", environment="")
    defaults = {key: getattr(spec, setting.field) for key, setting in JOB_SETTINGS.items()}
    return {key: default for key, default in defaults.items() if default not in ("", (), None)}


WITHOUT_WORD = {
    "gpus": "all",
    "pause_after": 3,
    "probe": "600 (10 min); run: 0",
    "grace": 30.0,
    **_job_defaults(),
    "shell": "bash",
    "keep_free": 0,
    "ignore_strangers": False,
    "theme": "dark",
}
"""What a new session takes where nobody says anything; one that is there keeps what it has."""

OWN_KEYS = ("hooks", "host", "hosts", "ssh", "keys", "notify")
"""Read from the user's own file alone: what a colleague's file says there would be run."""
HOST_KEYS = ("gputui", "folder")
"""In a part `[host."lab7"]`: how `--host lab7` finds its way. What else stands there counts on that machine."""

VARIABLES = {
    key: "GPUTUI_" + ("JOB_DIR_PATTERN" if key == "job_dir" else key.upper().replace(".", "_"))
    for key in KEYS
    if not key.startswith("hooks.") and key != "notify"
}
"""GPUTUI_JOB_DIR is taken: it tells a job its own folder."""


# ---- The effective settings and where each comes from ----


PROJECT_FILE = "gputui.toml"
KEYMAP = "keys."
DEFAULT = "default"
LANES_IN_SLURM = 8
"""Jobs in flight where only the engine is named."""

Found = dict[str, tuple[Any, str]]


class Config:
    """Every setting with its origin."""

    def __init__(self, said: Found, hosts: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._found = said
        self._hosts = hosts or {}

    def job_settings(self) -> JobSettings:
        """What it says for all jobs."""
        return JobSettings(**{setting.field: self.get(key)[0] for key, setting in JOB_SETTINGS.items()})

    def host(self, alias: str) -> Mapping[str, str]:
        """Which gputui and which folder, where it was said for this machine."""
        return self._hosts.get(alias, {})

    def get(self, key: str) -> tuple[Any, str]:
        """The value and where it was said; None: nobody said anything, and what the value is for decides."""
        return self._found[key] if key in self._found else (KEYS[key][1], DEFAULT)

    def effective(self, key: str) -> tuple[Any, str]:
        """The value that a new session would take, and where it was said."""
        value, origin = self.get(key)
        return (WITHOUT_WORD.get(key), origin) if value is None else (value, origin)

    def gpus(self) -> tuple[str | None, str]:
        """The lanes in the words of `--gpus`, and where they were said: `gpus`, or those of another engine."""
        written, origin = self.get("gpus")
        kind, said = self.get("engine.kind")
        in_slurm = str(written).lower().startswith("slurm")
        if kind == "slurm" and written is not None and not in_slurm:
            raise ConfigError(f"{said}: engine.kind is slurm, but gpus is {written} ({origin}); leave one of them out")
        if kind == "slurm" and written is None:
            return f"slurm:{self.get('engine.lanes')[0] or LANES_IN_SLURM}", said
        return written, origin

    def keymap(self) -> dict[str, str]:
        """The user's own keys for the screen, by action."""
        mine = {key: self._found[key] for key in self._found if key.startswith(KEYMAP)}
        return {key.removeprefix(KEYMAP): str(value) for key, (value, _) in mine.items()}

    def __iter__(self) -> Iterator[str]:
        return iter([*KEYS, *(key for key in self._found if key not in KEYS)])


def load(job_files: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> Config:
    """What counts for these job files; ConfigError names the file and the key that is wrong."""
    said, hosts = _from_user_file(user_file(environment))
    project = project_file(job_files)
    if project is not None:
        said |= _from_project_file(project)
    return Config(said | _from_environment(environment), hosts)


def user_file(environment: Mapping[str, str] = os.environ) -> str:
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(folder, "gputui", "config.toml")


def project_file(job_files: Iterable[str] = ()) -> str | None:
    """Beside the first job file that has one, else in the current folder."""
    folders = [os.path.dirname(os.path.abspath(file)) for file in job_files if file != "-"]
    files = (os.path.join(folder, PROJECT_FILE) for folder in [*folders, _here()] if folder)
    return next((file for file in files if os.path.isfile(file)), None)


def _here() -> str:
    """Empty: the folder was taken away under us."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _from_user_file(file: str) -> tuple[Found, dict[str, dict[str, str]]]:
    if not os.path.isfile(file):
        return {}, {}
    table = _table(file)
    hosts = table.pop("host", {})
    if not isinstance(hosts, dict) or not all(isinstance(part, dict) for part in hosts.values()):
        raise ConfigError(f'{file}: host must be written as [host."NAME"]')
    said = _settings(file, table)
    ways = {name: _way(file, name, part) for name, part in hosts.items()}
    parts = {name: _settings(file, part, f'host."{name}".') for name, part in hosts.items()}
    here = os.uname().nodename
    for name in (here.partition(".")[0], here):
        said |= parts.get(name, {})
    return said, ways


def _way(file: str, name: str, part: dict[str, Any]) -> dict[str, str]:
    """Takes out of the part what tells how to get there."""
    return {
        key: _checked(f'{file}: host."{name}".{key}', text_value, part.pop(key)) for key in HOST_KEYS if key in part
    }


def _from_project_file(file: str) -> Found:
    table = _table(file)
    for key in OWN_KEYS:
        if key in table:
            raise ConfigError(f"{file}: {key} is read only from your own {user_file()}")
    if "shell" in table and os.stat(file).st_uid not in (os.getuid(), 0):
        raise ConfigError(f"{file} is another user's: shell is not taken from it; give --shell yourself")
    return _settings(file, table)


def _from_environment(environment: Mapping[str, str]) -> Found:
    set_variables = {key: environment[name] for key, name in VARIABLES.items() if environment.get(name)}
    return {key: (_value(VARIABLES[key], key, written), VARIABLES[key]) for key, written in set_variables.items()}


def _table(file: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(file, "rb") as opened:
            return tomllib.load(opened)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no TOML: {error}") from None


def _settings(file: str, table: Mapping[str, Any], where: str = "") -> Found:
    said: Found = {}
    for key, value in _flat(table).items():
        if key not in KEYS and not key.startswith(KEYMAP):
            raise ConfigError(f"{file}: {where}{key} is not a setting{_hint(key)}")
        said[key] = (_value(f"{file}: {where}{key}", key, value), file)
    return said


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Tables within the table are told as `hooks.on_pause` and `keys.kill`."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        within = value if key in ("engine", "hooks", "keys") and isinstance(value, dict) else None
        flat |= {key: value} if within is None else {f"{key}.{inner}": setting for inner, setting in within.items()}
    return flat


def _value(origin: str, key: str, written: Any) -> Any:
    if isinstance(written, dict):
        raise ConfigError(f"{origin} is a table; write a value instead: {key} = …")
    return _checked(origin, KEYS[key][0] if key in KEYS else text_value, written)


def _checked(origin: str, read: Callable[[Any], Any], written: Any) -> Any:
    try:
        return read(written)
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None


def _hint(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("-", "_"), KEYS, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(KEYS)}"
