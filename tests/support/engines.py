"""Engines with a real loop and real jobs: local processes or a Slurm cluster."""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gputui.core.events import (
    AttemptEnded,
    AttemptInstruction,
    ContinueTree,
    KillTree,
    Outcome,
    Spawned,
    SuspendTree,
    Terminate,
    Withdraw,
)
from gputui.engines.claims import Claimed, Claims, WrittenExit
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Engine, Launch, Report, Since, Survivor
from gputui.engines.slurm.engine import SlurmEngine
from gputui.process import processes
from gputui.session.event_loop import Loop

from .sessions import all_pids, environment_of, kill
from .waiting import PATIENCE

# ---- An engine with a real loop and real jobs, for tests ----


ORDERS: dict[str, type[AttemptInstruction]] = {
    "kill": KillTree, "terminate": Terminate, "suspend": SuspendTree, "resume": ContinueTree, "withdraw": Withdraw,
}  # fmt: skip


class EngineMachine(ABC):
    """`session`: one that another process began in the same directory."""

    def __init__(self, directory: Path, session: str | None = None) -> None:
        self.directory = directory
        self.work = directory / "work"
        self.work.mkdir(exist_ok=True)
        self.session = session or uuid.uuid4().hex
        self._private = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self.loop = Loop()
        self.reports: list[Report] = []
        self.engine = self.make_engine()

    @abstractmethod
    def make_engine(self) -> Engine: ...

    @abstractmethod
    def await_unwatched_end(self, job: int = 0, attempt: int = 1) -> None:
        """Returns when an attempt that no engine watches is over and its end written."""

    def kill_everything(self) -> None:
        """Whatever of the session's attempts still lives."""
        ours = [pid for pid in all_pids() if self.session.encode() in environment_of(pid)]
        for pid in ours:
            kill(pid)
        for pid in ours:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def launch(self, command: str, job: int = 0, attempt: int = 1, merged: bool = False, **changes: object) -> Launch:
        settings: dict[str, object] = {
            "shell": "",
            "login_shell": False,
            "cwd": str(self.work),
            "environment": dict(os.environ),
            **changes,
        }
        out, err = str(self.directory / f"{job}.{attempt}.OUT"), str(self.directory / f"{job}.{attempt}.ERR")
        return Launch(
            job=job, attempt=attempt, command=command, out=out, err=None if merged else err, **settings  # type: ignore[arg-type]
        )  # fmt: skip

    def start(self, command: str, job: int = 0, attempt: int = 1, **changes: object) -> None:
        """Returns when the engine has reported the start, or why there was none."""
        before = len(self.reports)
        self.engine.start([self.launch(command, job, attempt, **changes)])  # type: ignore[arg-type]
        self.until(lambda: any((new.job, new.attempt) == (job, attempt) for new in self.begun_or_ended(before)))

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

    def begun_or_ended(self, since: int = 0) -> list[Spawned | AttemptEnded]:
        """What was reported of attempts, but that they wait in a cluster's queue."""
        return [report for report in self.reports[since:] if isinstance(report, Spawned | AttemptEnded)]

    def spawned(self) -> list[Spawned]:
        return [report for report in self.reports if isinstance(report, Spawned)]

    def pid_in(self, name: str) -> int:
        """The pid that a job wrote into a file of its directory."""
        file = self.work / name
        self.until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    def out(self, job: int = 0, attempt: int = 1) -> str:
        return (self.directory / f"{job}.{attempt}.OUT").read_text()

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

    def order(self, name: str, job: int = 0, attempt: int = 1) -> None:
        self.engine.carry_out(ORDERS[name](job, attempt))

    def next_owner(self) -> None:
        """The owner goes and touches nothing; another one comes."""
        self.engine.close()
        self.reports.clear()
        self.engine = self.make_engine()

    def recover(self, job: int = 0, attempt: int = 1, since: Since = Since.NOTHING, *, stopping: bool = False) -> None:
        out = str(self.directory / f"{job}.{attempt}.OUT")
        self.engine.recover([Survivor(job=job, attempt=attempt, since=since, out=out, stopping=stopping)])

    def clear_away(self) -> None:
        self.engine.close()
        self.loop.close()
        os.close(self._private)
        self.kill_everything()


def alive(pid: int) -> bool:
    stat = processes.stat_of(pid)
    return stat is not None and stat.alive


def stopped(pid: int) -> bool:
    stat = processes.stat_of(pid)
    return stat is not None and stat.stopped


# ---- The local engine's machine for tests ----


class Machine(EngineMachine):
    def __init__(self, directory: Path, session: str | None = None) -> None:
        (directory / "claims").mkdir(exist_ok=True)
        self.claims = Claims(str(directory / "claims"))
        super().__init__(directory, session)

    def make_engine(self) -> LocalEngine:
        return LocalEngine(self.loop, self._private, self.session, self.reports.append)

    def wrapper(self, job: int = 0, attempt: int = 1) -> int:
        """Its pid, once it has claimed."""
        self.until(lambda: isinstance(self.claims.read(job, attempt), Claimed))
        claim = self.claims.read(job, attempt)
        assert isinstance(claim, Claimed)
        return claim.pid

    def tree(self, job: int = 0, attempt: int = 1) -> processes.Members:
        return processes.tree(processes.AttemptMarks(self.engine.token(job, attempt)))

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


def _program(pid: int) -> str:
    """As /proc calls it; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


# ---- The Slurm engine's machine for tests ----


class SlurmMachine(EngineMachine):
    def make_engine(self) -> SlurmEngine:
        return SlurmEngine(self.loop, self._private, self.session, self.reports.append)

    @property
    def claims(self) -> Claims:
        return Claims(str(self.directory / "claims"))

    def await_unwatched_end(self, job: int = 0, attempt: int = 1) -> None:
        self.until(lambda: isinstance(self.claims.read(job, attempt), WrittenExit))
