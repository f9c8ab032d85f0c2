"""Sessions as users have them: directories, job files, `gputui` processes, owners that come and go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.cli.session_flags import parser
from gputui.core.events import Settings
from gputui.core.job import Attempt, Ended, Job, JobId, JobSpec
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceKind, Slot
from gputui.session import lock as locks
from gputui.session.client import Client
from gputui.session.control import server as wire
from gputui.session.event_loop import TurnContext
from gputui.session.lock import Holder, Lock, OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Begin, Load
from gputui.session.session_dir import Paths
from gputui.session.store.store import Change, Store

from .core import validate
from .waiting import PATIENCE, until

# ---- The command line called within this process, and what it printed ----


class Told:
    """What a call printed, and its status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"status {self.status}\nout: {self.out}\nerr: {self.err}"


Gputui = Callable[..., Told]
Answers = Callable[[str], None]


def only(found: list[Any]) -> Any:
    (one,) = found
    return one


# ---- A session as a user has it ----


GPUTUI = (sys.executable, "-m", "gputui")
VICTIM = (sys.executable, str(Path(__file__).parent.parent / "faults" / "victim.py"))
MARKERS = ("SUCCESS", "FAILURE")
ALONE = ("--no-daemon",) if "--no-daemon" in parser("run").format_help() else ()
"""Nobody takes a session over behind a test's back."""

Done = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str]


class Session:
    """`directory` is where the commands run; the session is `directory/out`."""

    run_options = ALONE

    def __init__(self, directory: Path, name: str = "out") -> None:
        self.directory = directory
        self.put_on(directory, name)
        self.gate = directory / "gate"
        self.waits = f"until test -e {self.gate}; do sleep 0.01; done"
        """A command that ends when the file `gate` exists."""
        self.lines = directory / "ran"
        """What jobs made by `told` append to, one line for each run."""

    def put_on(self, disk: Path, name: str = "out") -> None:
        """Have the session on this disk; its jobs run and write elsewhere."""
        self.root = disk / name
        self.private = self.root / ".gputui"
        self.claims_directory = self.private / "claims"
        self.database = self.private / "session.db"
        self.backup = self.private / "session.db.backup"

    # Jobs

    def write(self, *commands: str, name: str = "jobs.txt") -> Path:
        path = self.directory / name
        path.write_text("".join(command + "\n" for command in commands))
        return path

    def told(self, label: object, then: str = "true") -> str:
        """A command that says in the common file that it ran, and goes on."""
        return f"echo {label} >>{self.lines}; {then}"

    def runs(self) -> Counter[str]:
        """How often each job of `told` has run."""
        return Counter(self.lines.read_text().split()) if self.lines.exists() else Counter()

    # Running

    def start(
        self, *words: str | Path, program: Sequence[str] = GPUTUI, gpus: str | None = "0,1", stdin: int | None = None,
        env: dict[str, str] | None = None, output_dir: bool = True,
    ) -> Process:  # fmt: skip
        arguments = [*program, "run", *self.run_options, *(("--gpus", gpus) if gpus is not None else ())]
        arguments += ["--output-dir", str(self.root)] if output_dir else []
        return subprocess.Popen(
            [*arguments, *map(str, words)],
            cwd=self.directory,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )

    def run(self, *words: str | Path, given: str | None = None, **settings: object) -> Done:
        """Until it leaves by itself."""
        if given is not None:
            settings["stdin"] = subprocess.PIPE
        return finished(self.start(*words, **settings), given)  # type: ignore[arg-type]

    def call(self, *words: str, program: Sequence[str] = GPUTUI, env: dict[str, str] | None = None) -> Done:
        """Another command on this session."""
        return subprocess.run(
            [*program, words[0], "--session", str(self.root), *words[1:]],
            cwd=self.directory, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=PATIENCE * 2,
        )  # fmt: skip

    @contextmanager
    def running(self, *words: str | Path, **settings: object) -> Iterator[Process]:
        """A `gputui run` in the background; whatever became of it, nothing of it is left afterwards."""
        process = self.start(*words, **settings)  # type: ignore[arg-type]
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            self.sweep()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    # What is there

    @contextmanager
    def store(self) -> Iterator[Store]:
        store = Store(str(self.database))
        try:
            yield store
        finally:
            store.close()

    def load(self) -> Scheduler:
        """What the store says while nobody owns it; every invariant holds."""
        with self.store() as store:
            scheduler = store.load()
        validate(scheduler)
        return scheduler

    def jobs(self) -> list[Job]:
        return list(self.load().book)

    def states(self) -> list[str]:
        return [str(job.state.name) for job in self.jobs()]

    def last(self, job_id: int) -> Attempt:
        return self.load().book[job_id].attempts[-1]

    def job_directory(self, job_id: int) -> Path:
        return self.root / f"job_{job_id}"

    def markers(self, job_id: int) -> list[str]:
        return [marker for marker in MARKERS if (self.job_directory(job_id) / marker).exists()]

    def output(self, job_id: int) -> str:
        return (self.job_directory(job_id) / f"job_{job_id}.OUT").read_text()

    def claims(self) -> list[str]:
        """Those that are not just marks of a revocation."""
        claims = (path for path in self.claims_directory.iterdir() if path.read_bytes() != b"revoked\n")
        return sorted(path.name for path in claims)

    def claim_pid(self, job_id: int, attempt: int = 1) -> int:
        """The wrapper's, once it has claimed."""
        path = self.claims_directory / f"{job_id}.{attempt}"
        until(lambda: path.exists() and b"\n" in path.read_bytes(), f"{path.name} is claimed")
        return int(path.read_bytes().split()[0])

    def processes(self) -> list[int]:
        """Live processes of this session's jobs."""
        mark = b"\0GPUTUI_SESSION=" + os.fsencode(self.root) + b"\0"
        return [pid for pid in all_pids() if mark in b"\0" + environment_of(pid)]

    def sweep(self) -> None:
        """Ends what is left of this session's jobs, by its own mark in their environment."""
        found = self.processes()
        # Numbers wrap around: a command may come before its wrapper, which must not live to note its end.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


ON_A_SHARED_DISK: dict[str, Any] = {"program": VICTIM, "env": {"VICTIM": json.dumps({"shared_disk": True})}}
"""How `start` and `call` work on a disk that other machines share."""


def move(session: Session, **changes: Any) -> None:
    """Makes the store believe that its last owner lived in another world."""
    with session.store() as store:
        identity = store.identity()
        assert identity is not None
        store.commit(Change(identity=replace(identity, world=replace(identity.world, **changes)), full=True))


def finished(process: Process, given: str | None = None, seconds: float = PATIENCE * 2) -> Done:
    try:
        out, err = process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not leave within {seconds:g} s\nout: {out}\nerr: {err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def listened(process: Process) -> list[str]:
    """Return what the process writes to stderr, line by line as it comes. The pipe is read and closed here."""
    lines: list[str] = []
    pipe, process.stderr = process.stderr, None
    assert pipe is not None

    def listen() -> None:
        with pipe:
            for line in pipe:
                lines.append(line)

    threading.Thread(target=listen, daemon=True).start()
    return lines


def said(done: Done) -> str:
    """Its one sentence: one line of complaint and no traceback."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("gputui: "), done.stderr
    return lines[0].removeprefix("gputui: ")


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


# ---- A session whose owners come and go ----


def request_of(kind: str, fields: dict[str, Any]) -> wire.Ask:
    made: wire.Ask = msgspec.convert({"type": kind, **fields}, wire.Ask)
    return made


class Home(Session):
    """A session with daemons: each `gputui run` has one that waits for its death."""

    run_options = ()

    @property
    def client(self) -> Client:
        return Client(str(self.root))

    def ask(self, kind: str, *, work: bool = False, **fields: Any) -> Any:
        """A request by its word on the wire, and the answer as JSON has it."""
        return msgspec.json.decode(msgspec.json.encode(self.client.ask(request_of(kind, fields), work=work)))

    def add(self, *commands: str) -> list[int]:
        """As a command would: starts a daemon where nobody owns."""
        jobs: list[int] = self.ask("load", work=True, **self.load_of(*commands))["jobs"]
        return jobs

    def load_of(self, *commands: str) -> dict[str, Any]:
        """The fields of a request that adds these jobs."""
        specs = [{"command": command, "cwd": str(self.directory), "environment": ""} for command in commands]
        return {"specs": specs, "environment": {"PATH": os.environ["PATH"]}, "origin": "a test"}

    def killed_run(self, *words: str | Path, running: int = 1, gpus: str = "0,1") -> int:
        """Kill a `gputui run` while jobs run and a daemon waits; return its pid."""
        run = self.start(*words, gpus=gpus)
        until(lambda: len(self.runs()) >= running, "jobs run")
        self.waiter()
        run.kill()
        run.communicate()
        return run.pid

    def begin(self, *commands: str, slots: list[dict[str, Any]] | None = None) -> None:
        """A session with these jobs, paused, that nobody owns."""
        paths = Paths(str(self.root))
        paths.create()
        slots = slots or [{"id": number, "devices": [str(number)]} for number in range(2)]
        self.ask("begin", slots=slots, given=True, change_slots=True, settings={"cpu_jobs": 1, "pause_after": 0})
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
        """Every live process of gputui that was told of this session's directory."""
        found = []
        for pid in all_pids():
            words = command_line(pid)
            if pid != os.getpid() and b"gputui" in b" ".join(words[:6]) and os.fsencode(self.root) in words:
                found.append(pid)
        return found

    def daemons(self) -> list[int]:
        return [pid for pid in self.members() if b"daemon" in command_line(pid)]

    def holder(self) -> Holder | None:
        """Who owns, if whoever signed the lock last is alive; a client, such as this process, did for a moment only."""
        holder = locks.holder(Paths(str(self.root)))
        if holder is None or holder.kind is OwnerKind.CLIENT or not alive(holder.pid):
            return None
        return holder

    def waiters(self) -> list[int]:
        holder = self.holder()
        return [pid for pid in self.daemons() if holder is None or pid != holder.pid]

    def owner(self, kind: OwnerKind = OwnerKind.DAEMON, but: int = 0) -> int:
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
        """The one daemon that waits, once there is just one."""
        until(lambda: len(self.waiters()) == 1, "there is one waiting daemon")
        return next(iter(self.waiters()), 0) or self.waiter()

    def has_waiter(self, owner: int) -> None:
        """Returns when a daemon waits for the death of this owner: whoever dies sooner is followed by nobody."""
        role = [b"--for", str(owner).encode()]

        def waits() -> bool:
            words = (command_line(pid) for pid in self.daemons())
            return any(each[index : index + 2] == role for each in words for index in range(len(each)))

        until(waits, f"a daemon waits for {owner}")

    def gone(self, what: str = "nothing of the session runs") -> None:
        """Those that were found are watched; all of /proc is looked through again only when they are dead."""

        def nothing_left() -> bool:
            found = [*self.members(), *self.processes()]
            until(lambda: not any(map(alive, found)), what)
            return not found

        until(nothing_left, what)

    def end(self) -> None:
        """Ends everything of this session, however often a daemon takes over."""
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
    """Daemons that this process started and that have ended."""
    with suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            os.waitpid(-1, os.WNOHANG)


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


# ---- An owner in this process, for tests of the session's parts ----


def spec(command: str, **settings: Any) -> JobSpec:
    return JobSpec(**{"command": command, "cwd": "/", "environment": "", **settings})


@contextmanager
def owned(root: Path, slots: int | tuple[Slot, ...] = 2, kind: OwnerKind = OwnerKind.RUN) -> Iterator[Owner]:
    """A session that starts jobs, until the block ends."""
    paths = Paths(str(root))
    paths.create()
    lock = locks.take(paths)
    assert isinstance(lock, Lock)
    owner = Owner(paths, lock, kind)
    try:
        owner.start()
        given_slots = simulated_slots(slots) if isinstance(slots, int) else slots
        begin = Begin(given_slots, given=True, change_slots=True, settings={"cpu_jobs": 2})
        owner.do(begin).result(60)
        yield owner
    finally:
        owner.close()
        lock.release()


def simulated_slots(count: int) -> tuple[Slot, ...]:
    return tuple(Slot(number, (str(number),), DeviceKind.SIMULATED) for number in range(count))


def add(owner: Owner, *specs: JobSpec) -> list[JobId]:
    return list(owner.do(Load(specs, dict(os.environ), "test")).result(60).jobs)


def change_settings(owner: Owner, **changes: object) -> None:
    def work(act: TurnContext) -> None:
        act.handle(Settings(**changes))  # type: ignore[arg-type]

    owner.do(work).result(60)


def ended(owner: Owner, job_id: JobId) -> Job:
    """The job, once it has ended."""
    until(lambda: isinstance(owner.snapshot[job_id].state, Ended), f"#{job_id} has ended")
    return owner.snapshot[job_id]
