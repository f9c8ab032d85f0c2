"""The table of settings: each key, how its value is read, what it is when nobody says, and who may say it.

Those of a job that may be said for all jobs come from the table of job settings.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from gputui.core.job import JobSpec
from gputui.sources import values
from gputui.sources.settings.table import SETTINGS


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
