"""GPUTaskScheduler's names: its modules and the base class of its tasks."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# ---- old names ----


PACKAGE = "gpu_task_scheduler"
HOMES = {
    "gpu_task": {"GPUTask": "gputui.python.user_code.old_names"},
    "config_manager": {"ConfigManager": "gputui.python.user_code.bundle"},
    "gpu_task_scheduler": {"GPUTaskScheduler": "gputui.tasks"},
}


class _Lent(ModuleType):
    """Looks its names up when they are asked for."""

    def __getattr__(self, name: str) -> Any:
        home = HOMES.get(self.__name__.rpartition(".")[2], {}).get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(home), name)


def lend_old_names() -> None:
    if PACKAGE in sys.modules or find_spec(PACKAGE) is not None:
        return
    package = ModuleType(PACKAGE)
    package.__path__ = []
    sys.modules[PACKAGE] = package
    for name in HOMES:
        lent = _Lent(f"{PACKAGE}.{name}")
        sys.modules[lent.__name__] = lent
        setattr(package, name, lent)


# ---- The class that users of GPUTaskScheduler derive their tasks from ----


class GPUTask:
    """One test instance. Derive from it and write `main`; it runs in the job's own process.

    `_config` holds the parameters of this instance, `_work_dir` is the path of its result folder.
    """

    def __init__(self, config: dict[str, Any], work_dir: str) -> None:
        self._config = config
        self._work_dir = work_dir

    def required_env(self) -> dict[str, str]:
        """Environment variables the task needs; asked before it runs, and set before anything is imported again."""
        return {}

    def main(self) -> None:
        """The work itself."""
