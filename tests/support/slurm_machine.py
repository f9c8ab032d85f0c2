"""The Slurm engine's machine for tests: a real cluster, which SLURM_CONF names, runs its attempts."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from gputui.engines.claims import Claims, WrittenExit
from gputui.engines.slurm.engine import SlurmEngine
from gputui.process import processes

from .engine_machine import EngineMachine


class SlurmMachine(EngineMachine):
    def make_engine(self) -> SlurmEngine:
        return SlurmEngine(self.loop, self._private, self.session, self.reports.append)

    @property
    def claims(self) -> Claims:
        return Claims(str(self.folder / "claims"))

    def await_unwatched_end(self, job: int = 0, attempt: int = 1) -> None:
        self.until(lambda: isinstance(self.claims.read(job, attempt), WrittenExit))

    def kill_everything(self) -> None:
        for name in os.listdir("/proc"):
            if name.isdigit() and self.session.encode() in processes._content(f"/proc/{name}/environ"):
                with suppress(ProcessLookupError):
                    os.kill(int(name), signal.SIGKILL)
