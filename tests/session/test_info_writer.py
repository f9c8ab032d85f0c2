"""The writer of INFO: notes ends off the critical path, marks the newest attempt only, waits for room."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.owning import spec
from support.waiting import until

from gputui.core.job import Attempt, End, Failed, Job, Placed, Queued, Running, Succeeded
from gputui.session.job_folders import Folders, JobFolder
from gputui.session.owner import info_writer as scribes
from gputui.session.owner.info_writer import InfoWriter


class Desk:
    """A writer with its folders, and what it forgot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "claims").mkdir()
        self.folders = Folders(str(root))
        self.forgotten: list[tuple[int, int]] = []
        self.writer = InfoWriter(
            self.folders, str(root / "claims"), lambda job, number: self.forgotten.append((job, number))
        )

    def markers(self, job_id: int = 0) -> list[str]:
        return [name for name in ("SUCCESS", "FAILURE") if (self.root / f"job_{job_id}" / name).exists()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(scribes, "RETRY_AFTER", 0.01)
    desk = Desk(tmp_path)
    desk.folders.prepare(job(), 1)
    yield desk
    desk.writer.close()


def job(id: int = 0) -> Job:
    return Job(id, spec("echo a"), 0.0, 30, 0.0, Queued(0.0))


def ended(end: End, number: int = 1) -> Job:
    attempt = Attempt(number, (), 1.0, 2.0, end, 0, None, "")
    return replace(job(), state=end, issued=number, attempts=(attempt,))


def running(number: int) -> Job:
    return replace(ended(Failed(1), number - 1), state=Running(Placed(number, (), (), 3.0, ""), 7), issued=number)


def test_an_end_is_noted_and_then_its_claim_is_forgotten(desk: Desk) -> None:
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "the claim is forgotten")
    assert desk.markers() == ["SUCCESS"]
    assert "state: succeeded" in (desk.root / "job_0/INFO").read_text()


def test_a_quick_rerun_leaves_no_marker_of_the_attempt_before(desk: Desk) -> None:
    """However the end's note and the next attempt's begin fall together."""
    for number in range(1, 60):
        desk.writer.note(ended(Failed(1), number), over=number)
        if number % 3 == 0:
            until(lambda: desk.markers() == ["FAILURE"], "it is noted")
        desk.writer.begin_anew(running(number + 1))
        assert desk.markers() == []
        desk.writer.note(running(number + 1))
    assert desk.markers() == []
    desk.writer.close()
    assert desk.markers() == []
    assert [number for _, number in sorted(desk.forgotten)] == list(range(1, 60))
    assert "attempt: 60" in (desk.root / "job_0/INFO").read_text()


def test_the_owner_does_not_wait_for_git(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(folder: str) -> str:
        asked.set()
        answer.wait(60)
        return ""

    monkeypatch.setattr(desk.writer._git, "of", slow)
    desk.writer.note(ended(Failed(1)), over=1)
    assert asked.wait(60)
    beginner = threading.Thread(target=lambda: desk.writer.begin_anew(running(2)))
    beginner.start()
    beginner.join(10)
    blocked = beginner.is_alive()
    answer.set()
    beginner.join()
    assert not blocked


def test_a_full_disk_is_waited_for_and_nothing_is_forgotten_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []
    write = JobFolder.write_info

    def full(folder: JobFolder, text: bytes) -> None:
        tries.append(text)
        if len(tries) < 5:
            assert desk.forgotten == []
            raise OSError(errno.ENOSPC, "full")
        write(folder, text)

    monkeypatch.setattr(JobFolder, "write_info", full)
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "there was room")
    assert len(tries) == 5
    assert desk.markers() == ["SUCCESS"]


def test_on_a_full_disk_it_still_leaves_and_the_claim_stays(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: JobFolder, text: bytes) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(JobFolder, "write_info", full)
    desk.writer.note(ended(Succeeded()), over=1)
    desk.writer.close(patience=60)
    assert desk.writer._thread is not None
    assert not desk.writer._thread.is_alive()
    assert desk.forgotten == []


def test_a_folder_that_was_taken_away_is_not_made_again(desk: Desk) -> None:
    (desk.root / "job_0").rmdir()
    desk.writer.note(ended(Succeeded()), over=1)
    until(lambda: desk.forgotten == [(0, 1)], "it went on")
    assert not (desk.root / "job_0").exists()


def test_closing_writes_what_is_there(desk: Desk) -> None:
    desk.writer.note(ended(Failed(1)), over=1)
    desk.writer.close(patience=60)
    assert desk.markers() == ["FAILURE"]
