"""The module names of GPUTaskScheduler, so that files written for it run as they are where it is not installed."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PACKAGE = "gpu_task_scheduler"
HOMES = {
    "gpu_task": {"GPUTask": "gputui.python.user_code.gpu_task"},
    "config_manager": {"ConfigManager": "gputui.python.user_code.configs"},
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
