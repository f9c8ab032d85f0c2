"""Job directories: the place of each file, what moves at a rerun, and the markers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.sessions import add, ended, owned, spec

from gputui.core import steps
from gputui.core.job import Job, Queued
from gputui.core.steps import Step
from gputui.session.errors import NotOurs
from gputui.session.job_directories import FAILURE, INFO, SUCCESS, Directories, Files


def job(id: int = 3, **settings: object) -> Job:
    return Job(id, spec("echo a", **settings), 0.0, 30, 0.0, Queued(0.0))


def run(directories: Directories, job: Job, number: int, text: str = "") -> Files:
    """Create the files of an attempt, which must not exist yet."""
    directories.prepare(job, number)
    files = directories.files(job, number)
    for path in filter(None, (files.out, files.err)):
        with open(path, "x") as file:
            file.write(text or f"attempt {number}")
    return files


def test_the_first_attempt_writes_where_gpu_hog_wrote(tmp_path: Path) -> None:
    run(Directories(str(tmp_path)), job(), 1)
    assert (tmp_path / "job_3/job_3.OUT").read_text() == "attempt 1"
    assert (tmp_path / "job_3/job_3.ERR").is_file()
    assert not (tmp_path / "job_3/attempts").exists()


def test_a_rerun_moves_the_first_output_and_links_the_newest(tmp_path: Path) -> None:
    directories = Directories(str(tmp_path))
    for number in (1, 2, 3):
        run(directories, replace(job(), issued=number), number)
    directory = tmp_path / "job_3"
    for number in (1, 2, 3):
        assert (directory / f"attempts/{number}/OUT").read_text() == f"attempt {number}"
    assert os.readlink(directory / "job_3.OUT") == "attempts/3/OUT"
    assert os.readlink(directory / "job_3.ERR") == "attempts/3/ERR"
    assert sorted(path.name for path in directory.iterdir()) == ["attempts", "job_3.ERR", "job_3.OUT"]
    written = [directories.current_files(replace(job(), issued=3), number).out for number in (1, 3)]
    assert written == [str(directory / "attempts/1/OUT"), str(directory / "attempts/3/OUT")]
    moved = tmp_path / "elsewhere"
    directory.rename(moved)
    assert (moved / "job_3.OUT").read_text() == "attempt 3"


def test_an_interrupted_preparation_can_be_repeated(tmp_path: Path) -> None:
    directories = Directories(str(tmp_path))
    run(directories, job(), 1)
    directory = tmp_path / "job_3"
    (directory / "attempts/1").mkdir(parents=True)
    (directory / "job_3.OUT").rename(directory / "attempts/1/OUT")
    (directory / "job_3.OUT.new").symlink_to("attempts/2/OUT")
    directories.prepare(job(), 2)
    run(directories, job(), 2)
    assert (directory / "attempts/1/OUT").read_text() == "attempt 1"
    assert (directory / "attempts/1/ERR").read_text() == "attempt 1"
    assert (directory / "job_3.OUT").read_text() == "attempt 2"


def test_a_named_outfile_takes_both_streams_and_later_attempts_get_a_number(tmp_path: Path) -> None:
    directories = Directories(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    named = job(outfile="log.txt", cwd=str(tmp_path))
    assert directories.files(named, 1) == Files(str(tmp_path / "log.txt"), None)
    assert directories.files(named, 2) == Files(str(tmp_path / "log.txt.2"), None)
    for number in (1, 2):
        run(directories, replace(named, issued=number), number)
    assert (tmp_path / "log.txt").read_text() == "attempt 1"
    assert (tmp_path / "log.txt.2").read_text() == "attempt 2"
    assert directories.current_files(replace(named, issued=2), 1).out == str(tmp_path / "log.txt")


@pytest.mark.parametrize(
    ("prefix", "directory"), [("run", "run3"), ("a b{x}%", "a b{x}%3"), ("", "3"), ("{id}", "{id}3")]
)
def test_the_prefix_is_literal(tmp_path: Path, prefix: str, directory: str) -> None:
    assert Directories(str(tmp_path), prefix).directory(job()) == str(tmp_path / directory)


@pytest.mark.parametrize(
    ("name", "group", "directory"),
    [
        ("lr=0.1", "sweep.txt", "sweep.txt/lr=0.1/3"),
        (None, "", "jobs/job_3/3"),
        ("../../etc/passwd", "..", "_/_.._etc_passwd/3"),
        ("a/b\0c\nd", "x/y", "x_y/a_b_c_d/3"),
        (".hidden", "   ", "_/hidden/3"),
        ("größe", "g", "g/größe/3"),
    ],
)
def test_names_become_safe_directories(tmp_path: Path, name: str | None, group: str, directory: str) -> None:
    directories = Directories(str(tmp_path), job_dir="{project}/{name}/{id}")
    made = directories.directory(job(name=name, group=group))
    assert made == str(tmp_path / directory)
    run(directories, job(name=name, group=group), 1)
    assert os.path.realpath(made).startswith(os.path.realpath(tmp_path) + os.sep)


def test_a_very_long_name_is_shortened(tmp_path: Path) -> None:
    long = job(name="\N{GRINNING FACE}" * 200 + "ü" * 200, group="中" * 300)
    run(Directories(str(tmp_path), job_dir="{project}/{name}/{id}"), long, 1)
    letters = job(name="中" * 300)
    run(Directories(str(tmp_path), job_dir="{name}/{id}"), letters, 1)


def test_the_claim_becomes_the_only_marker(tmp_path: Path) -> None:
    directories = Directories(str(tmp_path))
    directories.prepare(job(), 1)
    claim = tmp_path / "3.1"
    for marker in (FAILURE, SUCCESS, FAILURE):
        claim.write_text("77\nexit 0\n")
        with directories.enter(job()) as directory:
            directory.mark(marker, str(claim))
        assert [path.name for path in (tmp_path / "job_3").iterdir()] == [marker]
        assert (tmp_path / "job_3" / marker).read_bytes() == b""
        assert not claim.exists()


def test_a_marker_is_created_without_a_claim(tmp_path: Path) -> None:
    directories = Directories(str(tmp_path))
    directories.prepare(job(), 1)
    with directories.enter(job()) as directory:
        directory.mark(SUCCESS, str(tmp_path / "none"))
        assert (tmp_path / "job_3" / SUCCESS).exists()
        directory.clear_markers()
        assert not (tmp_path / "job_3" / SUCCESS).exists()


def test_a_removed_session_directory_is_not_created_again(tmp_path: Path) -> None:
    for job_dir in ("", "{name}/{id}"):
        with pytest.raises(FileNotFoundError):
            Directories(str(tmp_path / "gone"), job_dir=job_dir).prepare(job(), 1)
    assert not (tmp_path / "gone").exists()


@pytest.fixture
def lab_umask() -> Iterator[None]:
    """With this umask everything is created group-writable."""
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("lab_umask")
@pytest.mark.parametrize("job_dir", ["", "{project}/{id}"])
def test_what_gputui_creates_is_not_writable_for_others(tmp_path: Path, job_dir: str) -> None:
    directories = Directories(str(tmp_path), job_dir=job_dir)
    for number in (1, 2):
        run(directories, replace(job(), issued=number), number)
    with directories.enter(job()) as directory:
        directory.write_info(b"text")
        directory.mark(SUCCESS, str(tmp_path / "none"))
    own = Path(directories.directory(job()))
    for path in (own, own / "attempts", own / "attempts/1", own / "attempts/2", own / INFO, own / SUCCESS):
        assert path.stat().st_mode & 0o022 == 0, path


@pytest.mark.parametrize("planted", [INFO, f".{INFO}.new", SUCCESS, FAILURE])
def test_nothing_is_written_through_a_symlink(tmp_path: Path, planted: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    directories = Directories(str(tmp_path))
    directories.prepare(job(), 1)
    (tmp_path / "job_3" / planted).symlink_to(precious)
    with directories.enter(job()) as directory:
        directory.write_info(b"text")
        directory.mark(SUCCESS, str(tmp_path / "none"))
    assert precious.read_text() == "mine"
    assert (tmp_path / "job_3" / INFO).read_text() == "text"
    assert not (tmp_path / "job_3" / INFO).is_symlink()


@pytest.mark.parametrize(
    ("job_dir", "planted"),
    [
        ("", "job_3"),
        ("", "job_3/attempts"),
        ("", "job_3/attempts/1"),
        ("", "job_3/attempts/2"),
        ("{project}/{id}", "jobs"),
        ("{project}/{id}", "jobs/3"),
    ],
)
def test_a_symlink_in_place_of_a_directory_is_refused_with_advice(tmp_path: Path, job_dir: str, planted: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = tmp_path / "root" / planted
    directories = Directories(str(tmp_path / "root"), job_dir=job_dir)
    if "attempts" in planted:
        (tmp_path / "root").mkdir()
        run(directories, job(), 1)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(NotOurs, match=f"^{link} is a symlink; .* move it away: mv {link} {link}.old"):
        directories.prepare(job(), 2)
    assert list(elsewhere.iterdir()) == []


def test_only_directories_that_gputui_created_are_closed_to_others(tmp_path: Path) -> None:
    for made, left in ((True, 0), (False, 0o020)):
        root = tmp_path / str(made)
        (root / "job_3").mkdir(parents=True)
        (root / "job_3").chmod(0o775)
        Directories(str(root), made=made).prepare(replace(job(), issued=2), 2)
        assert (root / "job_3").stat().st_mode & 0o022 == left


# Other users may write beside the directories of jobs


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "precious"
    directory.mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o775)
    yield directory
    steps.watch(None)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_symlink_in_place_of_a_checked_directory_gets_no_log(tmp_path: Path, precious: Path, retries: int) -> None:
    directory, made = tmp_path / "s" / "job_0", []

    def swap(step: Step) -> None:
        if step is Step.DIRECTORY_MADE:
            made.append(step)
            if len(made) > retries:
                directory.rename(tmp_path / "s" / "aside")
                directory.symlink_to(precious)
                (precious / "attempts" / "2").mkdir(parents=True)

    with owned(tmp_path / "s") as owner:
        steps.watch(swap)
        [job] = add(owner, spec("echo told; exit 3", retries=retries))
        assert len(ended(owner, job).attempts) == retries + 1
    assert [path for path in precious.rglob("*") if path.is_file()] == []
    assert "told" in "".join(path.read_text() for path in (tmp_path / "s" / "aside").rglob("*OUT") if path.is_file())
