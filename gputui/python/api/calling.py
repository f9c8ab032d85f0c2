"""The spec of a queued call: its command, its name and its parameters, as they are shown."""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from gputui.core.job import JobSpec
from gputui.python.user_code.bundle import packed as packed_call
from gputui.python.user_code.call import CALL
from gputui.sources.python_file import door_of

from .jobs import JobOptions, spec

__all__ = ["call_spec", "packed_call"]

LONGEST_NAME = 80
LONGEST_PARAM = 200
SHOWN = (str, int, float, bool, type(None))


def call_spec(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: JobOptions,
    keepsake: str,
) -> JobSpec:
    params = _params(function, args, kwargs)
    command = shlex.join([*door_of(sys.executable), "call", f"{function.__module__}.{function.__qualname__}"])
    job_spec = spec(command, options, params=params, variables={CALL: keepsake})
    return job_spec if job_spec.name is not None else replace(job_spec, name=_name(function.__name__, params))


def _params(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Arguments that can be told in a word; a call that does not fit its function fails here, not in an hour."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    told_arguments = {name: value for name, value in bound.arguments.items() if isinstance(value, SHOWN)}
    return {name: _shown(str(value))[:LONGEST_PARAM] for name, value in told_arguments.items()}


def _name(function: str, params: dict[str, str]) -> str:
    name = " ".join([function, *(f"{key}={value}" for key, value in params.items())])
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _shown(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]
