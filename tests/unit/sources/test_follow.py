"""Followed files: every command is read once, whatever happens to the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui.sources.command_list import LONGEST_COMMAND
from gputui.sources.follow import Follower, Mark, end_of
from gputui.sources.source import BadInput


class Reader:
    """Reads everything that is there, as the thread that loads jobs does."""

    def __init__(self, path: Path, position: int = 0, mark: Mark | None = None) -> None:
        self.follower = Follower(str(path), position, mark)
        self.state = (position, mark)
        self.complaints: list[str] = []

    def commands(self) -> list[str]:
        found: list[str] = []
        while (read := self.follower.read()) is not None:
            found += [draft.command for draft in read.drafts]
            self.complaints += read.complaints
            self.state = (read.position, read.mark)
        return found


def append(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    path = tmp_path / "gpu.queue"
    path.write_text("before 1\nbefore 2\n")
    return path


def test_only_what_is_appended_is_read(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    assert reader.commands() == []
    append(queue, "a | b > c\n# comment\n\nd\n")
    assert reader.commands() == ["a | b > c", "d"]


def test_a_half_written_line_waits(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    append(queue, "echo o")
    assert reader.commands() == []
    append(queue, "ne\necho t")
    assert reader.commands() == ["echo one"]


def test_the_next_reader_continues_after_the_last_whole_command(queue: Path) -> None:
    first = Reader(queue, *end_of(str(queue)))
    append(queue, "a\nb \\\n")
    assert first.commands() == ["a"]
    append(queue, "c\n#: gpus=2\n")
    second = Reader(queue, *first.state)
    assert second.commands() == ["b c"]
    append(queue, "d\n")
    (read,) = [found for found in [Reader(queue, *second.state).follower.read()] if found]
    assert [(draft.command, draft.settings.gpus) for draft in read.drafts] == [("d", 2)]


def test_a_truncated_file_is_read_from_its_start(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    reader.commands()
    queue.write_text("new\n")
    assert reader.commands() == ["new"]
    queue.write_text("x\n")
    assert Reader(queue, *reader.state).commands() == ["x"]


def test_a_file_that_is_overwritten_in_place_is_read_from_its_start(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    append(queue, "a\n")
    assert reader.commands() == ["a"]
    queue.write_text("one that is longer than all there was\ntwo\n")
    assert reader.commands() == ["one that is longer than all there was", "two"]
    assert reader.complaints == [f"{queue} was overwritten; reading from the start"]
    append(queue, "three\n")
    assert reader.commands() == ["three"]


def test_the_next_reader_sees_that_the_file_was_overwritten_in_place(queue: Path) -> None:
    first = Reader(queue, *end_of(str(queue)))
    append(queue, "a\nhalf of")
    assert first.commands() == ["a"]
    queue.write_text("one that is longer than all there was\ntwo\n")
    second = Reader(queue, *first.state)
    assert second.commands() == ["one that is longer than all there was", "two"]
    assert second.complaints == [f"{queue} was overwritten; reading from the start"]


def test_a_line_added_by_an_editor_that_rewrites_the_file_is_read(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    queue.write_text(queue.read_text() + "new\n")
    assert reader.commands() == ["new"]
    queue.write_text(queue.read_text() + "newer\n")
    assert Reader(queue, *reader.state).commands() == ["newer"]


def test_a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_start(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    reader.commands()
    append(queue, "last of the old")
    os.rename(queue, queue.with_suffix(".1"))
    assert reader.commands() == []
    queue.write_text("first of the new\n")
    assert reader.commands() == ["last of the old", "first of the new"]
    assert Reader(queue, *reader.state).commands() == []


def test_a_file_may_be_created_later(tmp_path: Path) -> None:
    path = tmp_path / "later"
    reader = Reader(path, *end_of(str(path)))
    assert reader.commands() == []
    path.write_text("a\n")
    assert reader.commands() == ["a"]


def test_an_invalid_line_is_reported_with_its_number_and_skipped(queue: Path) -> None:
    reader = Reader(queue, *end_of(str(queue)))
    append(queue, "a\n#: gpsu=1\nb\0c\n" + "x" * (LONGEST_COMMAND + 1))
    assert reader.commands() == ["a"]
    append(queue, "tail of it\nd\n")
    assert reader.commands() == ["d"]
    reported = "\n".join(reader.complaints)
    assert "line 4: 'gpsu' is not a setting" in reported
    assert "line 5: contains a NUL byte" in reported
    assert "line 6: is longer" in reported


def test_a_fifo_is_reopened_when_its_writer_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = Reader(path, *end_of(str(path)))
    assert reader.commands() == []
    for number in range(3):
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, b"a%d\nb%d" % (number, number))
        os.close(fd)
        assert reader.commands() == [f"a{number}", f"b{number}"]
    reader.follower.close()


def test_a_directory_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a directory"):
        end_of(str(tmp_path))


COMMANDS = st.lists(st.sampled_from(["a", "b \\\nc", "#: gpus=1\nd", "# x", "", "é"]), max_size=12)


@settings(max_examples=60)
@given(commands=COMMANDS, cuts=st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=30))
def test_every_command_is_read_once(commands: list[str], cuts: list[tuple[int, bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "q")
        path.touch()
        data = "".join(command + "\n" for command in commands).encode()
        reader = Reader(path, *end_of(str(path)))
        found: list[str] = []
        for size, anew in [*cuts, (len(data) + 1, False)]:
            piece, data = data[:size], data[size:]
            with open(path, "ab") as file:
                file.write(piece)
            found += reader.commands()
            if anew:
                reader.follower.close()
                reader = Reader(path, *reader.state)
        reader.follower.close()
        shown = {"b \\\nc": "b c", "#: gpus=1\nd": "d"}
        assert found == [shown.get(one, one) for one in commands if one not in ("# x", "")]


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_followed(pieces: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "q")
        path.touch()
        reader = Reader(path, *end_of(str(path)))
        for piece in pieces:
            with open(path, "ab") as file:
                file.write(piece)
            reader.commands()
        reader.follower.close()


def test_half_a_command_from_a_fifo_is_kept_for_the_next_reader(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    first = Follower(str(path), 0, None)
    assert first.read() is None
    writer = os.open(path, os.O_WRONLY)
    os.write(writer, b"a\n#: gpus=2\nb \\\nc")
    read = first.read()
    assert read is not None
    assert [draft.command for draft in read.drafts] == ["a"]
    assert read.rest == b"#: gpus=2\nb \\\nc"
    second = Follower(str(path), 0, None, read.rest)
    assert second.read() is None
    first.close()
    os.write(writer, b"d\n")
    read = second.read()
    assert read is not None
    assert [(draft.command, draft.settings.gpus) for draft in read.drafts] == [("b cd", 2)]
    assert read.rest == b""
    second.close()
    os.close(writer)


def test_half_a_command_after_a_line_that_is_too_long_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    follower = Follower(str(path), 0, None)
    assert follower.read() is None
    reads = []
    writer = os.open(path, os.O_WRONLY)
    for piece in (b"x" * 60_000, b"x" * 60_000, b"x" * 60_000, b"x\na\nhalf"):
        os.write(writer, piece)
        reads.append(follower.read())
    assert [draft.command for read in reads if read for draft in read.drafts] == ["a"]
    assert reads[-1]
    assert reads[-1].rest == b"half"
    assert [complaint.split(" bytes")[0] for read in reads if read for complaint in read.complaints] == [
        f"{path}, line 1: is longer than the limit of {LONGEST_COMMAND}"
    ]
    os.close(writer)
    follower.close()
