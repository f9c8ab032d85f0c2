"""The class that users of GPUTaskScheduler derive their tasks from."""

from __future__ import annotations

from typing import Any


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
