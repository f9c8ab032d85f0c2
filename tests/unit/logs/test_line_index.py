"""Any line of a log can be read by its number, whatever its size and whatever happens to the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.logs import line_index
from gputui.logs.line_index import BLOCK, FileChange, LineIndex, read_tail

MB = 1 << 20


def opened(path: Path) -> LineIndex:
    index = LineIndex(path)
    index.look()
    return index


def finished(path: Path) -> LineIndex:
    index = opened(path)
    while not index.extend(1):
        pass
    return index


def lines_of(index: LineIndex) -> list[bytes]:
    return [index.line(number).shown for number in range(index.first, index.end)]


def expected(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


CASES = [b"", b"one", b"one\n", b"\n", b"\n\n", b"one\ntwo", b"one\n\ntwo\n", b"a\nb\nc\nd\n"]


@pytest.mark.parametrize("data", CASES)
def test_lines_are_those_between_newlines(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").write_bytes(data)
    assert lines_of(finished(tmp_path / "log")) == expected(data)


@settings(max_examples=40)
@given(seed=st.integers(), size=st.integers(0, 3 * BLOCK), share=st.sampled_from([0.0, 0.0001, 0.01, 0.5]))
def test_all_lines_are_found_across_blocks(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int, share: float
) -> None:
    chance = random.Random(seed)
    data = bytearray(b"x" * size)
    for _ in range(min(2000, int(size * share))):
        data[chance.randrange(size)] = 10
    for edge in range(0, size, BLOCK):
        data[edge + chance.choice([0, -1])] = 10
    path = tmp_path_factory.mktemp("logs") / "log"
    path.write_bytes(data)
    index = finished(path)
    assert [index.line(n).size for n in range(index.first, index.end)] == [len(one) for one in expected(bytes(data))]
    for number in range(index.first, index.end):
        assert index.line_at(index.start(number)) == number


def test_the_tail_of_a_long_file_is_known_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(64 * MB)  # a hole: nothing on the disk
        for megabyte in range(0, 64, 8):
            file.seek(megabyte * MB + 17)
            file.write(b"\nmark %d\n" % megabyte)
        file.seek(64 * MB)
        file.write(b"\nlast but one\nlast")
    read = 0
    index = LineIndex(path)
    real = index.read

    def counting(offset: int, length: int) -> bytes:
        nonlocal read
        read += length
        return real(offset, length)

    index.read = counting  # type: ignore[method-assign]
    assert index.look() is FileChange.ANEW
    assert index.line(index.end - 1).shown == b"last"
    assert index.line(index.end - 2).shown == b"last but one"
    assert not index.complete
    assert read <= 4 * MB
    number = index.end - 2
    while not index.extend(1):
        pass
    assert index.line(number).shown == b"last but one", "a line keeps its number while the index grows"
    found = [index.line_at(megabyte * MB + 18) for megabyte in range(0, 64, 8)]
    assert [index.line(one).shown for one in found] == [b"mark %d" % megabyte for megabyte in range(0, 64, 8)]
    assert found == sorted(found)
    assert index.line(index.first).size == 17


def test_what_is_appended_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\nhal")
    index = opened(path)
    assert index.look() is FileChange.NOTHING
    with path.open("ab") as file:
        file.write(b"f\nnext")
        file.flush()
        assert index.look() is FileChange.GREW
        assert lines_of(index) == [b"one", b"half", b"next"]
        file.write(b"\n" + b"y\n" * BLOCK)
        file.flush()
        index.look(seconds=60)
    assert index.end - index.first == 3 + BLOCK
    assert index.line(index.end - 1).shown == b"y"


def test_a_file_may_be_created_later(tmp_path: Path) -> None:
    index = LineIndex(tmp_path / "log")
    assert index.look() is FileChange.NOTHING
    assert index.first == index.end
    (tmp_path / "log").write_bytes(b"here\n")
    assert index.look() is FileChange.ANEW
    assert lines_of(index) == [b"here"]


def test_a_truncated_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n" * 1000)
    index = opened(path)
    path.write_bytes(b"new\n")
    assert lines_of(index) is not None, "lines asked for before the next look are at worst empty"
    assert index.look() is FileChange.ANEW
    assert lines_of(index) == [b"new"]


def test_a_file_put_in_its_place_is_read_instead(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"old\n")
    index = opened(path)
    path.rename(tmp_path / "log.1")
    assert index.look() is FileChange.NOTHING
    assert lines_of(index) == [b"old"], "until there is another, the old one is shown"
    path.write_bytes(b"newer and longer\n")
    descriptors = len(os.listdir("/proc/self/fd"))
    assert index.look() is FileChange.ANEW
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert lines_of(index) == [b"newer and longer"]


def test_a_fifo_or_a_directory_has_no_lines(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "nul\0byte"):
        index = LineIndex(path)
        assert index.look() is FileChange.NOTHING
        assert index.end == index.first


def test_of_a_very_long_line_only_the_beginning_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"z" * MB + b"\nend\n")
    index = finished(tmp_path / "log")
    line = index.line(index.first)
    assert line.size == MB
    assert len(line.shown) <= line_index.LONGEST_READ


def test_of_a_bar_redrawn_for_hours_only_the_last_states_are_read(tmp_path: Path) -> None:
    states = b"".join(b"\r%6d/50000 [=====>    ]" % state for state in range(50_001))
    (tmp_path / "log").write_bytes(b"begin\n" + states)
    index = opened(tmp_path / "log")
    line = index.line(index.end - 1)
    assert line.shown.endswith(b"\r 50000/50000 [=====>    ]")
    assert line.size == len(line.shown) <= line_index.LONGEST_READ


def test_the_end_of_a_file_that_grows_too_fast_can_be_jumped_to(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"begin\n")
    index = opened(path)
    with path.open("ab") as file:
        file.write(b"q\n" * MB + b"end\n")
    index.look(seconds=0)
    assert index.unread > 0
    index.jump_to_end()
    assert index.unread == 0
    assert index.line(index.end - 1).shown == b"end"


def test_the_descriptor_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    index = opened(tmp_path / "log")
    index.close()
    index.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert index.line(0).shown == b""


def test_only_the_end_of_a_file_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 50_000 + b"the end")
    assert read_tail(str(log)) == b"a" * (16384 - 7) + b"the end"
    log.write_bytes(b"short\n")
    assert read_tail(str(log)) == b"short\n"
    os.truncate(log, 1 << 34)  # sparse
    with log.open("ab") as file:
        file.write(b"end")
    assert read_tail(str(log), limit=3) == b"end"


@pytest.mark.parametrize("name", ["missing", "missing/below", "nul\0byte", "", "fifo", "/dev/zero"])
def test_anything_but_a_regular_file_is_empty(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_tail(os.path.join(tmp_path, name)) == b""
