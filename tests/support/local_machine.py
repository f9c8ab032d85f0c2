"""A local engine with a real loop and real processes, for tests: start, wait for conditions, look at files."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gputui.core.events import AttemptEnded, Outcome, Spawned
from gputui.engines.local.claims import Claimed, Claims
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Launch, Report, Since, Survivor
from gputui.process import processes
from gputui.session.owner.loop import Loop

from .waiting import PATIENCE


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "claims").mkdir()
        self.claims = Claims(str(folder / "claims"))
        self.session = uuid.uuid4().hex
        self._private = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.loop = Loop()
        self.reports: list[Report] = []
        self.engine = self._engine()

    def launch(self, command: str, job: int = 0, attempt: int = 1, merged: bool = False, **changes: object) -> Launch:
        settings: dict[str, object] = {
            "shell": "",
            "login_shell": False,
            "cwd": str(self.work),
            "environment": dict(os.environ),
            **changes,
        }
        out, err = str(self.folder / f"{job}.{attempt}.OUT"), str(self.folder / f"{job}.{attempt}.ERR")
        return Launch(
            job=job, attempt=attempt, command=command, out=out, err=None if merged else err, **settings  # type: ignore[arg-type]
        )  # fmt: skip

    def start(self, command: str, job: int = 0, attempt: int = 1, **changes: object) -> None:
        """Returns when the engine has reported the start, or why there was none."""
        before = len(self.reports)
        self.engine.start([self.launch(command, job, attempt, **changes)])  # type: ignore[arg-type]
        self.until(lambda: any((new.job, new.attempt) == (job, attempt) for new in self.reports[before:]))

    def run(self, command: str, job: int = 0, attempt: int = 1, **changes: object) -> Outcome:
        self.start(command, job, attempt, **changes)
        return self.end_of(job, attempt)

    def end_of(self, job: int = 0, attempt: int = 1) -> Outcome:
        self.until(lambda: self.has_ended(job, attempt))
        return self.ends(job, attempt)[0].outcome

    def has_ended(self, job: int = 0, attempt: int = 1) -> bool:
        return bool(self.ends(job, attempt))

    def ends(self, job: int = 0, attempt: int = 1) -> list[AttemptEnded]:
        return [
            report
            for report in self.reports
            if isinstance(report, AttemptEnded) and (report.job, report.attempt) == (job, attempt)
        ]

    def spawned(self) -> list[Spawned]:
        return [report for report in self.reports if isinstance(report, Spawned)]

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
        self.until(lambda: len(self.tree(job, attempt).keys() - {wrapper}) == 1)
        [command] = self.tree(job, attempt).keys() - {wrapper}
        return command

    def pid_in(self, name: str) -> int:
        """The pid that a job wrote into a file of its folder."""
        file = self.work / name
        self.until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    def out(self, job: int = 0, attempt: int = 1) -> str:
        return (self.folder / f"{job}.{attempt}.OUT").read_text()

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Runs the loop until the condition holds; fails when it does not come to hold."""
        late = [False]

        def look() -> None:
            if condition() or late[0]:
                self.loop.stop()
            else:
                self.loop.call_later(0.002, look)

        watchdog = self.loop.call_later(seconds, lambda: late.__setitem__(0, True))
        look_at = self.loop.call_later(0, look)
        self.loop.run()
        watchdog.cancel()
        look_at.cancel()
        if late[0]:
            pytest.fail(f"waited {seconds} s in vain; reports: {self.reports}")

    def next_owner(self) -> None:
        """The owner goes and touches nothing; another one comes."""
        self.engine.close()
        self.reports.clear()
        self.engine = self._engine()

    def recover(self, job: int = 0, attempt: int = 1, since: Since = Since.NOTHING) -> None:
        out = str(self.folder / f"{job}.{attempt}.OUT")
        self.engine.recover([Survivor(job=job, attempt=attempt, since=since, out=out)])

    def clear_away(self) -> None:
        self.engine.close()
        self.loop.close()
        os.close(self._private)
        self._kill_everything()

    def _engine(self) -> LocalEngine:
        return LocalEngine(self.loop, self._private, self.session, self.reports.append)

    def _kill_everything(self) -> None:
        ours = [pid for pid in self._pids() if self.session.encode() in processes._content(f"/proc/{pid}/environ")]
        for pid in ours:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in ours:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _pids(self) -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def alive(pid: int) -> bool:
    stat = processes.stat_of(pid)
    return stat is not None and stat.alive
