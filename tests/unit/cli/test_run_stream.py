"""`gputui run --stream`: what jobs print comes out, line by line, whatever they print."""

from __future__ import annotations

from support.sessions import Session

from gputui.cli.follower import LONGEST_LINE


def streamed(session: Session, *commands: str) -> list[str]:
    done = session.run("--stream", session.write(*commands), gpus="0")
    return [line for line in done.stdout.split("\n") if line.startswith("[")]


def test_each_line_comes_with_its_job_and_the_last_one_without_an_end_too(session: Session) -> None:
    lines = streamed(session, "echo a; echo b >&2; printf 'no end'", r"printf 'x\ry\n'")
    assert sorted(lines) == ["[0] a", "[0] b", "[0] no end", "[1] y"]


def test_one_endless_line_is_passed_on_in_pieces_and_whole(session: Session) -> None:
    size = 3 * LONGEST_LINE
    lines = streamed(session, f"yes é | tr -d '\\n' | head -c {size}; echo; echo end")
    *pieces, last = [line.removeprefix("[0] ") for line in lines]
    assert last == "end"
    assert max(len(piece.encode()) for piece in pieces) <= 2 * LONGEST_LINE
    assert len(pieces) > 1
    assert "".join(pieces) == "é" * (size // 2)


def test_a_job_that_replaces_its_log_with_a_fifo_does_not_block_the_run(session: Session) -> None:
    command = 'cd "$GPUTUI_JOB_DIR"; rm *.OUT *.ERR; mkfifo job_0.OUT job_0.ERR; exit 2'
    done = session.run("--stream", session.write(command), gpus="0")
    assert done.returncode == 1
    assert session.states() == ["failed"]
