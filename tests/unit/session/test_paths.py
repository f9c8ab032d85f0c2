"""The session directory: closed to others, hidden from git, and valid names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gputui.session.client import Client
from gputui.session.control.connection import ClientError
from gputui.session.errors import NotOurs, SessionError
from gputui.session.job_directories import taken_numbers
from gputui.session.messages import Layout
from gputui.session.session_dir import Paths, SessionDir
from gputui.session.store.opening import open_session


def mode(path: str | Path) -> int:
    return os.stat(path).st_mode & 0o777


def opened_to_readers(root: Path) -> Paths:
    paths = Paths(str(root))
    paths.create()
    open_session(paths, Layout()).store.close()
    os.chmod(paths.private, 0o755)
    return Paths(str(root))


def test_a_new_private_directory_was_never_open_to_others(tmp_path: Path) -> None:
    paths, umask = Paths(str(tmp_path / "s")), os.umask(0)
    try:
        paths.create()
    finally:
        os.umask(umask)
    assert mode(paths.private) == 0o700
    assert paths.notices == []


def test_a_private_directory_that_others_can_read_is_closed_with_one_notice(tmp_path: Path) -> None:
    paths = opened_to_readers(tmp_path / "s")
    paths.check()
    assert mode(paths.private) == 0o700
    opened = open_session(paths, Layout())
    opened.store.close()
    assert [notice for notice in opened.notices if "which contains your jobs' environments" in notice] == opened.notices
    assert len(opened.notices) == 1
    again = Paths(paths.root)
    again.create()
    assert again.notices == []


def test_a_client_closes_it_too(tmp_path: Path) -> None:
    paths = opened_to_readers(tmp_path / "s")
    notices: list[str] = []
    for _ in range(2):
        Client(paths.root, notices.append)
        assert len(notices) == 1
        assert mode(paths.private) == 0o700


def test_only_a_directory_that_gputui_created_is_hidden_from_git(tmp_path: Path) -> None:
    Paths(str(tmp_path / "made")).create()
    assert (tmp_path / "made/.gitignore").read_text() == "*\n"
    repository = tmp_path / "repository"
    repository.mkdir()
    Paths(str(repository)).create()
    assert not (repository / ".gitignore").exists()


def test_the_private_directory_is_hidden_from_git(tmp_path: Path) -> None:
    try:
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    paths = Paths(str(tmp_path))
    paths.create()
    open_session(paths, Layout()).store.close()
    (tmp_path / "train.py").write_text("")
    status = subprocess.run(["git", "status", "--short"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert status.stdout.split() == ["??", "train.py"]


def test_a_name_that_is_not_utf_8_is_refused_in_one_sentence(tmp_path: Path) -> None:
    root = os.fsdecode(os.fsencode(tmp_path) + b"/runs\xff\xfe")
    with pytest.raises(SessionError, match="choose another --output-dir"):
        Paths(root).create()
    assert not os.path.exists(root)
    os.makedirs(os.path.join(root, ".gputui"), mode=0o700)
    with pytest.raises(ClientError, match="is not valid UTF-8"):
        Client(root)


def test_a_number_that_no_job_can_have_is_ignored(tmp_path: Path) -> None:
    for number in ("7", "99999999999999999999"):
        (tmp_path / f"job_{number}").mkdir()
    assert taken_numbers(str(tmp_path), Layout()) == [7]


def test_new_ids_start_after_job_directories_of_an_earlier_run(tmp_path: Path) -> None:
    (tmp_path / "s/job_7").mkdir(parents=True)
    paths = Paths(str(tmp_path / "s"))
    paths.create()
    opened = open_session(paths, Layout())
    opened.store.close()
    assert opened.scheduler.book.next_id == 8
    assert "new ids start at 8" in opened.notices[0]


def test_files_opened_while_the_directory_was_swapped_are_detected(tmp_path: Path) -> None:
    for name in ("one", "two"):
        paths = Paths(str(tmp_path / name))
        paths.create()
        open_session(paths, Layout()).store.close()
    paths, others = Paths(str(tmp_path / "one")), tmp_path / "two/.gputui"
    session_dir = SessionDir(paths)
    with open(paths.database, "rb"):
        session_dir.check_opened("session.db")
    os.rename(paths.private, tmp_path / "aside")
    os.rename(others, paths.private)
    with open(paths.database, "rb"):
        os.rename(paths.private, others)
        os.rename(tmp_path / "aside", paths.private)
        with pytest.raises(NotOurs, match="was replaced while opening it: check who can write to"):
            session_dir.check_opened("session.db")
    session_dir.close()
