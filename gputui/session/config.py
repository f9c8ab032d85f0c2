"""The effective settings and where each comes from: GPUTUI_* variables, the project's file, the user's own file.

Flags stand above all of them and are laid over by whoever reads flags.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gputui.sources.settings.table import JobSettings

from .config_keys import HOST_KEYS, JOB_SETTINGS, KEYS, OWN_KEYS, VARIABLES, WITHOUT_WORD, text_value
from .errors import ConfigError as ConfigError

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
            raise ConfigError(f"{file}: {where}{key} is no setting{_hint(key)}")
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
