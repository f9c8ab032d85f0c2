"""A session whose owners come and go: who owns it, who waits, what became of its jobs, and how to end all of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gputui.session import lock as locks
from gputui.session.client import Client
from gputui.session.control import server as wire
from gputui.session.lock import Holder, OwnerKind
from gputui.session.session_dir import Paths

from .sessions import GPUTUI, Process, Session, alive, all_pids
from .waiting import until


def request_of(kind: str, fields: dict[str, Any]) -> wire.Ask:
    made: wire.Ask = msgspec.convert({"type": kind, **fields}, wire.Ask)
    return made


class Home(Session):
    """A session with keepers."""

    @property
    def client(self) -> Client:
        return Client(str(self.root))

    def ask(self, kind: str, *, work: bool = False, **fields: Any) -> Any:
        """A request by its word on the wire, and the answer as JSON has it."""
        return msgspec.json.decode(msgspec.json.encode(self.client.ask(request_of(kind, fields), work=work)))

    def add(self, *commands: str) -> list[int]:
        """As a verb would: starts a keeper where nobody owns."""
        jobs: list[int] = self.ask("load", work=True, **self.load_of(*commands))["jobs"]
        return jobs

    def load_of(self, *commands: str) -> dict[str, Any]:
        """The fields of a request that adds these jobs."""
        specs = [{"command": command, "cwd": str(self.folder), "environment": ""} for command in commands]
        return {"specs": specs, "environment": {"PATH": os.environ["PATH"]}, "origin": "a test"}

    def start(self, *words: str | Path, gpus: str | None = "0,1", stdin: int | None = None, **_: object) -> Process:
        """A `gputui run` with a keeper that waits for its death."""
        arguments = [*GPUTUI, "run", *(("--gpus", gpus) if gpus is not None else ()), "--output-dir", self.root, *words]
        return subprocess.Popen(
            list(map(str, arguments)),
            cwd=self.folder,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def begin(self, *commands: str, lanes: list[dict[str, Any]] | None = None) -> None:
        """A session with these jobs, paused, that nobody owns."""
        paths = Paths(str(self.root))
        paths.create()
        lanes = lanes or [{"id": number, "devices": [str(number)]} for number in range(2)]
        self.ask("begin", lanes=lanes, given=True, change_lanes=True, cpu_jobs=1, pause_after=0)
        self.command({"type": "pause", "kind": "user"})
        if commands:
            self.ask("load", **self.load_of(*commands))

    def command(self, *events: dict[str, Any], work: bool = False) -> list[dict[str, Any]]:
        outcomes: list[dict[str, Any]] = self.ask("commands", work=work, events=list(events))
        return outcomes

    def ask_quietly(self) -> bool:
        """Whether an owner listens, without being a request that keeps it."""
        return (self.private / "control.sock").exists()

    def resume(self) -> None:
        self.command({"type": "resume"}, work=True)

    # Processes

    def members(self) -> list[int]:
        """Every live process of gputui that was told of this session's folder."""
        found = []
        for pid in all_pids():
            words = command_line(pid)
            if pid != os.getpid() and b"gputui" in b" ".join(words[:6]) and os.fsencode(self.root) in words:
                found.append(pid)
        return found

    def keepers(self) -> list[int]:
        return [pid for pid in self.members() if b"keep" in command_line(pid)]

    def holder(self) -> Holder | None:
        """Who owns, if whoever signed the lock last is alive; a client, such as this process, did for a moment only."""
        holder = locks.holder(Paths(str(self.root)))
        if holder is None or holder.kind is OwnerKind.CLIENT or not alive(holder.pid):
            return None
        return holder

    def waiters(self) -> list[int]:
        holder = self.holder()
        return [pid for pid in self.keepers() if holder is None or pid != holder.pid]

    def owner(self, kind: OwnerKind = OwnerKind.KEEPER, but: int = 0) -> int:
        """The owner's pid, as soon as one of this kind, other than `but`, owns."""
        found: list[int] = []

        def owns() -> bool:
            holder = self.holder()
            if holder is not None and holder.kind is kind and holder.pid != but:
                found.append(holder.pid)
            return bool(found)

        until(owns, f"another {kind} than {but} owns")
        return found[0]

    def waiter(self) -> int:
        """The one keeper that waits, once there is just one."""
        until(lambda: len(self.waiters()) == 1, "there is one waiting keeper")
        return next(iter(self.waiters()), 0) or self.waiter()

    def has_waiter(self, owner: int) -> None:
        """Returns when a keeper waits for the death of this owner: whoever dies sooner is followed by nobody."""
        role = [b"--for", str(owner).encode()]

        def waits() -> bool:
            words = (command_line(pid) for pid in self.keepers())
            return any(each[index : index + 2] == role for each in words for index in range(len(each)))

        until(waits, f"a keeper waits for {owner}")

    def gone(self, what: str = "nothing of the session runs") -> None:
        """Those that were found are watched; all of /proc is looked through again only when they are dead."""

        def nothing_left() -> bool:
            found = [*self.members(), *self.processes()]
            until(lambda: not any(map(alive, found)), what)
            return not found

        until(nothing_left, what)

    def end(self) -> None:
        """Ends everything of this session, however often a keeper takes over."""
        while left := [*self.members(), *self.processes()]:
            for pid in left:
                kill(pid)
            reap()
            time.sleep(0.01)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def stop(pid: int) -> None:
    """Returns when all of it stands still: the signal reaches a process's threads one after the other."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def stands_still() -> bool:
        states = [(task / "stat").read_bytes().rpartition(b")")[2].split()[0] for task in tasks.iterdir()]
        return set(states) == {b"T"}

    until(stands_still, f"every thread of {pid} is stopped")


def reap() -> None:
    """Keepers that this process started and that have ended."""
    with suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            os.waitpid(-1, os.WNOHANG)


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Batch:
    """Jobs that each leave a line and their own exit code; `judge` counts when the queue is done.

    The first `lasting` ones run until `let_end`, so that the queue is not done before, however slow the machine is.
    """

    def __init__(self, home: Home, jobs: int = 40, *, seed: int = 0, longest: int = 6, lasting: int = 0) -> None:
        self.home = home
        self._go = home.folder / "go"
        self._lasting = lasting
        self.chance = random.Random(seed)
        self.codes = {job: job * 7 % 256 for job in range(jobs)}
        self.file = home.write(*(self._command(job, code, longest) for job, code in self.codes.items()))

    def _command(self, job: int, code: int, longest: int) -> str:
        lasts = f"until test -e {self._go}; do sleep 0.02; done"
        sleeps = f"sleep 0.{self.chance.randint(0, longest):02d}"
        return self.home.told(job, f"{lasts if job < self._lasting else sleeps}; exit {code}")

    def let_end(self) -> None:
        self._go.touch()

    def loaded(self) -> bool:
        return self.home.database.exists() and sum(self.home.ask("status")["counts"].values()) > 0

    def words(self) -> list[str]:
        """A second load would rerun what failed."""
        return ["--pause-after", "0"] + ([] if self.loaded() else [str(self.file)])

    def nap(self, longest: float) -> None:
        """A moment chosen by chance, not a condition."""
        time.sleep(self.chance.uniform(0.0, longest))

    def judge(self) -> None:
        """After the last owner has gone by itself: each job ran once and kept its code."""
        self.let_end()
        self.home.gone("the queue is done and the keeper has left")
        jobs = self.home.jobs()
        seen = {job.id: [past.exit_code for past in job.attempts] for job in jobs}
        assert seen == {job: [code] for job, code in self.codes.items()}
        assert self.home.runs() == {str(job): 1 for job in self.codes}
        assert self.home.claims() == []
