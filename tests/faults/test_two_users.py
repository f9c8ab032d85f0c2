"""A malicious colleague in a directory that the whole lab may write to: the victim's files stay unchanged, nothing of
the colleague's runs as the victim, and messages say what to do.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Done, Session, finished, said
from support.users import LAB_UMASK, as_user
from support.waiting import until

from gputui.cli.output import NOT_FOUND, REFUSED
from gputui.core.job import Attempt, Failed, Job, JobSpec
from gputui.session import lock as locks
from gputui.session.errors import SessionError
from gputui.session.job_directories import info
from gputui.session.lock import OwnerKind
from gputui.session.owner.owner import Owner
from gputui.session.session_dir import Paths

VICTIM, MALLORY, LAB = 54_321, 54_322, 54_320
"""Two users and the group that they share. No account has these ids."""


def words_as(uid: int) -> tuple[str, ...]:
    """Return the words to put before a command that runs as this user of the lab. The command may read all files, so
    that it finds its Python, but has no other privileges.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users; run the tests as root to check this")
    reads = ("--inh-caps", "-all,+dac_read_search", "--ambient-caps", "-all,+dac_read_search")
    shell = ("sh", "-c", f'umask {LAB_UMASK:03o}; exec "$@"', "sh")
    words = ("setpriv", "--reuid", str(uid), "--regid", str(LAB), "--clear-groups", *reads, *shell)
    try:
        subprocess.run([*words, sys.executable, "-c", ""], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("setpriv is missing, or cannot let another user read our Python")
    return words


@contextmanager
def shared_directory() -> Iterator[Path]:
    """Yield a set-gid directory of the victim that the whole lab may write to, like a project directory."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as two users; run the tests as root to check this")
    path = Path(tempfile.mkdtemp(prefix="lab-"))
    try:
        os.chown(path, VICTIM, LAB)
        path.chmod(0o2775)
        yield path
    finally:
        shutil.rmtree(path)


class Lab(Session):
    """The victim's session in the lab's directory, the victim's own files, and acts of the colleague."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.precious = directory / "precious"
        self.sprung = directory / "sprung"
        """Exists only if something of the colleague's was run."""
        self.as_victim = words_as(VICTIM)
        self.precious.mkdir()
        for name in ("INFO", ".INFO.new", "SUCCESS", "FAILURE", "result.pickle", "job_0.OUT", "job_1.OUT", "attempts"):
            (self.precious / name).write_text("dear to me")
        for path in (self.precious, *self.precious.iterdir()):
            os.chown(path, VICTIM, LAB)
        self.before = self.seen()

    def seen(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.precious.iterdir()}

    def settings(self) -> dict[str, Any]:
        return {"program": (*self.as_victim, *GPUTUI), "env": {"HOME": str(self.directory)}}

    def run(self, *words: str | Path, **settings: Any) -> Done:
        return super().run(*words, **self.settings(), **settings)

    def subcommand(self, *words: str, status: int = 0) -> Done:
        process = subprocess.Popen(
            [*self.as_victim, *GPUTUI, words[0], "--session", str(self.root), *words[1:]],
            cwd=self.directory, env={**os.environ, "HOME": str(self.directory)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        done = finished(process)
        assert done.returncode == status, done
        assert "Traceback" not in done.stderr
        return done

    def may_mallory(self, *acts: Callable[[], object]) -> list[bool]:
        """Try each act as the colleague; return which of them the kernel allowed."""
        return [as_user(MALLORY, lambda act=act: _done(act), LAB) == "True" for act in acts]  # type: ignore[misc]

    def unharmed(self) -> None:
        assert self.seen() == self.before
        assert not self.sprung.exists()

    def forge(self, id: int) -> str:
        """Return an INFO file according to which a job has failed, so that it may be rerun."""
        attempt = Attempt(1, ("0",), 1767225600.0, 1767225601.0, Failed(1), 1, None, "")
        spec = JobSpec(command=f"touch {self.sprung}", cwd="/", environment="")
        return info(Job(id, spec, 0.0, 30, 0.0, Failed(1), issued=1, attempts=(attempt,))).decode()

    def mallory(self, *acts: Callable[[], object]) -> None:
        assert all(self.may_mallory(*acts))


@contextmanager
def child_of_mallory(act: Callable[[], object]) -> Iterator[int]:
    """Run the act in a process of the colleague; yield its pid."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(LAB)
        os.setuid(MALLORY)
        act()
        os._exit(0)
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _done(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


@pytest.fixture
def lab() -> Iterator[Lab]:
    with shared_directory() as directory:
        made = Lab(directory)
        yield made
        made.sweep()


def begun(lab: Lab, jobs: int = 1) -> Path:
    file = lab.write(*(lab.told(job) for job in range(jobs)))
    done = lab.run(file)
    assert done.returncode == 0, done
    return file


def planted_directory(path: Path, text: str) -> None:
    path.mkdir()
    (path / "INFO").write_text(text)


def test_a_colleague_cannot_write_into_a_jobs_directory_nor_read_the_session(lab: Lab) -> None:
    begun(lab)
    directory = lab.job_directory(0)
    assert directory.stat().st_uid == VICTIM
    allowed = lab.may_mallory(
        lambda: (directory / "INFO").unlink(),
        lambda: (directory / "INFO").write_text(lab.forge(0)),
        lambda: (directory / "attempts").symlink_to(lab.precious),
        lambda: directory.chmod(0o777),
        lambda: os.listdir(lab.private),
    )
    assert not any(allowed)
    lab.unharmed()


def test_files_in_the_place_of_a_jobs_directory_are_not_changed_and_the_job_says_what_to_do(lab: Lab) -> None:
    begun(lab)
    places = {1: lab.job_directory(1), 2: lab.job_directory(2), 3: lab.job_directory(3)}
    lab.mallory(
        lambda: planted_directory(places[1], lab.forge(1)),
        lambda: places[2].symlink_to(lab.precious),
        lambda: places[3].write_text(""),
    )
    file = lab.write(*(lab.told(job) for job in range(5)))
    done = lab.run(file, "--pause-after", "0")
    assert "Traceback" not in done.stderr
    assert lab.states() == ["succeeded", "refused", "refused", "refused", "succeeded"]
    for job, what in ((1, "a directory"), (2, "a symlink"), (3, "not a directory")):
        path = places[job]
        assert f"{path} is {what} owned by user {MALLORY}; it must be a real directory you own" in done.stdout
        assert f"move it away: mv {path} {path}.old; then rerun #{job}" in done.stdout
    lab.unharmed()
    for path in places.values():
        subprocess.run([*lab.as_victim, "mv", path, f"{path}.old"], check=True)
    assert lab.run(file).returncode == 0
    assert lab.states() == ["succeeded"] * 5
    assert (Path(f"{places[1]}.old") / "INFO").read_text() == lab.forge(1), "theirs is as it was"
    lab.unharmed()


def test_a_directory_swapped_while_its_job_runs_loses_only_its_own_files(lab: Lab) -> None:
    go = lab.directory / "go"
    file = lab.write(lab.told(0, f"until test -e {go}; do sleep 0.01; done; exit 3"), lab.told(1))
    with lab.running(file, "--pause-after", "0", **lab.settings()) as owner:
        until(lambda: lab.runs()["0"], "the job runs")
        directory = lab.job_directory(0)
        lab.mallory(lambda: directory.rename(lab.root / "aside"), lambda: directory.symlink_to(lab.precious))
        go.touch()
        owner.wait(60)
    assert lab.states() == ["failed", "succeeded"]
    lab.unharmed()
    done = lab.run("--pause-after", "0")
    assert "Traceback" not in done.stderr
    lab.unharmed()


def test_forged_directories_are_not_used_to_rebuild_the_queue(lab: Lab) -> None:
    begun(lab, 2)
    lab.mallory(
        lambda: planted_directory(lab.job_directory(2), lab.forge(2)),
        lambda: planted_directory(lab.root / "sweep", lab.forge(3)),
        lambda: lab.job_directory(1).rename(lab.root / "stolen"),
        lambda: planted_directory(lab.job_directory(1), lab.forge(1)),
    )
    lab.database.write_bytes(b"damaged" * 1000)
    lab.backup.unlink(missing_ok=True)
    done = lab.run()
    assert "Rebuilt" in done.stderr
    assert "belongs to another user" in done.stderr
    assert "Traceback" not in done.stderr
    lab.subcommand("rerun", "--all-failed", "-y", status=NOT_FOUND)
    assert lab.run("--rerun-lost").returncode in (0, 1)
    assert [job.spec.command for job in lab.jobs()] == [lab.told(0), lab.told(1)], "the stolen directory is still hers"
    lab.unharmed()


def test_a_private_directory_that_was_replaced_is_refused(lab: Lab) -> None:
    begun(lab)
    lab.mallory(
        lambda: lab.private.rename(lab.root / "taken"),
        lambda: lab.private.mkdir(0o755),
        lambda: (lab.private / "session.db").write_bytes(b""),
    )
    file = lab.write(lab.told(1))
    for words in ((file,), ()):
        done = lab.run(*words)
        assert done.returncode == 2
        assert "belongs to another user" in done.stderr
    assert f"is a session of user {MALLORY}" in lab.subcommand("ls", status=1).stderr
    lab.mallory(
        lambda: (lab.private / "session.db").unlink(),
        lambda: lab.private.rmdir(),
        lambda: lab.private.symlink_to(lab.root / "taken"),
    )
    assert lab.run(file).returncode == 2
    assert lab.runs() == {"0": 1}


def test_a_session_readable_by_others_is_made_private_again(lab: Lab) -> None:
    begun(lab)
    subprocess.run([*lab.as_victim, "chmod", "-R", "a+rX", lab.private], check=True)

    def read() -> None:
        (lab.private / "session.db").read_bytes()

    assert lab.may_mallory(read) == [True]
    assert "which contains your jobs' environments" in lab.subcommand("ls").stderr
    assert lab.may_mallory(read) == [False]
    assert lab.subcommand("ls").stderr == ""


@pytest.mark.parametrize("mode", ["700", "755"])
def test_the_session_of_another_user_is_refused_by_name(lab: Lab, mode: str) -> None:
    begun(lab)
    subprocess.run([*lab.as_victim, "chmod", mode, lab.private], check=True)
    for words in (["ls"], ["ls", "--session", str(lab.root)], ["add", "--session", str(lab.root), "--", "true"]):
        done = subprocess.run(
            [*words_as(MALLORY), *GPUTUI, *words], cwd=lab.root, env={**os.environ, "HOME": "/"}, capture_output=True,
            text=True,
        )  # fmt: skip
        assert done.returncode == (REFUSED if "--session" in words else NOT_FOUND)
        assert said(done).startswith(f"{lab.root} is a session of user {VICTIM}; gputui opens only your own")


@contextmanager
def locked_by_mallory(lab: Lab) -> Iterator[int]:
    """The colleague opened the lock file while the directory was readable, and locks it."""
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


def test_the_holder_of_a_lock_is_named_correctly(lab: Lab) -> None:
    """The other user, not the scheduler that signed the file last."""
    begun(lab)
    with locked_by_mallory(lab) as mallory:
        said = str(locks.busy(Paths(str(lab.root))))
    assert said == f"{lab.root} is locked by a process owned by user {MALLORY} (pid {mallory})"


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


def test_a_forged_result_is_not_loaded(lab: Lab) -> None:
    script = lab.directory / "script.py"
    script.write_text(SCRIPT)

    def ran(*words: str) -> Done:
        tests = str(Path(__file__).parent.parent)
        environment = {**os.environ, "HOME": str(lab.directory), "PYTHONPATH": tests}
        return subprocess.run(
            [*lab.as_victim, sys.executable, str(script), str(lab.root), *words],
            cwd=lab.directory, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    assert ran("call").stdout == "LOUD\n"
    directory, trap = lab.job_directory(0), Trap(lab.sprung)
    evil = pickle.dumps({"job": "0", "attempt": "1", "ok": True, "kept": pickle.dumps(trap)})

    def plant() -> None:
        directory.rename(lab.root / "aside")
        directory.mkdir()
        (directory / "result.pickle").write_bytes(evil)

    assert lab.may_mallory(lambda: (directory / "result.pickle").write_bytes(evil), plant) == [False, True]
    done = ran("look")
    assert done.returncode == 1
    assert "not safe to load" in done.stderr
    assert "belongs to another user" in done.stderr
    lab.unharmed()


class Vandal:
    """Random acts of a colleague on the session's directory."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.chance = random.Random(seed)

    def rage(self) -> None:
        acts = [self.link, self.plant, self.move, self.clear, self.fill, self.open_up]
        while True:
            with suppress(OSError):
                self.chance.choice(acts)()

    def place(self) -> Path:
        return self.lab.job_directory(self.chance.randrange(40))

    def link(self) -> None:
        self.place().symlink_to(self.lab.precious)

    def plant(self) -> None:
        place = self.place()
        planted_directory(place, self.lab.forge(self.chance.randrange(80)))
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
def test_random_acts_of_a_colleague_change_no_file_and_run_nothing(lab: Lab, seed: int) -> None:
    file = begun(lab)
    lab.write(*(lab.told(job, f"sleep 0.0{job % 3}; exit {job % 2}") for job in range(40)))
    messages = ""
    with child_of_mallory(Vandal(lab, seed).rage) as child:
        for _ in range(4):
            messages += lab.run(file, "--pause-after", "0").stderr
            lab.database.write_bytes(b"damaged" * 1000)
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the colleague is still at work"
    assert "Traceback" not in messages
    lab.unharmed()
    ran_by_us = {job.spec.command for job in lab.jobs()} if lab.run().returncode in (0, 1) else set()
    assert not any(str(lab.sprung) in command for command in ran_by_us)


def swap(one: Path, other: Path) -> None:
    """Exchange two directories atomically."""
    here, exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def test_a_session_swapped_while_it_is_opened_is_never_used(lab: Lab) -> None:
    begun(lab)
    evil = Session(lab.directory, "evil")
    words = (*words_as(MALLORY), *GPUTUI)
    assert evil.run(lab.write(f"test -e {lab.sprung}.evil || true"), program=words, env={"HOME": "/x"}).returncode == 0
    planted = lab.root / "planted"
    subprocess.run(["cp", "-a", evil.private, planted], check=True)
    subprocess.run(["chmod", "-R", "a+rwX", planted], check=True)

    def keep_swapping() -> None:
        while True:
            with suppress(OSError):
                swap(lab.private, planted)
                time.sleep(random.random() / 500)

    def opened() -> set[str]:
        """Open the session for six seconds; return the commands that were found."""
        found: set[str] = set()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            with suppress(SessionError, OSError):
                found.update(opened_once(Paths(str(lab.root))))
        return found

    with child_of_mallory(keep_swapping):
        assert as_user(VICTIM, opened, LAB) in (repr({lab.told(0)}), "set()")


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
