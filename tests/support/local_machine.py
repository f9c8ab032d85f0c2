"""The local engine's machine for tests: also its wrappers, claims and trees of processes can be looked at."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from gputui.engines.claims import Claimed, Claims, WrittenExit
from gputui.engines.local.engine import LocalEngine
from gputui.process import processes

from .engine_machine import EngineMachine
from .engine_machine import alive as alive


class Machine(EngineMachine):
    def __init__(self, folder: Path, session: str | None = None) -> None:
        (folder / "claims").mkdir(exist_ok=True)
        self.claims = Claims(str(folder / "claims"))
        super().__init__(folder, session)

    def make_engine(self) -> LocalEngine:
        return LocalEngine(self.loop, self._private, self.session, self.reports.append)

    def wrapper(self, job: int = 0, attempt: int = 1) -> int:
        """Its pid, once it has claimed."""
        self.until(lambda: isinstance(self.claims.read(job, attempt), Claimed))
        claim = self.claims.read(job, attempt)
        assert isinstance(claim, Claimed)
        return claim.pid

    def tree(self, job: int = 0, attempt: int = 1) -> processes.Members:
        return processes.tree(processes.Marks(self.engine.token(job, attempt)))

    def command(self, job: int = 0, attempt: int = 1) -> int:
        """The pid of the one process that the command is, once it runs."""
        wrapper = self.wrapper(job, attempt)

        def begun() -> list[int]:
            """Before it has become its own program it is a copy of the wrapper, which may wait for it in the kernel."""
            others = self.tree(job, attempt).keys() - {wrapper}
            return [pid for pid in others if _program(pid) not in ("", _program(wrapper))]

        self.until(lambda: len(begun()) == 1)
        [command] = begun()
        return command

    def await_unwatched_end(self, job: int = 0, attempt: int = 1) -> None:
        self.until(lambda: isinstance(self.claims.read(job, attempt), WrittenExit))
        self.bury(int(Path(self.claims.path(job, attempt)).read_text().split()[0]))

    def bury(self, pid: int) -> None:
        """A wrapper ends while no owner lives; it is our child all the same."""
        self.until(lambda: not alive(pid))
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def kill_everything(self) -> None:
        ours = [pid for pid in self._pids() if self.session.encode() in processes._content(f"/proc/{pid}/environ")]
        for pid in ours:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in ours:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _pids(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _program(pid: int) -> str:
    """As /proc calls it; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
