"""What a Python program may say about a job, and the spec that it becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from .jobs import Job

Earlier = Job[Any] | int | str


class JobOptions(TypedDict, total=False):
    """All of them may be left out."""

    name: str
    group: str
    gpus: int
    """How many; 0: none. Left out: one lane, whatever it holds."""
    devices: Sequence[str]
    """Only on these GPUs."""
    memory: str
    """On each of its GPUs: `6G`, `500M` or `40%`."""
    priority: int
    """0 to 99, higher first (30)."""
    retries: int
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


_AS_THEY_ARE = ("name", "group", "priority", "retries", "after_any", "hold")


def checked(options: JobOptions) -> JobOptions:
    unknown = sorted(set(options) - set(JobOptions.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no option of a job; there are {', '.join(JobOptions.__annotations__)}")
    return options


def spec(command: str, options: JobOptions, **further: Any) -> dict[str, Any]:
    """The spec as it travels."""
    checked(options)
    said: Mapping[str, Any] = options
    made: dict[str, Any] = {key: said[key] for key in _AS_THEY_ARE if key in said}
    if "timeout" in options:
        made["timeout"] = _seconds(options["timeout"])
    if "after" in options:
        made["after"] = [getattr(earlier, "id", earlier) for earlier in options["after"]]
    variables = {**options.get("env", {}), **further.pop("variables", {})}
    return {
        "command": command,
        "cwd": os.path.abspath(options.get("cwd", ".")),
        "environment": "",
        "request": _request(options),
        "variables": variables,
        **made,
        **further,
    }


def _seconds(written: float | str) -> float:
    from gputui.sources.values import duration

    return duration(written) if isinstance(written, str) else float(written)


def _request(options: JobOptions) -> dict[str, Any]:
    request: dict[str, Any] = {}
    if "gpus" in options:
        request["gpus"] = options["gpus"]
    if "devices" in options:
        request["devices"] = list(options["devices"])
    if "memory" in options:
        from gputui.sources.values import bytes_or_share

        size, share = bytes_or_share(options["memory"])
        request.update({"memory": size} if size is not None else {"memory_share": share})
    return request
