"""The Python API with real sessions."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import functions_of_users as users
from support.sessions import Home, kill, reap
from support.waiting import until

import gputui
from gputui.session import lock as locks
from gputui.session.control.connection import ClientError
from gputui.session.lock import OwnerKind
from gputui.session.session_dir import Paths, is_in_use


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    for name in ("GPUTUI_SESSION", "GPUTUI_RUN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    home = Home(tmp_path, "runs")
    yield home
    home.end()
    reap()


@pytest.fixture
def session(home: Home) -> gputui.Session:
    return gputui.Session(home.root, gpus="cpu:2")


def test_commands_are_queued_and_their_ends_come_back(session: gputui.Session, home: Home) -> None:
    good = session.add("echo $((6 * 7)); echo $MINE", name="answer", env={"MINE": "yes"}, priority=50)
    bad = session.add(["sh", "-c", "echo 'oh dear' >&2; exit 3"], cwd=home.directory / ".")
    first, second = session.wait()
    assert (first.job, first.name, first.state, first.ok, first.exit_code) == (good.id, "answer", "succeeded", True, 0)
    assert Path(str(first.out)).read_text() == "42\nyes\n"
    assert first.value is None
    assert (second.state, second.exit_code) == ("failed", 3)
    assert Path(str(second.err)).read_text() == "oh dear\n"
    with pytest.raises(gputui.JobFailed, match=r"job 1 .* has failed"):
        bad.result()
    home.gone("all is done and the daemon has left")


def test_calls_of_a_decorated_function_are_jobs(session: gputui.Session) -> None:
    with session:
        jobs = [users.added(1, second=2), users.added(40, 2), users.fails("not like this")]
    assert [job.result() for job in jobs[:2]] == [3, 42]
    with pytest.raises(gputui.JobFailed, match="ValueError: not like this") as failed:
        jobs[2].result()
    assert isinstance(failed.value.__cause__, ValueError)
    assert failed.value.traceback is not None
    assert "functions_of_users.py" in failed.value.traceback
    assert "gputui/python" not in failed.value.traceback
    results = session.results()
    assert [result.name for result in results[1:]] == ["added first=40 second=2", "fails words=not like this"]
    assert results[2].traceback == failed.value.traceback
    # The marker is written beside the queue, not before its end is told.
    until(lambda: "SUCCESS" in os.listdir(session.directory(jobs[0])), "the marker is there")
    assert sorted(os.listdir(session.directory(jobs[0]))) == [
        "INFO", "SUCCESS", "call.json", "job_0.ERR", "job_0.OUT", "result.pickle",
    ]  # fmt: skip


def test_a_decorated_function_can_still_be_called_here() -> None:
    assert users.added.local(1, 2) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (users.refuses, "Refused: 1 and 2"),
        (users.gives_a_file, "cannot pass back its result"),
        (lambda: users.exits(7), "exit code 7"),
    ],
)
def test_every_failure_of_a_call_is_reported(session: gputui.Session, call: object, words: str) -> None:
    with session:
        job = call()  # type: ignore[operator]
    with pytest.raises(gputui.JobFailed, match=words):
        job.result()


def test_a_rerun_of_a_call_gives_the_newest_result(session: gputui.Session, home: Home) -> None:
    with session:
        job = users.read(str(home.directory / "notes"))
    with pytest.raises(gputui.JobFailed, match="No such file or directory"):
        job.result()
    (home.directory / "notes").write_text("found")
    subprocess.run([sys.executable, "-m", "gputui", "rerun", str(job.id), "--session", session.path], check=True)
    assert job.result() == "found"


class Trap:
    """What is run by whoever loads it."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.sprung),)


@pytest.mark.parametrize("spoilt", ["directory", "file", "link", "owner"])
def test_a_result_that_others_could_have_written_is_not_loaded(
    session: gputui.Session, home: Home, spoilt: str
) -> None:
    if spoilt == "owner" and os.getuid() != 0:
        pytest.skip("only root can give a file away")
    job = session.call(users.plain, "loud")
    assert job.wait().ok
    directory = Path(session.directory(job))
    result = directory / "result.pickle"
    trap = {"attempt": "1", "ok": True, "kept": pickle.dumps(Trap(home.directory / "sprung"))}
    result.write_bytes(pickle.dumps(trap))
    if spoilt == "directory":
        directory.chmod(0o777)
    elif spoilt == "file":
        result.chmod(0o664)
    elif spoilt == "link":
        result.rename(home.directory / "elsewhere")
        result.symlink_to(home.directory / "elsewhere")
    else:
        os.chown(result, 12345, -1)
    with pytest.raises(gputui.JobFailed, match=rf"not safe to load: .*{directory}"):
        job.result()
    assert not (home.directory / "sprung").exists()


def test_a_result_is_for_this_user_alone_and_for_its_own_job(session: gputui.Session) -> None:
    before = os.umask(0o002)
    try:
        jobs = [session.call(users.plain, word) for word in ("one", "two")]
        assert [job.result() for job in jobs] == ["ONE", "TWO"]
    finally:
        os.umask(before)
    directories = [Path(session.directory(job)) for job in jobs]
    assert [(directory / "result.pickle").stat().st_mode & 0o777 for directory in directories] == [0o600, 0o600]
    (directories[0] / "result.pickle").rename(directories[1] / "result.pickle")
    assert jobs[1].result() is None


def test_what_no_job_could_find_or_take_is_refused_at_once(session: gputui.Session, home: Home) -> None:
    with pytest.raises(ValueError, match="is not defined at the top level of a module, so jobs cannot find it"):
        session.call(lambda: 1)
    with pytest.raises(TypeError, match="cannot pass these arguments of"):
        session.call(users.plain, lambda: 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="missing a required argument"):
        session.call(users.plain)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unknown job option 'gpu'; known: name"):
        session.add("true", gpu=1)  # type: ignore[call-arg]
    assert session.results() == []


def test_jobs_wait_for_other_jobs(session: gputui.Session) -> None:
    first = session.add("sleep 0.1; echo first >>order")
    second = session.add("echo second >>order", after=[first], name="second")
    session.add("echo third >>order", after=["second"])
    session.wait()
    assert Path("order").read_text().split() == ["first", "second", "third"]
    assert second.state == "succeeded"


def test_waiting_ends_at_its_timeout_and_when_nothing_can_start(session: gputui.Session) -> None:
    slow = session.add("sleep 600")
    with pytest.raises(TimeoutError, match=r"1 of 1 job did not end within 0\.1 s"):
        slow.wait(timeout=0.1)
    held = session.add("true", hold=True)
    subprocess.run([sys.executable, "-m", "gputui", "kill", "0", "--session", session.path], check=True)
    with pytest.raises(gputui.Stuck, match="1 job waiting"):
        session.wait()
    assert held.state == "held"


def test_a_pause_after_errors_is_reported_and_can_be_resumed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_PROBE", "off")
    session = gputui.Session(home.root, gpus="cpu:1")
    for _ in range(3):
        session.add("exit 9")
    last = session.add("sleep 0.5; true", after=[2], after_any=True)
    with pytest.raises(gputui.Stuck, match="scheduler paused: 3 jobs failed: "):
        session.wait()
    session.resume()
    assert last.wait().ok


def test_queued_only_nothing_starts(home: Home) -> None:
    session = gputui.Session(home.root, gpus="cpu:1", start=False)
    job = session.add("true")
    assert job.state == "queued"
    home.gone()
    assert gputui.Session(home.root).wait(job.id)[0].ok


def test_without_a_path_it_is_the_session_that_add_would_mean(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_GPUS", "cpu:1")
    monkeypatch.setenv("GPUTUI_OUTPUT_DIR", "runs")
    assert gputui.Session().open().path == str(home.root)
    assert gputui.Session().add("true").wait().ok


def test_a_call_within_a_job_joins_its_session(session: gputui.Session) -> None:
    with session:
        job = users.queues_another(4)
    assert session.wait(job.result())[0].value == 5


def test_what_keeps_a_session_from_being_used_is_one_exception(home: Home) -> None:
    with pytest.raises(gputui.SessionError, match=r"gpus: .*'x' is not a GPU"):
        gputui.Session(home.root, gpus="x").open()
    (home.directory / "file").touch()
    with pytest.raises(gputui.SessionError, match="choose another --output-dir"):
        gputui.Session(home.directory / "file" / "runs", gpus="cpu:1").open()


SCRIPT = """
import gputui, sys

@gputui.job()
def doubled(number):
    return 2 * number

print("begun", __name__, file=sys.stderr)
with gputui.Session("runs", gpus="cpu:2"):
    jobs = [doubled(number) for number in range(3)]
print([job.result() for job in jobs])
"""


def test_a_script_that_queues_its_own_functions_does_so_once(home: Home) -> None:
    """Without a guard, too: a job that loads the script stops where it would queue."""
    (home.directory / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=home.directory, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[0, 2, 4]\n", done.stderr
    assert len(gputui.Session(home.root).results()) == 3


def test_jobs_outlive_the_program_that_queued_them(home: Home) -> None:
    script = (
        "import gputui, os\nwith gputui.Session('runs', gpus='cpu:1') as session:\n"
        "    [session.add(f'while ! test -e go; do sleep 0.01; done; echo {n} >>ran') for n in range(3)]\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=home.directory, timeout=60, stderr=subprocess.DEVNULL)
    (home.directory / "go").touch()
    until(lambda: home.runs() == {"0": 1, "1": 1, "2": 1}, "all have run")
    assert [result.ok for result in gputui.Session(home.root).wait(0, 1, 2)] == [True] * 3


def test_importing_gputui_loads_nothing_until_it_is_asked(home: Home) -> None:
    code = "import sys; before = set(sys.modules); import gputui; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['gputui']\n"
    code = "import gputui, sys; gputui.Session; print({'textual', 'asyncio', 'sqlite3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        gputui.Sesion  # noqa: B018


FORKS_MEANWHILE = """
import os, sys, time
import gputui
from gputui.session.ownership import acquisition as direct

start = direct.Owner.start

def fork_meanwhile(owner):
    start(owner)
    if os.fork() == 0:  # a worker, in a thread of the program that knows nothing of sessions
        open(sys.argv[2], "w").write(f"{os.getpid()}\\n")
        time.sleep(600)

direct.Owner.start = fork_meanwhile
print(gputui.Session(sys.argv[1], start=False).add("echo kept").id)
"""


def test_a_worker_forked_meanwhile_does_not_lock_the_session(session: gputui.Session, home: Home) -> None:
    """A program of threads forks in one while another adds a job to a session that nobody owns."""
    gputui.Session(home.root, gpus="cpu:2", start=False).add("echo first")
    note = home.directory / "worker"
    words = [sys.executable, "-W", "ignore", "-c", FORKS_MEANWHILE, str(home.root), str(note)]
    done = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert done.stdout is not None
        assert done.stdout.readline() == "1\n"
        until(lambda: note.exists() and note.read_text().endswith("\n"), "the worker works")
        lock = locks.take(Paths(str(home.root)))
        assert lock is not None, "the worker holds the session's lock"
        assert not is_in_use(str(home.private)), "the worker holds session directory"
        lock.release()
        assert [job.spec.command for job in home.jobs()] == ["echo first", "echo kept"]
    finally:
        if note.exists():
            kill(int(note.read_text()))
        done.wait(60)
        if done.stdout is not None:
            done.stdout.close()


def test_the_gpus_a_program_names_are_those_it_gets_or_it_is_refused(home: Home) -> None:
    gputui.Session(home.root, gpus="0,1", start=False).add("true")
    other = gputui.Session(home.root, gpus="2")
    job = other.add("echo $CUDA_VISIBLE_DEVICES")
    assert Path(str(job.wait().out)).read_text() == "2\n"
    home.gone()
    jobs = home.write("sleep 60")
    with home.running(jobs, gpus="4,4") as run:
        home.owner(OwnerKind.RUN)
        with pytest.raises(ClientError, match=f"open in gputui run .pid {run.pid}. with slots 4 4: change them"):
            gputui.Session(home.root, gpus="5").add("true")
        assert gputui.Session(home.root, gpus="4,4").add("true").wait().ok
