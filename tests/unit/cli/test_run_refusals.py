"""Bad input to `gputui run`: one sentence, status 2, and nothing half-added."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Done, Session, said


def assert_refused(session: Session, done: Done, *words: str) -> None:
    assert done.returncode == 2, done
    sentence = said(done)
    for word in words:
        assert word in sentence
    assert "--gpus: --gpus" not in sentence
    assert not session.runs()
    assert not session.database.exists() or session.jobs() == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["write one per line"]),
        (b"\n# only a comment\n", ["write one per line"]),
        (b"echo a >>ran\necho \0 b\n", ["line 2", "NUL"]),
        (b"echo a >>ran\n" + b"x" * 1_000_000 + b"\n", ["line 2", "longer"]),
        (b"echo a >>ran\necho \xff\n", ["line 2", "UTF-8"]),
        (b"echo a >>ran\n#: priority=1000\necho b\n", ["line 2", "priority"]),
        (b"echo a >>ran\n#: no_such=1\necho b\n", ["line 2", "no_such"]),
        (b"echo a >>ran\n#: after=nobody\necho b\n", ["nobody"]),
        (b"#: name=x after=y\necho a >>ran\n#: name=y after=x\necho b >>ran\n", ["circular dependency"]),
        (b"echo a >>ran\necho b \\\n", ["line 2", "backslash"]),
    ],
    ids=["empty", "comments", "NUL", "megabyte", "encoding", "priority", "setting", "after", "circle", "backslash"],
)
def test_a_bad_file_is_refused_whole(session: Session, tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "jobs.txt").write_bytes(content)
    assert_refused(session, session.run("jobs.txt", gpus="cpu:1"), *words)


def test_one_bad_file_of_two_adds_nothing_of_either(session: Session, tmp_path: Path) -> None:
    good = session.write(session.told("a"), name="good.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\n")
    assert_refused(session, session.run(good, "bad.txt", gpus="cpu:1"), "bad.txt")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.txt"], ["missing.txt", "no such file"]),
        (["."], ["is a directory"]),
        (["jobs.txt", "--gpus", "banana"], ["--gpus 'banana': 'banana' is not a GPU", "sim:4", "slurm:8"]),
        (["jobs.txt", "--gpus", "0,,1"], ["--gpus"]),
        (["jobs.txt", "--timeout", "0"], ["--timeout"]),
        (["jobs.txt", "--timeout", "soon"], ["--timeout"]),
        (["jobs.txt", "--retries", "-1"], ["--retries"]),
        (["jobs.txt", "--job-dir", "{nonsense}/{id}"], ["--job-dir"]),
        (["jobs.txt", "--job-dir", "{name"], ["--job-dir"]),
        (["jobs.txt", "--job-dir", "{name}"], ["{id}"]),
        (["jobs.txt", "--job-dir", "{name}{id}"], ["separator between {id}"]),
        (["jobs.txt", "--job-dir", "/etc/{id}"], ["within the session directory"]),
        (["jobs.txt", "--job-dir", "../{id}"], ["within the session directory"]),
        (["jobs.txt", "--prefix", "a/b"], ["--prefix"]),
        (["jobs.txt", "--no-such-flag"], ["--no-such-flag"]),
        (["jobs.txt", "--prefix", "a_", "--job-dir", "x/{id}"], ["use either --prefix or --job-dir"]),
        (["jobs.txt", "--fail-fast", "--pause-after", "4"], ["use either --fail-fast or --pause-after"]),
        (["jobs.txt", "--probe", "soon"], ["invalid probe delay 'soon'"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_words_are_refused(session: Session, words: list[str], told: list[str]) -> None:
    session.write(session.told("a"))
    assert_refused(session, session.run(*words, gpus=None), *told)


def test_an_output_directory_that_is_a_file_is_refused(session: Session) -> None:
    session.root.write_text("mine")
    assert_refused(session, session.run(session.write(session.told("a"))), "choose another --output-dir")
    assert session.root.read_text() == "mine"


def test_no_jobs_and_no_session_is_refused(session: Session) -> None:
    assert_refused(session, session.run(), "no jobs")
    assert not session.root.exists()


def test_a_refused_load_leaves_an_old_session_as_it_was(session: Session) -> None:
    """Not even the jobs that failed before are rerun."""
    jobs = session.write(session.told("a", "exit 1"))
    session.run(jobs)
    before = session.jobs()
    session.write(session.told("a", "exit 1"), "#: after=nobody", "echo b")
    done = session.run(jobs)
    assert done.returncode == 2
    assert "nobody" in done.stderr
    assert "Traceback" not in done.stderr
    assert session.jobs() == before
    assert session.runs() == {"a": 1}


@pytest.mark.parametrize("line", [b"#: after=nobody\necho b\n", b"echo \0\n", b"echo \xff\n"])
def test_a_bad_line_in_a_pipe_is_reported_and_the_lines_before_it_run(session: Session, line: bytes) -> None:
    inlet, outlet = os.pipe()
    os.write(outlet, session.told("a").encode() + b"\n" + line)
    os.close(outlet)
    done = session.run(stdin=inlet)
    os.close(inlet)
    assert "Traceback" not in done.stderr
    assert "all lines before it were run" in done.stderr
    assert done.returncode == 2
    assert session.runs() == {"a": 1}


def test_a_directory_that_has_gone_refuses_the_job_with_its_reason(session: Session, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    jobs = session.write(f"#: cwd={gone}", session.told("a"), session.told("b"))
    shutil.rmtree(gone)
    done = session.run(jobs, gpus="0")
    assert done.returncode == 1
    assert f"directory {gone} is gone" in done.stdout
    assert session.states() == ["refused", "succeeded"]
    assert session.markers(0) == ["FAILURE"]


@pytest.mark.parametrize("kind", ["gone", "no text"])
def test_run_from_a_directory_that_no_job_could_run_in_is_refused(session: Session, tmp_path: Path, kind: str) -> None:
    jobs = session.write(session.told("a"))
    directory = os.fsencode(tmp_path) + (b"/gone" if kind == "gone" else b"/\xff\xfe")
    os.mkdir(directory)
    words = [*GPUTUI, "run", "--gpus", "0", "--output-dir", str(session.root), str(jobs)]
    script = b'cd "$1" && shift && { [ "$1" = keep ] || rmdir "$PWD"; } && shift && exec "$@"'
    keep = b"remove" if kind == "gone" else b"keep"
    done = subprocess.run(
        [b"sh", b"-c", script, b"sh", directory, keep, *map(os.fsencode, words)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert_refused(session, done, "the current directory")
