"""The jobs' folders: which file is where, what moves at a rerun, and which marker stands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.owning import spec

from gputui.core.job import Job, Queued
from gputui.session.errors import NotOurs
from gputui.session.job_folders import FAILURE, INFO, SUCCESS, Files, Folders


def job(id: int = 3, **settings: object) -> Job:
    return Job(id, spec("echo a", **settings), 0.0, 30, 0.0, Queued(0.0))


def run(folders: Folders, job: Job, number: int, text: str = "") -> Files:
    """As an attempt does: its files are made, and must not have been there."""
    folders.prepare(job, number)
    files = folders.files(job, number)
    for path in filter(None, (files.out, files.err)):
        with open(path, "x") as file:
            file.write(text or f"attempt {number}")
    return files


def test_the_first_attempt_writes_where_gpu_hog_wrote(tmp_path: Path) -> None:
    run(Folders(str(tmp_path)), job(), 1)
    assert (tmp_path / "job_3/job_3.OUT").read_text() == "attempt 1"
    assert (tmp_path / "job_3/job_3.ERR").is_file()
    assert not (tmp_path / "job_3/attempts").exists()


def test_at_the_first_rerun_the_first_output_moves_and_the_old_names_point_to_the_newest(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
    for number in (1, 2, 3):
        run(folders, replace(job(), issued=number), number)
    folder = tmp_path / "job_3"
    for number in (1, 2, 3):
        assert (folder / f"attempts/{number}/OUT").read_text() == f"attempt {number}"
    assert os.readlink(folder / "job_3.OUT") == "attempts/3/OUT"
    assert os.readlink(folder / "job_3.ERR") == "attempts/3/ERR"
    assert sorted(path.name for path in folder.iterdir()) == ["attempts", "job_3.ERR", "job_3.OUT"]
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    assert (moved / "job_3.OUT").read_text() == "attempt 3"


def test_preparing_may_be_cut_off_anywhere_and_done_again(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
    run(folders, job(), 1)
    folder = tmp_path / "job_3"
    (folder / "attempts/1").mkdir(parents=True)
    (folder / "job_3.OUT").rename(folder / "attempts/1/OUT")
    (folder / "job_3.OUT.new").symlink_to("attempts/2/OUT")
    folders.prepare(job(), 2)
    run(folders, job(), 2)
    assert (folder / "attempts/1/OUT").read_text() == "attempt 1"
    assert (folder / "attempts/1/ERR").read_text() == "attempt 1"
    assert (folder / "job_3.OUT").read_text() == "attempt 2"


def test_an_attempt_is_found_where_it_is_now(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
    run(folders, job(), 1)
    assert folders.written(replace(job(), issued=1), 1).out == str(tmp_path / "job_3/job_3.OUT")
    run(folders, job(), 2)
    assert folders.written(replace(job(), issued=2), 1).out == str(tmp_path / "job_3/attempts/1/OUT")
    assert folders.written(replace(job(), issued=2), 2).out == str(tmp_path / "job_3/attempts/2/OUT")


def test_a_named_outfile_takes_both_streams_and_later_attempts_get_a_number(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    named = job(outfile="log.txt", cwd=str(tmp_path))
    assert folders.files(named, 1) == Files(str(tmp_path / "log.txt"), None)
    assert folders.files(named, 2) == Files(str(tmp_path / "log.txt.2"), None)
    for number in (1, 2):
        run(folders, replace(named, issued=number), number)
    assert (tmp_path / "log.txt").read_text() == "attempt 1"
    assert (tmp_path / "log.txt.2").read_text() == "attempt 2"
    assert folders.written(replace(named, issued=2), 1).out == str(tmp_path / "log.txt")


@pytest.mark.parametrize(("prefix", "folder"), [("run", "run3"), ("a b{x}%", "a b{x}%3"), ("", "3"), ("{id}", "{id}3")])
def test_the_prefix_is_taken_as_it_is(tmp_path: Path, prefix: str, folder: str) -> None:
    assert Folders(str(tmp_path), prefix).folder(job()) == str(tmp_path / folder)


@pytest.mark.parametrize(
    ("name", "group", "folder"),
    [
        ("lr=0.1", "sweep.txt", "sweep.txt/lr=0.1/3"),
        (None, "", "jobs/job_3/3"),
        ("../../etc/passwd", "..", "_/_.._etc_passwd/3"),
        ("a/b\0c\nd", "x/y", "x_y/a_b_c_d/3"),
        (".hidden", "   ", "_/hidden/3"),
        ("größe", "g", "g/größe/3"),
    ],
)
def test_names_become_harmless_folders(tmp_path: Path, name: str | None, group: str, folder: str) -> None:
    folders = Folders(str(tmp_path), job_dir="{project}/{name}/{id}")
    made = folders.folder(job(name=name, group=group))
    assert made == str(tmp_path / folder)
    run(folders, job(name=name, group=group), 1)
    assert os.path.realpath(made).startswith(os.path.realpath(tmp_path) + os.sep)


def test_a_very_long_name_still_fits_a_file_system(tmp_path: Path) -> None:
    long = job(name="\N{GRINNING FACE}" * 200 + "ü" * 200, group="中" * 300)
    run(Folders(str(tmp_path), job_dir="{project}/{name}/{id}"), long, 1)
    letters = job(name="中" * 300)
    run(Folders(str(tmp_path), job_dir="{name}/{id}"), letters, 1)


def test_the_claim_becomes_the_marker_and_there_is_never_a_second_one(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
    folders.prepare(job(), 1)
    claim = tmp_path / "3.1"
    for marker in (FAILURE, SUCCESS, FAILURE):
        claim.write_text("77\nexit 0\n")
        with folders.enter(job()) as folder:
            folder.mark(marker, str(claim))
        assert [path.name for path in (tmp_path / "job_3").iterdir()] == [marker]
        assert (tmp_path / "job_3" / marker).read_bytes() == b""
        assert not claim.exists()


def test_a_marker_is_made_also_when_the_claim_is_gone(tmp_path: Path) -> None:
    folders = Folders(str(tmp_path))
    folders.prepare(job(), 1)
    with folders.enter(job()) as folder:
        folder.mark(SUCCESS, str(tmp_path / "none"))
        assert (tmp_path / "job_3" / SUCCESS).exists()
        folder.clear_markers()
        assert not (tmp_path / "job_3" / SUCCESS).exists()


def test_a_session_that_was_taken_away_is_not_made_again(tmp_path: Path) -> None:
    for folders in (Folders(str(tmp_path / "gone")), Folders(str(tmp_path / "gone"), job_dir="{name}/{id}")):
        with pytest.raises(FileNotFoundError):
            folders.prepare(job(), 1)
    assert not (tmp_path / "gone").exists()


@pytest.fixture
def lab_umask() -> Iterator[None]:
    """With which everything that is made may be written by the group."""
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("lab_umask")
@pytest.mark.parametrize("job_dir", ["", "{project}/{id}"])
def test_the_folders_and_notes_we_make_are_not_for_others_to_write(tmp_path: Path, job_dir: str) -> None:
    folders = Folders(str(tmp_path), job_dir=job_dir)
    for number in (1, 2):
        run(folders, replace(job(), issued=number), number)
    with folders.enter(job()) as folder:
        folder.write_info(b"text")
        folder.mark(SUCCESS, str(tmp_path / "none"))
    own = Path(folders.folder(job()))
    for path in (own, own / "attempts", own / "attempts/1", own / "attempts/2", own / INFO, own / SUCCESS):
        assert path.stat().st_mode & 0o022 == 0, path


@pytest.mark.parametrize("planted", [INFO, f".{INFO}.new", SUCCESS, FAILURE])
def test_nothing_is_written_through_a_link_in_a_jobs_folder(tmp_path: Path, planted: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folders = Folders(str(tmp_path))
    folders.prepare(job(), 1)
    (tmp_path / "job_3" / planted).symlink_to(precious)
    with folders.enter(job()) as folder:
        folder.write_info(b"text")
        folder.mark(SUCCESS, str(tmp_path / "none"))
    assert precious.read_text() == "mine"
    assert (tmp_path / "job_3" / INFO).read_text() == "text"
    assert not (tmp_path / "job_3" / INFO).is_symlink()


@pytest.mark.parametrize(
    ("job_dir", "planted"), [("", "job_3"), ("{project}/{id}", "jobs"), ("{project}/{id}", "jobs/3")]
)
def test_a_link_in_place_of_a_jobs_folder_is_refused_with_the_way_out(
    tmp_path: Path, job_dir: str, planted: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "root" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(elsewhere)
    folders = Folders(str(tmp_path / "root"), job_dir=job_dir)
    for number in (1, 2):
        with pytest.raises(NotOurs, match=f"^{link} is a link, .* move it away: mv {link} {link}.old"):
            folders.prepare(job(), number)
    with pytest.raises(NotOurs):
        folders.enter(job())
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("planted", ["attempts", "attempts/1", "attempts/2"])
def test_links_among_the_attempts_are_refused_too(tmp_path: Path, planted: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folders = Folders(str(tmp_path))
    run(folders, job(), 1)
    link = tmp_path / "job_3" / planted
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(NotOurs, match=f"^{link} is a link"):
        folders.prepare(job(), 2)
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_we_made_and_others_may_write_is_closed_to_them_and_one_of_the_users_is_not(
    tmp_path: Path,
) -> None:
    for made, left in ((True, 0), (False, 0o020)):
        root = tmp_path / str(made)
        (root / "job_3").mkdir(parents=True)
        (root / "job_3").chmod(0o775)
        Folders(str(root), made=made).prepare(replace(job(), issued=2), 2)
        assert (root / "job_3").stat().st_mode & 0o022 == left
