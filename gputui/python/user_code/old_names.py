"""Compatibility with GPUTaskScheduler: the names of its modules, and the base class of its tasks."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PACKAGE = "gpu_task_scheduler"
HOMES = {
    "gpu_task": {"GPUTask": "gputui.python.user_code.old_names"},
    "config_manager": {"ConfigManager": "gputui.python.user_code.bundle"},
    "gpu_task_scheduler": {"GPUTaskScheduler": "gputui.tasks"},
}


class _Alias(ModuleType):
    """A module that imports its names when they are first used."""

    def __getattr__(self, name: str) -> Any:
        home = HOMES.get(self.__name__.rpartition(".")[2], {}).get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)


def provide_old_names() -> None:
    """Make `import gpu_task_scheduler` work if the original package is not installed."""
    if PACKAGE in sys.modules or find_spec(PACKAGE) is not None:
        return
    package = ModuleType(PACKAGE)
    package.__path__ = []
    sys.modules[PACKAGE] = package
    for name in HOMES:
        alias = _Alias(f"{PACKAGE}.{name}")
        sys.modules[alias.__name__] = alias
        setattr(package, name, alias)


class GPUTask:
    """One test instance. Derive a class from it and implement `main`, which runs in the job's own process.

    `_config` holds the parameters of the instance, and `_work_dir` is the path of its result directory.
    """

    def __init__(self, config: dict[str, Any], work_dir: str) -> None:
        self._config = config
        self._work_dir = work_dir

    def required_env(self) -> dict[str, str]:
        """Return environment variables for the task.

        Its process is restarted with these variables before `main` is called.
        """
        return {}

    def main(self) -> None:
        """Do the work."""
