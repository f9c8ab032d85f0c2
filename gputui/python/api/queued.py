"""The decorator that turns calls of a function into jobs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, Unpack

from .jobs import JobHandle
from .options import JobOptions, checked
from .session import current

P = ParamSpec("P")
R = TypeVar("R")


class QueuedFunction(Generic[P, R]):
    """A function whose calls are queued. `local` calls it here and now."""

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        self._gputui_original = function
        self._options = checked(options)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Queues the call in the current session; the job's `result()` waits for what it returns."""
        return current().submit(self._gputui_original, args, kwargs, self._options)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """An ordinary call, in this process."""
        return self._gputui_original(*args, **kwargs)

    def options(self, **options: Unpack[JobOptions]) -> QueuedFunction[P, R]:
        """The same function with other options for its calls: `train.options(priority=50)(lr=0.1)`."""
        changed: JobOptions = {**self._options, **options}
        return QueuedFunction(self._gputui_original, changed)


def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], QueuedFunction[P, R]]:
    """`@gputui.job(gpus=1)` before a function of a module: calling it queues the call and returns its `Job`."""
    checked(options)

    def decorate(function: Callable[P, R]) -> QueuedFunction[P, R]:
        return QueuedFunction(function, options)

    return decorate
