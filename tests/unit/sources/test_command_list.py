"""Command lists: what is a command, what is refused, and that chunks make no difference."""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputui.sources.command_list import LONGEST_COMMAND, CommandLines, parse_command_list, read_command_list
from gputui.sources.settings import JobSettings
from gputui.sources.source import BadInput, Draft


def commands(data: bytes | str) -> list[str]:
    raw = data.encode() if isinstance(data, str) else data
    return [draft.command for draft in parse_command_list(raw, "jobs.txt")]


def message(data: bytes | str) -> str:
    with pytest.raises(BadInput) as caught:
        commands(data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls\n", ["ls"]),
        ("ls", ["ls"]),
        ("a\nb\nc", ["a", "b", "c"]),
        ("\n\n  \n\t\na\n\n", ["a"]),
        ("# c\na\n  # indented\nb # not ours\n", ["a", "b # not ours"]),
        ("  a  b \t\n", ["a  b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("\ufeffa\nb\n", ["a", "b"]),
        ("\ufeff# c\nb\n", ["b"]),
        ("echo 'ü 🚀'\n", ["echo 'ü 🚀'"]),
        ("a \\\n  b\n", ["a   b"]),
        ("a\\\nb\n", ["ab"]),
        ("a \\\r\n b\r\n", ["a  b"]),
        ("a \\\nb \\\nc\nd\n", ["a b c", "d"]),
        ("a \\\n\nb\n", ["a", "b"]),
        ("a \\\n# b\nc\n", ["a # b", "c"]),
        ("a\\\\\nb\n", ["a\\\\", "b"]),
        ("a\\\\\\\nb\n", ["a\\\\b"]),
        ("# c \\\na\n", ["a"]),
        ("\\\n\na\n", ["a"]),
        ("\\\n# c\na\n", ["a"]),
        ("a\\n\n", ["a\\n"]),
        ("#!/bin/sh\na\n", ["a"]),
    ],
)
def test_commands_of_a_list(text: str, expected: list[str]) -> None:
    assert commands(text) == expected


def test_settings_are_for_the_next_command_only() -> None:
    text = b'#: name="lr 0.1" gpus=2\n# a comment between\n#:priority=50\n\na\nb\n'
    assert parse_command_list(text, "jobs.txt") == [
        Draft("a", JobSettings(name="lr 0.1", gpus=2, priority=50)),
        Draft("b"),
    ]


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("#: hold", JobSettings(hold=True)),
        ("#: hold=no after-any", JobSettings(hold=False, after_any=True)),
        ("#: after=a,b,12", JobSettings(after=("a", "b", 12))),
        ("#: name='a=b c'", JobSettings(name="a=b c")),
        ("#: name=lr=0.1,bs=2", JobSettings(name="lr=0.1,bs=2")),
        ("#: timeout=1h30m", JobSettings(timeout=5400.0)),
        ("#: gpus=0", JobSettings(gpus=0)),
        ("  #:  shell=/bin/zsh  ", JobSettings(shell="/bin/zsh")),
        ("#:", JobSettings()),
    ],
)
def test_settings_as_they_are_written(line: str, settings: JobSettings) -> None:
    assert parse_command_list(f"{line}\nls\n".encode(), "f") == [Draft("ls", settings)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no commands in jobs.txt; write one per line"),
        (b"# only\n\n", "no commands in jobs.txt; write one per line"),
        (b"a\nb\0c\n", "jobs.txt, line 2: contains a NUL byte; remove it"),
        (b"# \0\n", "jobs.txt, line 1: contains a NUL byte; remove it"),
        (
            b"a\n\ncaf\xe9 x\n",
            "jobs.txt, line 3: byte 0xe9 at offset 3 of the line is not UTF-8; save the file as UTF-8",
        ),
        (b"\xff\xfea\0\n\0", "jobs.txt, line 1: the file is UTF-16; save it as UTF-8"),
        (b"a \\\n", "jobs.txt, line 1: ends in a backslash, but no line follows; remove the backslash"),
        (b"a\nb \\", "jobs.txt, line 2: ends in a backslash, but no line follows; remove the backslash"),
        (
            b"a \\ \nb\n",
            "jobs.txt, line 1: trailing space after the backslash; remove it to continue the line",
        ),
        (b"#: prioritee=3\na\n", "jobs.txt, line 1: 'prioritee' is not a setting; did you mean priority?"),
        (
            b"a\n#: gpus=2\n# c\n",
            "jobs.txt, line 2: settings without a following command; add one or remove them",
        ),
        (b"#: gpus=x\na\n", "jobs.txt, line 1: gpus: 'x' is not a whole number; write one from 0 to 1024"),
        (b"#: priority=100\na\n", "jobs.txt, line 1: priority: 100 is out of range; use 0 to 99"),
        (b"#: timeout=0\na\n",
         "jobs.txt, line 1: timeout: would stop the job at once; use 90s, 5m, 2h or omit it"),
        (b"#: name=\na\n", "jobs.txt, line 1: name: is empty; set a value or omit it"),
        (b"#: gpus\na\n", "jobs.txt, line 1: gpus has no value; use gpus=…"),
        (b"#: gpus=1 gpus=2\na\n", "jobs.txt, line 1: gpus is given twice; keep one"),
        (b"#: gpus=1\n#: gpus=2\na\n", "jobs.txt, line 2: gpus is given twice for the same command; keep one"),
        (
            b"#: name='a\na\n",
            "jobs.txt, line 1: unclosed quote; end it on the same line (several #: lines are combined)",
        ),
        (
            b"#: name=a \\\na\n",
            "jobs.txt, line 1: trailing backslash; end it on the same line (several #: lines are combined)",
        ),
        (
            b"#: zzz\na\n",
            "jobs.txt, line 1: 'zzz' is not key=value; write comments as '# …', not '#: …'",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_file_line_and_reason(data: bytes, expected: str) -> None:
    assert message(data) == expected


def test_an_unknown_setting_lists_the_known_ones() -> None:
    assert "known: name, gpus, devices, memory, priority" in message(b"#: zzzz=3\na\n")


def test_a_command_may_be_as_long_as_the_kernel_accepts() -> None:
    assert commands(b"x" * LONGEST_COMMAND) == ["x" * LONGEST_COMMAND]
    too_long = message(b"ok\n" + b"x" * (LONGEST_COMMAND + 1))
    assert too_long.startswith("jobs.txt, line 2: is longer than")
    assert too_long.endswith("put it in a script and call that")


def test_a_continued_command_is_measured_whole() -> None:
    half = b"x" * (LONGEST_COMMAND // 2)
    assert message(half + b"\\\n" + half + b"\n").startswith("jobs.txt, line 2: is longer than")
    assert len(commands(half + b"\n" + half + b"\n")) == 2


def test_control_characters_in_a_file_name_are_quoted() -> None:
    with pytest.raises(BadInput) as caught:
        parse_command_list(b"", "a\x1b[2Jb\udcff")
    assert str(caught.value) == r"no commands in 'a\x1b[2Jb\udcff'; write one per line"


def fed(pieces: list[bytes]) -> tuple[list[Draft], str | None]:
    lines = CommandLines("f")
    drafts: list[Draft] = []
    try:
        for piece in pieces:
            for draft in lines.feed(piece):
                drafts.append(draft)
        drafts += lines.finish()
    except BadInput as bad:
        return drafts, str(bad)
    return drafts, None


LINE = st.sampled_from(
    [b"ls", b"# c", b"", b"a \\", b"b\\\\", b"#: gpus=2", b"#: hold", b"#: x=1", b" ", b"\r", b"\xff", b"\0",
     b"\xef\xbb\xbf", b"\xc3\xa9", b"\\", b"# \\", b"\\ ", b"#: name='a b'", b"#: name='", b"\x1b"]
)  # fmt: skip
LISTS = st.one_of(st.binary(max_size=60), st.lists(LINE, max_size=9).map(b"\n".join))


@given(LISTS, st.lists(st.integers(0, 80), max_size=6))
@example(b"\xef\xbb\xbfls\n", [1, 2])
@example(b"a\\\r\nb\n", [2, 3])
@example(b"x" * (LONGEST_COMMAND + 2) + b"\0\nls", [LONGEST_COMMAND + 1, LONGEST_COMMAND + 2])
def test_chunks_make_no_difference(data: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert fed([data[start:end] for start, end in pairwise(ends)]) == fed([data])


@given(LISTS)
def test_any_bytes_are_commands_or_a_message(data: bytes) -> None:
    drafts, refused = fed([data])
    if refused is None:
        assert (commands(data) if drafts else []) == [draft.command for draft in drafts]
    else:
        assert message(data) == refused.replace("f, ", "jobs.txt, ", 1)
    assert all(draft.command == draft.command.strip() != "" for draft in drafts)
    assert all("\0" not in draft.command and "\n" not in draft.command for draft in drafts)


def test_commands_are_returned_as_soon_as_they_are_complete() -> None:
    lines = CommandLines("-")
    assert list(lines.feed(b"one\ntw")) == [Draft("one")]
    assert list(lines.feed(b"o \\\n")) == []
    assert list(lines.feed(b"three\nfour")) == [Draft("two three")]
    assert lines.finish() == [Draft("four")]


def test_commands_before_bad_input_are_returned_first() -> None:
    lines = CommandLines("-")
    given_before = lines.feed(b"one\n\0\ntwo\n")
    assert next(given_before) == Draft("one")
    with pytest.raises(BadInput, match="line 2"):
        next(given_before)


def test_an_endless_line_is_refused_before_it_ends() -> None:
    lines = CommandLines("-")
    for _ in range(LONGEST_COMMAND // 4096):
        assert list(lines.feed(b"x" * 4096)) == []
    with pytest.raises(BadInput, match="line 1"):
        list(lines.feed(b"x" * 4096))


def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(f"{'a' * 997}\n" * 4_000 + "b")
    drafts = read_command_list(str(file))
    assert len(drafts) == 4_001
    assert drafts[-1] == Draft("b")
    assert {draft.command for draft in drafts[:-1]} == {"a" * 997}


def unreadable(path: str) -> str:
    with pytest.raises(BadInput) as caught:
        read_command_list(path)
    return str(caught.value)


def test_files_that_cannot_be_read_are_refused_with_the_reason(tmp_path: Path) -> None:
    assert unreadable(f"{tmp_path}/no.txt") == f"no such file: {tmp_path}/no.txt"
    assert unreadable(str(tmp_path)) == f"{tmp_path} is a directory; use a file"
    assert "cannot read" in unreadable("a\0b")
    assert unreadable("x" * 5000) == f"cannot read {'x' * 5000}: File name too long"
    assert unreadable("/dev/null/x") == "cannot read /dev/null/x: Not a directory"
    assert unreadable("/dev/null") == "no commands in /dev/null; write one per line"
    assert unreadable("/dev/zero").startswith("/dev/zero, line 1: is longer than")


def test_a_permission_error_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(BadInput) as caught:
            read_command_list("secret")
    assert str(caught.value) == "no permission to read secret"


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("a\nb\n",))
    writer.start()
    assert [draft.command for draft in read_command_list(str(fifo))] == ["a", "b"]
    writer.join()
