"""A colleague with evil in mind, in a folder that the whole lab may write to: the victim's own files stay untouched,
nothing of the colleague's is ever run as the victim, and what the victim reads says what to do.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Done, Session, alive, finished, said
from support.users import LAB, MALLORY, VICTIM, as_user, shared_folder, words_as
from support.waiting import until

from gputui.session import lock as locks
from gputui.session.errors import SessionError
from gputui.session.lock import OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.session_dir import Paths

FORGED = """\
job name: forged
ran on gpu: 0
command: touch {sprung}
cwd: /
id: {id}
host: here
attempt: 1
started: 2026-01-01 00:00:00 +0000 (1767225600.000)
ended: 2026-01-01 00:00:01 +0000 (1767225601.000)
state: failed
exit code: 1
"""


class Lab(Session):
    """The victim's session in the lab's folder, what the victim holds dear, and what the colleague does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.precious = folder / "precious"
        self.sprung = folder / "sprung"
        """There only if something of the colleague's was run by somebody."""
        self.as_victim = words_as(VICTIM)
        self.precious.mkdir()
        for name in ("INFO", ".INFO.new", "SUCCESS", "FAILURE", "result.pickle", "job_0.OUT", "job_1.OUT", "attempts"):
            (self.precious / name).write_text("dear to me")
        for path in (self.precious, *self.precious.iterdir()):
            os.chown(path, VICTIM, LAB)
        self.before = self.seen()

    def seen(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.precious.iterdir()}

    def run(self, *words: str | Path, **settings: object) -> Done:
        return super().run(*words, program=(*self.as_victim, *GPUTUI), env={"HOME": str(self.folder)}, **settings)  # type: ignore[arg-type]

    def verb(self, *words: str, status: int = 0) -> Done:
        process = subprocess.Popen(
            [*self.as_victim, *GPUTUI, *words],
            cwd=self.folder, env={**os.environ, "HOME": str(self.folder)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        done = finished(process)
        assert done.returncode == status, done
        assert "Traceback" not in done.stderr
        return done

    def mallory(self, *acts: Callable[[], object]) -> list[bool]:
        """Which of these acts the kernel let the colleague do."""
        return [as_user(MALLORY, lambda act=act: _done(act), LAB) == "True" for act in acts]  # type: ignore[misc]

    def unharmed(self) -> None:
        assert self.seen() == self.before
        assert not self.sprung.exists()

    def forge(self, id: int) -> str:
        return FORGED.format(sprung=self.sprung, id=id)


def _done(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


@pytest.fixture
def lab() -> Iterator[Lab]:
    with shared_folder() as folder:
        made = Lab(folder)
        yield made
        made.sweep()


def begun(lab: Lab, jobs: int = 1) -> Path:
    file = lab.write(*(lab.told(job) for job in range(jobs)))
    done = lab.run(file)
    assert done.returncode == 0, done
    return file


def planted_folder(path: Path, text: str) -> None:
    path.mkdir()
    (path / "INFO").write_text(text)


def test_a_colleague_cannot_write_into_a_jobs_folder_nor_read_the_session(lab: Lab) -> None:
    begun(lab)
    folder = lab.job_folder(0)
    assert folder.stat().st_uid == VICTIM
    acts = lab.mallory(
        lambda: (folder / "INFO").unlink(),
        lambda: (folder / "INFO").write_text(lab.forge(0)),
        lambda: (folder / "attempts").symlink_to(lab.precious),
        lambda: folder.chmod(0o777),
        lambda: os.listdir(lab.private),
    )
    assert acts == [False] * 5
    lab.unharmed()


def test_what_stands_in_a_jobs_place_is_left_alone_and_the_job_says_how_to_mend_it(lab: Lab) -> None:
    begun(lab)
    places = {1: lab.job_folder(1), 2: lab.job_folder(2), 3: lab.job_folder(3)}
    acts = lab.mallory(
        lambda: planted_folder(places[1], lab.forge(1)),
        lambda: places[2].symlink_to(lab.precious),
        lambda: places[3].write_text(""),
    )
    assert all(acts)
    file = lab.write(*(lab.told(job) for job in range(5)))
    done = lab.run(file, "--pause-after", "0")
    assert "Traceback" not in done.stderr
    assert lab.states() == ["succeeded", "refused", "refused", "refused", "succeeded"]
    for job, what in ((1, "a folder"), (2, "a link"), (3, "no folder")):
        path = places[job]
        assert f"{path} is {what} of user {MALLORY}" in done.stdout
        assert f"move it away: mv {path} {path}.old; then rerun #{job}" in done.stdout
    lab.unharmed()
    for path in places.values():
        subprocess.run([*lab.as_victim, "mv", path, f"{path}.old"], check=True)
    assert lab.run(file).returncode == 0
    assert lab.states() == ["succeeded"] * 5
    assert (Path(f"{places[1]}.old") / "INFO").read_text() == lab.forge(1), "theirs is as it was"
    lab.unharmed()


def test_a_folder_swapped_while_its_job_runs_costs_that_jobs_notes_and_nothing_else(lab: Lab) -> None:
    go = lab.folder / "go"
    file = lab.write(lab.told(0, f"until test -e {go}; do sleep 0.01; done; exit 3"), lab.told(1))
    with lab.running(
        file, "--pause-after", "0", program=(*lab.as_victim, *GPUTUI), env={"HOME": str(lab.folder)}
    ) as owner:
        until(lambda: lab.runs()["0"], "the job runs")
        folder = lab.job_folder(0)
        assert (
            lab.mallory(lambda: folder.rename(lab.root / "aside"), lambda: folder.symlink_to(lab.precious))
            == [True] * 2
        )
        go.touch()
        owner.wait(60)
    assert lab.states() == ["failed", "succeeded"]
    lab.unharmed()
    done = lab.run("--pause-after", "0")
    assert "Traceback" not in done.stderr
    lab.unharmed()


def test_folders_that_were_planted_are_not_believed_when_the_queue_is_rebuilt(lab: Lab) -> None:
    begun(lab, 2)
    acts = lab.mallory(
        lambda: planted_folder(lab.job_folder(2), lab.forge(2)),
        lambda: planted_folder(lab.root / "sweep", lab.forge(3)),
        lambda: lab.job_folder(1).rename(lab.root / "stolen"),
        lambda: planted_folder(lab.job_folder(1), lab.forge(1)),
    )
    assert all(acts)
    lab.database.write_bytes(b"damaged" * 1000)
    lab.backup.unlink(missing_ok=True)
    done = lab.run()
    assert "Rebuilt" in done.stderr
    assert "belongs to another user, so it is not read" in done.stderr
    assert "Traceback" not in done.stderr
    lab.verb("rerun", "--all-failed", "-y", "--session", str(lab.root), status=1)
    assert lab.run("--rerun-lost").returncode in (0, 1)
    assert [job.spec.command for job in lab.jobs()] == [lab.told(0), lab.told(1)], "the stolen folder is still hers"
    lab.unharmed()


def test_a_private_folder_that_was_replaced_is_refused(lab: Lab) -> None:
    begun(lab)
    assert (
        lab.mallory(
            lambda: lab.private.rename(lab.root / "taken"),
            lambda: lab.private.mkdir(0o755),
            lambda: (lab.private / "session.db").write_bytes(b""),
        )
        == [True] * 3
    )
    file = lab.write(lab.told(1))
    for words in (("run", str(file)), ("run",)):
        done = lab.run(*words[1:])
        assert done.returncode == 2
        assert "belongs to another user" in done.stderr
    assert f"is a session of user {MALLORY}" in lab.verb("ls", "--session", str(lab.root), status=1).stderr
    assert (
        lab.mallory(
            lambda: (lab.private / "session.db").unlink(),
            lambda: lab.private.rmdir(),
            lambda: lab.private.symlink_to(lab.root / "taken"),
        )
        == [True] * 3
    )
    assert lab.run(file).returncode == 2
    assert lab.runs() == {"0": 1}


def test_a_session_opened_to_readers_is_closed_before_anybody_can_hold_its_lock(lab: Lab) -> None:
    begun(lab)
    subprocess.run([*lab.as_victim, "chmod", "-R", "a+rX", lab.private], check=True)

    def read() -> None:
        (lab.private / "session.db").read_bytes()

    assert lab.mallory(read) == [True]
    assert "closed to them again" in lab.verb("ls", "--session", str(lab.root)).stderr
    assert lab.mallory(read) == [False]
    assert lab.verb("ls", "--session", str(lab.root)).stderr == ""


@pytest.mark.parametrize("mode", ["700", "755"])
def test_a_colleagues_session_is_named_as_theirs(lab: Lab, mode: str) -> None:
    begun(lab)
    subprocess.run([*lab.as_victim, "chmod", mode, lab.private], check=True)
    for words in (["ls"], ["ls", "--session", str(lab.root)], ["add", "--session", str(lab.root), "--", "true"]):
        done = subprocess.run(
            [*words_as(MALLORY), *GPUTUI, *words], cwd=lab.root, env={**os.environ, "HOME": "/"}, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == 1
        assert said(done).startswith(f"{lab.root} is a session of user {VICTIM}; gputui opens only your own")


@contextmanager
def locked_by_mallory(lab: Lab) -> Iterator[int]:
    """A process of the colleague that opened the lock while the folder was open to readers, and holds it."""
    subprocess.run([*lab.as_victim, "chmod", "-R", "a+rX", lab.private], check=True)
    holds = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    words = [*words_as(MALLORY), sys.executable, "-c", holds, str(lab.private / "lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        try:
            yield process.pid
        finally:
            assert process.stdin is not None
            process.stdin.close()


def test_a_colleague_who_holds_the_lock_of_a_folder_that_was_open_does_not_keep_its_owner_out(lab: Lab) -> None:
    file = begun(lab)
    with locked_by_mallory(lab) as mallory:
        assert "closed to them again" in lab.verb("ls", "--session", str(lab.root)).stderr
        lab.verb("pause", "--session", str(lab.root))
        lab.verb("resume", "--session", str(lab.root))
        lab.write(lab.told(0), lab.told(1))
        assert lab.run(file).returncode == 0
        assert alive(mallory)
    assert lab.runs() == {"0": 1, "1": 1}
    assert not list(lab.private.glob("lock.*"))


def test_who_holds_the_lock_is_named_truly(lab: Lab) -> None:
    """Where it cannot be replaced: not the owner that signed it last and is long gone."""
    begun(lab)
    with locked_by_mallory(lab) as mallory:
        said = str(locks.busy(Paths(str(lab.root))))
    assert said == f"{lab.root} is locked by a process of user {MALLORY} (pid {mallory})"


def test_a_lock_that_an_owner_was_handed_is_not_taken_for_a_colleagues(lab: Lab) -> None:
    """The kernel names the process that took it first; its number may be anybody's by now."""
    file = lab.write(lab.told(0, "sleep 600"))
    with lab.running(file, program=(*lab.as_victim, *GPUTUI), env={"HOME": str(lab.folder)}) as owner:
        until(lambda: lab.runs()["0"], "it runs")
        as_victim = partial(_taken_if_mallory_is_named, lab.private / "lock")
        assert as_user(VICTIM, as_victim, LAB) == "False"
        assert owner.poll() is None


def _taken_if_mallory_is_named(lock: Path) -> bool:
    """What would be done if the kernel named a process of another user."""
    fd = os.open(lock, os.O_RDWR)
    setattr(locks, "_holders", lambda lock: locks._Holders({1}, set()))  # noqa: B010  # root's; mypy minds it otherwise
    assert locks._user(1) == 0
    return locks._replaced(str(lock), fd)


SCRIPT = """\
import gputui, sys
from support import functions_of_users as users

if __name__ == "__main__":
    session = gputui.Session(sys.argv[1], gpus="cpu:1")
    if sys.argv[2] == "call":
        print(session.call(users.plain, "loud").result())
    else:
        print(gputui.Job(session, 0).result())
"""


class Trap:
    def __init__(self, sprung: Path) -> None:
        self.sprung = str(sprung)

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.sprung,)


def test_a_result_that_a_colleague_put_there_is_not_loaded(lab: Lab) -> None:
    script = lab.folder / "script.py"
    script.write_text(SCRIPT)

    def ran(*words: str) -> Done:
        tests = str(Path(__file__).parent.parent)
        environment = {**os.environ, "HOME": str(lab.folder), "PYTHONPATH": tests}
        return subprocess.run(
            [*lab.as_victim, sys.executable, str(script), str(lab.root), *words],
            cwd=lab.folder, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    assert ran("call").stdout == "LOUD\n"
    folder, trap = lab.job_folder(0), Trap(lab.sprung)
    evil = pickle.dumps({"job": "0", "attempt": "1", "ok": True, "kept": pickle.dumps(trap)})

    def plant() -> None:
        folder.rename(lab.root / "aside")
        folder.mkdir()
        (folder / "result.pickle").write_bytes(evil)

    assert lab.mallory(lambda: (folder / "result.pickle").write_bytes(evil), plant) == [False, True]
    done = ran("look")
    assert done.returncode == 1
    assert "not safe to load" in done.stderr
    assert "belongs to another user" in done.stderr
    lab.unharmed()


class Vandal:
    """Everything that a colleague can do to the session's folder, in whatever order chance gives."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.chance = random.Random(seed)

    def rage(self, seconds: float) -> int:
        acts = [self.link, self.plant, self.move, self.clear, self.fill, self.open_up]
        end, done = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            with suppress(OSError):
                self.chance.choice(acts)()
                done += 1
        return done

    def place(self) -> Path:
        return self.lab.job_folder(self.chance.randrange(40))

    def link(self) -> None:
        self.place().symlink_to(self.lab.precious)

    def plant(self) -> None:
        place = self.place()
        planted_folder(place, self.lab.forge(self.chance.randrange(80)))
        (place / f"{place.name}.OUT").symlink_to(self.lab.precious / "INFO")

    def move(self) -> None:
        self.place().rename(self.place())

    def clear(self) -> None:
        place = self.place()
        if place.is_symlink():
            place.unlink()
        else:
            place.rename(self.lab.root / f"gone{self.chance.random()}")

    def fill(self) -> None:
        place = self.place()
        (place / "INFO").symlink_to(self.lab.precious / "INFO")

    def open_up(self) -> None:
        self.place().chmod(0o777)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_whatever_a_colleague_does_to_the_folder_the_victims_files_stay_and_nothing_of_theirs_runs(
    lab: Lab, seed: int
) -> None:
    file = begun(lab)
    lab.write(*(lab.told(job, f"sleep 0.0{job % 3}; exit {job % 2}") for job in range(40)))
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(LAB)
        os.setuid(MALLORY)
        os._exit(0 if Vandal(lab, seed).rage(4.0) else 1)
    told = []
    try:
        for _ in range(4):
            told.append(lab.run(file, "--pause-after", "0").stderr)
            lab.database.write_bytes(b"damaged" * 1000)
    finally:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "Traceback" not in "".join(told)
    lab.unharmed()
    ran_by_us = {job.spec.command for job in lab.jobs()} if lab.run().returncode in (0, 1) else set()
    assert not any(str(lab.sprung) in command for command in ran_by_us)


def swap(one: Path, other: Path) -> None:
    """Both at once, so that there is always something at either place."""
    here, exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def test_a_session_that_is_swapped_while_it_is_opened_is_never_taken_for_the_victims(lab: Lab) -> None:
    begun(lab)
    evil = Session(lab.folder, "evil")
    words = (*words_as(MALLORY), *GPUTUI)
    assert evil.run(lab.write(f"test -e {lab.sprung}.evil || true"), program=words, env={"HOME": "/x"}).returncode == 0
    planted = lab.root / "planted"
    subprocess.run(["cp", "-a", evil.private, planted], check=True)
    subprocess.run(["chmod", "-R", "a+rwX", planted], check=True)
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(LAB)
        os.setuid(MALLORY)
        while True:
            with suppress(OSError):
                swap(lab.private, planted)
                time.sleep(random.random() / 500)

    def opened() -> set[str]:
        """What the victim's queue was taken for, in as many openings as there is time for."""
        found: set[str] = set()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            with suppress(SessionError, OSError):
                found.update(opened_once(Paths(str(lab.root))))
        return found

    try:
        assert as_user(VICTIM, opened, LAB) in (repr({lab.told(0)}), "set()")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def opened_once(paths: Paths) -> list[str]:
    paths.check()
    lock = locks.take(paths)
    if lock is None:
        return []
    try:
        owner = Owner(paths, lock, OwnerKind.CLIENT, places=False)
        commands = [job.spec.command for job in owner.scheduler.book]
        owner.start()
        owner.close()
        return commands
    finally:
        lock.release()
