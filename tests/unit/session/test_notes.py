"""INFO: it is readable for people, and parsed when the store is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.sessions import spec

from gputui.core.job import (
    Attempt,
    End,
    Failed,
    Job,
    Lost,
    Placed,
    Queued,
    Running,
    Succeeded,
    TimedOut,
)
from gputui.session.job_directories import Commit, commits_in, info, with_earlier
from gputui.session.store.rebuild import read_note, read_notes

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


def job(command: str = "echo a", **settings: object) -> Job:
    return Job(4, spec(command, **settings), 0.0, 30, 0.0, Queued(0.0))


def over(job: Job, end: End, code: int | None = None, why: str | None = None) -> Job:
    attempt = Attempt(2, ("0", "GPU-1"), 1000.125, 1001.5, end, code, why, "")
    return replace(job, attempts=(attempt,), issued=2, state=end)


def written(directory: Path, job: Job, git: str = "") -> Path:
    path = directory / "INFO"
    path.write_bytes(info(job, git))
    return path


def read_back(path: Path) -> Job:
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        return read_note(str(path), directory)
    finally:
        os.close(directory)


def test_the_first_three_lines_are_those_of_gpu_hog_and_a_running_job_has_no_end() -> None:
    lines = info(over(job(name="lr 0.1"), Succeeded(), 0)).decode().splitlines()
    assert lines[:3] == ["job name: lr 0.1", "ran on gpu: 0,GPU-1", "command: echo a"]
    placed = Placed(1, (0,), ("0",), 1000.0, "")
    text = info(replace(job(), state=Running(placed, 7), issued=1)).decode()
    assert "attempt: 1\nstarted: " in text
    assert "\nended: " not in text


@pytest.mark.parametrize("end", [Failed(139), TimedOut(1234567.5, silent=True), Lost("the wrapper was killed")])
def test_a_job_is_read_back_with_its_newest_attempt_but_without_its_variables(tmp_path: Path, end: End) -> None:
    """Other users may be allowed to read INFO, and variables may contain secrets."""
    ended = over(job(occurrence=2, priority=50, variables={"TOKEN": "secret"}), end, 139, "ValueError: x")
    earlier = replace(ended.attempts[0], number=1)
    path = written(tmp_path, replace(ended, attempts=(earlier, *ended.attempts)))
    assert read_back(path) == replace(ended, spec=replace(ended.spec, variables={}))
    assert "secret" not in path.read_text()


@given(command=TEXT, name=TEXT, cwd=TEXT, why=TEXT)
@example("echo\nrecord: {}", "x\nrecord: {}", "/a\nrecord: {}", "y\nrecord: {}")
@settings(max_examples=50)
def test_any_command_and_name_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, command: str, name: str, cwd: str, why: str
) -> None:
    directory = tmp_path_factory.getbasetemp()
    ended = over(job(command, name=name, cwd=cwd), Failed(1), 1, why)
    note = read_back(written(directory, ended, "git commit: abc\ngit dirty: M record: {}\n"))
    assert note == ended


@pytest.mark.parametrize("text", ["", "job name: x\n", "record: ", 'record: {"id":0}\n', "\0\xff"])
def test_an_invalid_info_is_ignored(tmp_path: Path, text: str) -> None:
    for name in ("job_0", "job_1"):
        (tmp_path / name).mkdir()
    (tmp_path / "job_0/INFO").write_text(text)
    written(tmp_path / "job_1", over(job(), Succeeded(), 0))
    assert [note.id for note in read_notes(str(tmp_path))] == [4]


def test_notes_are_found_in_nested_directories_but_not_in_attempts_or_nested_sessions(tmp_path: Path) -> None:
    for directory in ("sweep/lr/4", "sweep/lr/4/attempts/1", ".gputui/claims"):
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        written(tmp_path / directory, over(job(), Succeeded(), 0))
    for nested in (".gputui", "job_0"):
        (tmp_path / "sweep/lr/4/gputui_run" / nested).mkdir(parents=True)
    written(tmp_path / "sweep/lr/4/gputui_run/job_0", over(replace(job(), id=0), Succeeded(), 0))
    assert [note.id for note in read_notes(str(tmp_path))] == [4]


@pytest.mark.parametrize("spoilt", ["directory", "file", "link"])
def test_notes_that_others_could_have_written_are_ignored_and_reported(tmp_path: Path, spoilt: str) -> None:
    directory = tmp_path / "job_4"
    directory.mkdir()
    note = written(directory, over(job(), Failed(1), 1))
    if spoilt == "directory":
        directory.chmod(0o775)
    elif spoilt == "file":
        note.chmod(0o664)
    else:
        note.rename(tmp_path / "elsewhere")
        note.symlink_to(tmp_path / "elsewhere")
    doubts: list[str] = []
    assert read_notes(str(tmp_path), doubts.append) == []
    assert len(doubts) == 1
    assert str(directory) in doubts[0]


# The git commit of each attempt


FIRST = "job name: a\nattempt: 1\ngit commit: abc\ngit dirty:  M x.py\ngit dirty: and 7 more\n"


def test_a_commit_and_its_changed_files_are_read_back() -> None:
    assert commits_in(FIRST) == {1: Commit("abc", 8)}
    assert commits_in("attempt: 1\n") == {}


def test_the_commit_that_an_attempt_began_at_stays_when_it_ends_at_another() -> None:
    assert with_earlier("git commit: def\n", 1, FIRST) == "git commit: abc\ngit dirty:  M x.py\ngit dirty: and 7 more\n"


def test_a_later_attempt_keeps_what_the_earlier_ones_ran_at() -> None:
    second = "attempt: 2\n" + with_earlier("git commit: def\n", 2, FIRST)
    third = "attempt: 3\n" + with_earlier("git commit: fed\n", 3, second)
    assert commits_in(third) == {1: Commit("abc", 8), 2: Commit("def", 0), 3: Commit("fed", 0)}
