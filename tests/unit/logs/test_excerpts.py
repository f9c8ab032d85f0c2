"""The last frames of a crash: the trace that the message is from, the user's own lines, libraries folded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gputui.logs.crashes.excerpts import Excerpt, Piece, excerpt
from gputui.logs.crashes.signature import job_crash

PACKAGE = "site-packages/torch"


def crashed(tmp_path: Path, *, out: str = "", err: str = "", code: int = 1) -> Excerpt:
    (tmp_path / "OUT").write_text(out)
    (tmp_path / "ERR").write_text(err)
    paths = str(tmp_path / "OUT"), str(tmp_path / "ERR")
    return excerpt(*paths, job_crash(*paths, code).message, str(tmp_path))


def texts(found: Excerpt, *pieces: Piece) -> list[str]:
    return [line.text for line in found.lines if line.piece in pieces]


def test_a_real_traceback_shows_the_failing_line_of_the_user_and_folds_libraries(tmp_path: Path) -> None:
    library = tmp_path / PACKAGE
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "def deep(n):\n    if n:\n        deep(n - 1)\n    raise ValueError('no card')\n"
    )
    script = tmp_path / "train.py"
    script.write_text("import torch\ndef step():\n    torch.deep(3)\nstep()\n")
    command = [sys.executable, str(script)]
    run = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(library.parent)}, check=False)
    found = crashed(tmp_path, err=run.stderr)
    assert found.is_trace
    assert (found.stream, found.needle) == ("ERR", "ValueError: no card")
    assert texts(found, Piece.FAILING)[0] == "torch.deep(3)"
    assert texts(found, Piece.FOLDED) == ["… 4 frames of torch"]
    places = [(line.text, line.line, line.where) for line in found.lines if line.piece is Piece.PLACE]
    assert places == [("train.py", "4", "<module>"), ("train.py", "3", "step")]
    assert texts(found, Piece.ERROR) == ["ValueError: no card"]


def test_the_trace_that_the_message_is_from_is_shown_not_the_last_one(tmp_path: Path) -> None:
    cause = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in f\n    go()\nValueError: the cause\n'
    child = (
        'Traceback (most recent call last):\n  File "/w/b.py", line 2, in g\n    wait()\n'
        "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.\n"
    )
    found = crashed(tmp_path, err=cause + child)
    assert texts(found, Piece.ERROR) == ["ValueError: the cause"]
    assert texts(found, Piece.FAILING) == ["go()"]


def test_without_a_traceback_the_lines_around_the_message_are_shown(tmp_path: Path) -> None:
    found = crashed(tmp_path, out="step 1\n" * 50, err="usage: t.py [-h]\nt.py: error: unrecognized arguments: --lrr\n")
    assert not found.is_trace
    assert found.stream == "ERR"
    assert texts(found, Piece.ERROR) == ["t.py: error: unrecognized arguments: --lrr"]


def test_a_crash_without_words_shows_the_end_of_what_was_printed(tmp_path: Path) -> None:
    found = crashed(tmp_path, out="".join(f"step {n}\n" for n in range(50)), code=139)
    assert (found.stream, found.needle) == ("OUT", "")
    assert texts(found, Piece.TEXT)[-1] == "step 49"
    assert len(found.lines) == 20


def test_a_job_that_printed_nothing_has_no_excerpt(tmp_path: Path) -> None:
    assert crashed(tmp_path).lines == ()
    assert excerpt(str(tmp_path / "no"), None, "lost").lines == ()


def test_what_a_job_printed_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    frame = '  File "/w/\x1b]52;c;eA==\x07a.py", line 1, in f\n    \x1b[2Jx\n'
    found = crashed(tmp_path, err=f"Traceback (most recent call last):\n{frame}ValueError: \x9b2J\n")
    assert all(part.isprintable() for line in found.lines for part in line[1:])
