"""INFO files and markers are written by a thread of their own, for the newest attempt only."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.sessions import spec
from support.waiting import until

from gputui.core.job import Attempt, End, Failed, Job, Placed, Queued, Running, Succeeded
from gputui.session.job_directories import Directories, JobDirectory
from gputui.session.owner import info_writer
from gputui.session.owner.info_writer import InfoWriter


class Desk:
    """A writer with its directories; records which claims it dropped."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "claims").mkdir()
        self.directories = Directories(str(root))
        self.forgotten: list[tuple[int, int]] = []
        self.writer = InfoWriter(
            self.directories, str(root / "claims"), lambda job, number: self.forgotten.append((job, number))
        )

    def markers(self, job_id: int = 0) -> list[str]:
        return [name for name in ("SUCCESS", "FAILURE") if (self.root / f"job_{job_id}" / name).exists()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(info_writer, "RETRY_AFTER", 0.01)
    desk = Desk(tmp_path)
    desk.directories.prepare(job(), 1)
    yield desk
    desk.writer.close()


def job(id: int = 0) -> Job:
    return Job(id, spec("echo a"), 0.0, 30, 0.0, Queued(0.0))


def ended(end: End, number: int = 1) -> Job:
    attempt = Attempt(number, (), 1.0, 2.0, end, 0, None, "")
    return replace(job(), state=end, issued=number, attempts=(attempt,))


def running(number: int) -> Job:
    return replace(ended(Failed(1), number - 1), state=Running(Placed(number, (), (), 3.0, ""), 7), issued=number)


def test_an_end_is_recorded_before_its_claim_is_removed(desk: Desk) -> None:
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "the claim is forgotten")
    assert desk.markers() == ["SUCCESS"]
    assert "state: succeeded" in (desk.root / "job_0/INFO").read_text()


def test_a_quick_rerun_leaves_no_marker_of_the_attempt_before(desk: Desk) -> None:
    for number in range(1, 60):
        desk.writer.note(ended(Failed(1), number), over=number)
        if number % 3 == 0:
            until(lambda: desk.markers() == ["FAILURE"], "the marker is written")
        desk.writer.clear_markers_of(running(number + 1))
        assert desk.markers() == []
        desk.writer.note(running(number + 1))
    assert desk.markers() == []
    desk.writer.close()
    assert desk.markers() == []
    assert [number for _, number in sorted(desk.forgotten)] == list(range(1, 60))
    assert "attempt: 60" in (desk.root / "job_0/INFO").read_text()


def test_the_owner_does_not_wait_for_git(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(directory: str) -> str:
        asked.set()
        answer.wait(60)
        return ""

    monkeypatch.setattr(desk.writer._git, "lines", slow)
    desk.writer.note(ended(Failed(1)), over=1)
    assert asked.wait(60)
    beginner = threading.Thread(target=lambda: desk.writer.clear_markers_of(running(2)))
    beginner.start()
    beginner.join(10)
    blocked = beginner.is_alive()
    answer.set()
    beginner.join()
    assert not blocked


def test_claims_stay_until_a_full_disk_has_space(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    write = JobDirectory.write_info

    def full(directory: JobDirectory, text: bytes) -> None:
        tries.append(text)
        if len(tries) < 5:
            assert desk.forgotten == []
            raise OSError(errno.ENOSPC, "full")
        write(directory, text)

    monkeypatch.setattr(JobDirectory, "write_info", full)
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "there is space")
    assert len(tries) == 5
    assert desk.markers() == ["SUCCESS"]


def test_closing_on_a_full_disk_keeps_the_claim(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(directory: JobDirectory, text: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(JobDirectory, "write_info", full)
        desk.writer.note(ended(Succeeded()), over=1)
        desk.writer.close(patience=60)
    assert desk.writer._thread is not None
    assert not desk.writer._thread.is_alive()
    assert desk.forgotten == []


def test_a_removed_directory_is_not_created_again(desk: Desk) -> None:
    (desk.root / "job_0").rmdir()
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "the claim is dropped")
    assert not (desk.root / "job_0").exists()
