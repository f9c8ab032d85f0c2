"""Full and read-only disks, missing locks and removed directories: running jobs continue, and errors say why."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.machines import full, read_only, tmpfs
from support.sessions import Session, listened, said
from support.waiting import remove_under_its_owner, until

from gputui.cli.output import REFUSED, UNREACHABLE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", "2m") as directory:
        yield directory


def session_on(disk: Path, tmp_path: Path) -> Session:
    """Return a session on the small disk, whose jobs run and write elsewhere."""
    session = Session(tmp_path)
    session.root = disk / "out"
    session.private = session.root / ".gputui"
    session.claims_directory = session.private / "claims"
    session.database = session.private / "session.db"
    return session


def test_a_full_disk_stops_new_starts_and_harms_no_running_job(small_disk: Path, tmp_path: Path) -> None:
    session = session_on(small_disk, tmp_path)
    gate, waits = session.gate, session.waits
    jobs = session.write(
        session.told(0, f"{waits}; exit 3"), session.told(1, waits), *(session.told(job) for job in range(2, 8))
    )
    with session.running(jobs) as owner:
        output = listened(owner)
        until(lambda: len(session.runs()) == 2, "two jobs run")
        with full(small_disk):
            gate.touch()
            until(lambda: not session.processes(), "the running jobs have ended")
            until(lambda: "no new jobs start" in "".join(output), "the full disk is reported")
        assert owner.wait(120) == 1
    assert session.states() == ["failed", *["succeeded"] * 7]
    assert session.last(0).exit_code == 3
    assert session.runs() == {str(job): 1 for job in range(8)}
    assert [session.markers(job) for job in range(8)] == [["FAILURE"], *[["SUCCESS"]] * 7]


def test_the_next_owner_continues_once_a_full_disk_has_space(small_disk: Path, tmp_path: Path) -> None:
    session = session_on(small_disk, tmp_path)
    gate, waits = session.gate, session.waits
    jobs = session.write(session.told(0, f"{waits}; exit 4"), session.told(1))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs(), "a job runs")
        with full(small_disk):
            owner.kill()
            owner.wait()
            gate.touch()
            until(lambda: not session.processes(), "the job has ended")
        assert session.run(gpus="0").returncode == 1
    assert session.last(0).exit_code == 4
    assert session.runs() == {"0": 1, "1": 1}


def test_a_full_disk_is_reported_at_the_start(small_disk: Path, tmp_path: Path) -> None:
    session = session_on(small_disk, tmp_path)
    jobs = session.write(session.told(0))
    with full(small_disk):
        done = session.run(jobs)
    assert done.returncode == 2
    assert "disk" in said(done) or "No space" in said(done)
    assert not session.runs()
    assert session.run(jobs).returncode == 0
    session.write(session.told(0), session.told(1))
    with full(small_disk), session.running(jobs) as owner:
        output = listened(owner)
        until(lambda: "disk" in "".join(output), "the full disk is reported")
    assert "Traceback" not in "".join(output)
    assert session.run(jobs).returncode == 0
    assert session.runs() == {"0": 1, "1": 1}


def test_a_read_only_disk_is_reported_at_the_start(session: Session) -> None:
    jobs = session.write(session.told(0))
    (session.directory / "sealed").mkdir()
    with read_only(session.directory / "sealed"):
        done = Session(session.directory, "sealed/out").run(jobs)
    assert done.returncode == 2
    assert "choose another --output-dir" in said(done)
    assert not session.runs()
    assert session.run(jobs).returncode == 0
    with read_only(session.root):
        done = session.run(jobs)
    assert done.returncode == 2
    assert "Read-only" in said(done)


def looks(session: Session, page: Path) -> dict[str, list[str]]:
    return {
        "ls": ["ls"], "json": ["ls", "--json"], "show": ["show", "1"], "logs": ["logs", "1"], "results": ["results"],
        "summary": ["summary"], "events": ["events"], "report": ["report", "-o", str(page)],
    }  # fmt: skip


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the contents of all files but the lock for starting daemons."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != "starting"}


def abandoned(session: Session) -> None:
    """Kill the owner: one job has ended before, one ends after it, one waits; the log has the newest commits."""
    gate, waits = session.gate, session.waits
    jobs = session.write("echo acc=0.75", session.told(1, f"{waits}; echo acc=0.5; exit 3"), session.told(2))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs()["1"], "the second job runs")
        owner.kill()
        owner.wait()
        gate.touch()
        until(lambda: b"exit 3" in (session.claims_directory / "1.1").read_bytes(), "it has already ended")


def test_a_readable_session_can_be_inspected(session: Session) -> None:
    abandoned(session)
    before = files_of(session.root)
    assert (session.private / "session.db-wal").stat().st_size
    with read_only(session.root):
        done = {name: session.call(*words) for name, words in looks(session, session.directory / "page.html").items()}
        refused = [session.call("add", "--", "true"), session.call("kill", "2")]
    assert files_of(session.root) == before
    assert {name: each.returncode for name, each in done.items()} == dict.fromkeys(done, 0), done
    assert not any(each.stderr for each in done.values()), done
    listing = json.loads(done["json"].stdout)
    assert [(job["state"], job["exit_code"]) for job in listing["jobs"]] == [
        ("succeeded", 0), ("failed", 3), ("queued", None)
    ]  # fmt: skip
    assert "shown as last recorded" in listing["trouble"]
    assert "Read-only file system" in done["ls"].stdout
    assert "acc=0.5" in done["logs"].stdout
    assert "0.5000" in done["results"].stdout
    assert "1 ok" in done["summary"].stdout
    assert "echo acc=0.75" in (session.directory / "page.html").read_text()
    assert all("Read-only" in said(each) for each in refused)


NO_LOCKS = """\
import errno, fcntl, os

def flock(fd, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

fcntl.flock = flock
"""


def without_locks(directory: Path) -> dict[str, Any]:
    """Let gputui and its daemons run as on a file system without locks."""
    (directory / "sitecustomize.py").write_text(NO_LOCKS)
    return {"env": {"PYTHONPATH": str(directory)}}


def test_without_locks_no_session_is_started_and_nothing_is_left(tmp_path: Path) -> None:
    session, no_locks = Session(tmp_path), without_locks(tmp_path)
    jobs = session.write(session.told(0))
    done = session.run(jobs, **no_locks)
    assert done.returncode == 2
    assert "cannot lock" in said(done)
    assert "No locks available" in said(done)
    assert not session.root.exists()
    session.root.mkdir()
    (session.root / "mine").touch()
    assert "cannot lock" in said(session.run(jobs, **no_locks))
    assert [path.name for path in session.root.iterdir()] == ["mine"]
    assert not session.runs()


def test_a_session_that_can_no_longer_be_locked_can_only_be_inspected(tmp_path: Path) -> None:
    session, no_locks = Session(tmp_path), without_locks(tmp_path)
    abandoned(session)
    before = files_of(session.root)
    for words in looks(session, tmp_path / "page.html").values():
        done = session.call(*words, **no_locks)
        assert (done.returncode, done.stderr) == (0, ""), done
    for words in (["add", "--", "true"], ["pause"], ["kill", "2"], ["gpus", "0"], ["stop"]):
        assert "cannot lock" in said(session.call(*words, **no_locks))
    assert files_of(session.root) == before
    said_by_doctor = session.call("doctor", **no_locks).stdout
    assert f"files in {session.root} cannot be locked: No locks available" in said_by_doctor
    assert "No locks available" in said(session.run(session.directory / "jobs.txt", **no_locks))


def test_a_job_whose_directory_was_removed_keeps_its_exit_code(session: Session) -> None:
    gate, waits = session.gate, session.waits
    jobs = session.write(session.told(0, f"{waits}; exit 6"), session.told(1))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs(), "the job runs")
        until((session.job_directory(0) / "INFO").exists, "its INFO is written")
        shutil.rmtree(session.job_directory(0))
        gate.touch()
        assert owner.wait(60) == 1
    assert session.last(0).exit_code == 6
    assert session.states() == ["failed", "succeeded"]
    assert not session.job_directory(0).exists()
    assert session.claims() == []
    assert session.run(jobs).returncode == 1
    assert session.runs() == {"0": 2, "1": 1}


def test_removing_the_session_directory_harms_no_running_job(session: Session) -> None:
    gate = session.directory / "gate"
    waits = f"until test -e {gate}; do sleep 0.01; done; echo end >>{session.directory}/end"
    jobs = session.write(session.told(0, waits), session.told(1))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs(), "the job runs")
        remove_under_its_owner(session.root)
        assert len(session.processes()) >= 1
        gate.touch()
        until((session.directory / "end").exists, "the job continues to its end")
        assert owner.wait(60) == UNREACHABLE
        _, err = owner.communicate()
        assert "was moved, removed or replaced" in err
        assert "Traceback" not in err
    assert session.runs() == {"0": 1}
    assert not session.root.exists()


@pytest.mark.parametrize("kind", ["symlink", "writable", "foreign", "file"])
def test_a_private_directory_that_is_not_safely_ours_is_refused(session: Session, kind: str) -> None:
    jobs = session.write(session.told(0))
    session.root.mkdir()
    match kind:
        case "symlink":
            (session.directory / "elsewhere").mkdir(mode=0o700)
            session.private.symlink_to(session.directory / "elsewhere")
        case "writable":
            session.private.mkdir()
            session.private.chmod(0o777)
        case "foreign":
            if os.getuid() != 0:
                pytest.skip("only root can give a directory away")
            session.private.mkdir(mode=0o700)
            os.chown(session.private, 12345, 12345)
        case "file":
            session.private.write_text("")
    done = session.run(jobs)
    assert done.returncode == 2
    assert str(session.private) in said(done)
    assert session.call("ls").returncode == REFUSED
    assert not session.runs()
    if session.private.is_dir():
        assert list(session.private.iterdir()) == []
