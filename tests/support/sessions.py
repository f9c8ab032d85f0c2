"""A session as a user has it: a folder, a job file, `gputui run` in its own process, and what is left on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gputui.cli.run.run import parser
from gputui.core.job import Attempt, Job
from gputui.core.scheduler import Scheduler
from gputui.session.store.store import Change, Store
from support.core_validate import validate

from .waiting import PATIENCE, until

GPUTUI = (sys.executable, "-m", "gputui")
VICTIM = (sys.executable, str(Path(__file__).parent.parent / "faults" / "victim.py"))
MARKERS = ("SUCCESS", "FAILURE")
ALONE = ("--no-keeper",) if "--no-keeper" in parser("run").format_help() else ()
"""Nobody takes a session over behind a test's back."""

Done = subprocess.CompletedProcess[str]
Process = subprocess.Popen[str]


class Session:
    """`folder` is where the commands run; the session is `folder/out`."""

    def __init__(self, folder: Path, name: str = "out") -> None:
        self.folder = folder
        self.root = folder / name
        self.private = self.root / ".gputui"
        self.claims_folder = self.private / "claims"
        self.database = self.private / "session.db"
        self.backup = self.private / "session.db.backup"
        self.lines = folder / "ran"
        """What jobs made by `told` append to, one line for each run."""

    def put_on(self, disk: Path) -> None:
        """The session is on this disk; its jobs run and write elsewhere."""
        self.root = disk / "out"
        self.private = self.root / ".gputui"
        self.claims_folder = self.private / "claims"
        self.database = self.private / "session.db"
        self.backup = self.private / "session.db.backup"

    # Jobs

    def write(self, *commands: str, name: str = "jobs.txt") -> Path:
        path = self.folder / name
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
        arguments = [*program, "run", *ALONE, *(("--gpus", gpus) if gpus is not None else ())]
        arguments += ["--output-dir", str(self.root)] if output_dir else []
        return subprocess.Popen(
            [*arguments, *map(str, words)],
            cwd=self.folder,
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
            cwd=self.folder, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
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

    def job_folder(self, job_id: int) -> Path:
        return self.root / f"job_{job_id}"

    def markers(self, job_id: int) -> list[str]:
        return [marker for marker in MARKERS if (self.job_folder(job_id) / marker).exists()]

    def output(self, job_id: int) -> str:
        return (self.job_folder(job_id) / f"job_{job_id}.OUT").read_text()

    def claims(self) -> list[str]:
        """Those that are not just marks of a revocation."""
        claims = (path for path in self.claims_folder.iterdir() if path.read_bytes() != b"revoked\n")
        return sorted(path.name for path in claims)

    def claim_pid(self, job_id: int, attempt: int = 1) -> int:
        """The wrapper's, once it has claimed."""
        path = self.claims_folder / f"{job_id}.{attempt}"
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
    """What the process complains of, line by line as it comes; its stderr is read here and nowhere else."""
    lines: list[str] = []

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
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
