"""What a Python program may say about a job, and the spec that it becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict

from gputui.core.job import JobSpec
from gputui.sources.job_table import read_table
from gputui.sources.settings.table import SETTINGS, JobSettings
from gputui.sources.source import Draft, specs
from gputui.sources.tables import BadTable

from .jobs import JobHandle

NOTHING: Mapping[str, str] = MappingProxyType({})

Earlier = JobHandle[Any] | int | str


class JobOptions(TypedDict, total=False):
    """All of them may be left out."""

    name: str
    group: str
    gpus: int
    """How many; 0: none. Left out: one lane, whatever it holds."""
    devices: Sequence[str]
    """Only on these GPUs."""
    memory: str
    """On each of its GPUs: `6G`, `500M`, `40%` or `learn`."""
    priority: int
    """0 to 99, higher first (30)."""
    retries: int
    retry_on: Sequence[str]
    """Only after these failures: `oom`, `signal`, `exit:75`, `node` …"""
    on_oom: str
    """When its card was full: `alone`, `bigger` or `fail`."""
    hang_after: float | str
    """Seconds without output and GPU use after which it counts as hung; 0: never."""
    on_hang: str
    """`notify`, `kill` or `requeue`."""
    metric: str
    """The result that jobs are compared by: `val_loss`, `val_acc max`, or `/best: ([0-9.]+)/ max`."""
    notify: bool
    """Tell me when it ends or hangs."""
    checkpoint: bool
    """It goes on where it was when it is started again."""
    preempt: bool
    """A job with `checkpoint` and a lower priority gives way to it; needs priority 90 or more."""
    timeout: float | str
    """Seconds, or `90s`, `5m`, `2h`."""
    after: Sequence[Earlier]
    """Start when these have succeeded: jobs, ids or names."""
    after_any: bool
    """Start when those in `after` have ended, however."""
    hold: bool
    cwd: str | os.PathLike[str]
    env: Mapping[str, str]
    """Variables of this job alone."""
    outfile: str | os.PathLike[str]
    """Both streams into this file, which must not exist."""
    shell: str
    login_shell: bool
    wrap: str
    """Words before its shell: `apptainer exec --nv x.sif`."""
    task: str
    """`module:function`, called instead of a shell."""


def checked(options: JobOptions) -> JobOptions:
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no option of a job; there are {', '.join(SETTINGS)}")
    return options


def spec(
    command: str, options: JobOptions, *, params: Mapping[str, str] = NOTHING, variables: Mapping[str, str] = NOTHING
) -> JobSpec:
    """The spec of a job. ValueError: an option cannot be what it was said to be."""
    try:
        settings = read_table({key: _plain(key, value) for key, value in checked(options).items()}).settings
    except BadTable as bad:
        raise ValueError(str(bad)) from None
    settings = JobSettings(variables=dict(variables)).over(settings) if variables else settings
    (job_spec,) = specs([Draft(command, 1, settings, dict(params))], cwd=os.getcwd(), environment="")
    return job_spec


def _plain(key: str, value: Any) -> Any:
    """As a file would say it."""
    if key == "after":
        return [getattr(earlier, "id", earlier) for earlier in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
