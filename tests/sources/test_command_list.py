"""Command lists: what is a command, what is refused, and that the way the bytes arrive makes no difference."""

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


def sentence(data: bytes | str) -> str:
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


def test_a_draft_knows_the_line_it_begins_on() -> None:
    drafts = parse_command_list(b"# c\na \\\n  b\n\nc\n", "jobs.txt")
    assert [draft.line for draft in drafts] == [2, 5]


def test_settings_are_for_the_next_command_only() -> None:
    text = b'#: name="lr 0.1" gpus=2\n# a comment between\n#:priority=50\n\na\nb\n'
    assert parse_command_list(text, "jobs.txt") == [
        Draft("a", 5, JobSettings(name="lr 0.1", gpus=2, priority=50)),
        Draft("b", 6),
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
    assert parse_command_list(f"{line}\nls\n".encode(), "f") == [Draft("ls", 2, settings)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "jobs.txt holds no commands; write one per line"),
        (b"# only\n\n", "jobs.txt holds no commands; write one per line"),
        (b"a\nb\0c\n", "jobs.txt, line 2: holds a NUL byte; remove it"),
        (b"# \0\n", "jobs.txt, line 1: holds a NUL byte; remove it"),
        (
            b"a\n\ncaf\xe9 x\n",
            "jobs.txt, line 3: byte 0xe9 at offset 3 of the line is not UTF-8; save the file as UTF-8",
        ),
        (b"\xff\xfea\0\n\0", "jobs.txt, line 1: the file is UTF-16; save it as UTF-8"),
        (b"a \\\n", "jobs.txt, line 1: ends in a backslash, but no line follows; remove the backslash"),
        (b"a\nb \\", "jobs.txt, line 2: ends in a backslash, but no line follows; remove the backslash"),
        (
            b"a \\ \nb\n",
            "jobs.txt, line 1: a blank follows the backslash at its end; remove the blank to continue the line",
        ),
        (b"#: prioritee=3\na\n", "jobs.txt, line 1: 'prioritee' is not a setting; did you mean priority?"),
        (
            b"a\n#: gpus=2\n# c\n",
            "jobs.txt, line 2: these settings are for the next command, but there is none; add it or remove them",
        ),
        (b"#: gpus=x\na\n", "jobs.txt, line 1: gpus: 'x' is not a whole number; write one from 0 to 1024"),
        (b"#: priority=100\na\n", "jobs.txt, line 1: priority: 100 is out of range; write a number from 0 to 99"),
        (b"#: timeout=0\na\n",
         "jobs.txt, line 1: timeout: would end the job at once; write 90s, 5m, 2h or leave it out"),
        (b"#: name=\na\n", "jobs.txt, line 1: name: is empty; write a value or leave the setting out"),
        (b"#: gpus\na\n", "jobs.txt, line 1: gpus has no value; write gpus=…"),
        (b"#: gpus=1 gpus=2\na\n", "jobs.txt, line 1: gpus is given twice; keep one"),
        (b"#: gpus=1\n#: gpus=2\na\n", "jobs.txt, line 2: gpus is given twice for the same command; keep one"),
        (
            b"#: name='a\na\n",
            "jobs.txt, line 1: a quote is not closed; close it on the same line (several #: lines add up)",
        ),
        (
            b"#: name=a \\\na\n",
            "jobs.txt, line 1: it ends in a backslash; close it on the same line (several #: lines add up)",
        ),
        (
            b"#: zzz\na\n",
            "jobs.txt, line 1: 'zzz' is no key=value; write a comment as '# …', not '#: …'",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_file_line_and_reason(data: bytes, expected: str) -> None:
    assert sentence(data) == expected


def test_an_unknown_setting_without_a_near_one_lists_them_all() -> None:
    assert "known are name, gpus, devices, memory, priority" in sentence(b"#: zzzz=3\na\n")


def test_a_command_may_be_as_long_as_the_kernel_takes_but_no_longer() -> None:
    assert commands(b"x" * LONGEST_COMMAND) == ["x" * LONGEST_COMMAND]
    too_long = sentence(b"ok\n" + b"x" * (LONGEST_COMMAND + 1))
    assert too_long.startswith("jobs.txt, line 2: is longer than")
    assert too_long.endswith("put it in a script and call that")


def test_a_continued_command_is_measured_whole() -> None:
    half = b"x" * (LONGEST_COMMAND // 2)
    assert sentence(half + b"\\\n" + half + b"\n").startswith("jobs.txt, line 2: is longer than")
    assert len(commands(half + b"\n" + half + b"\n")) == 2


def test_a_name_that_could_act_on_the_terminal_is_quoted() -> None:
    with pytest.raises(BadInput) as caught:
        parse_command_list(b"", "a\x1b[2Jb\udcff")
    assert str(caught.value) == r"'a\x1b[2Jb\udcff' holds no commands; write one per line"


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
def test_the_way_bytes_arrive_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert fed([data[start:end] for start, end in pairwise(ends)]) == fed([data])


@given(LISTS)
def test_any_bytes_are_commands_or_a_sentence(data: bytes) -> None:
    drafts, refused = fed([data])
    if refused is None:
        assert (commands(data) if drafts else []) == [draft.command for draft in drafts]
    else:
        assert sentence(data) == refused.replace("f, ", "jobs.txt, ", 1)
    assert all(draft.command == draft.command.strip() != "" for draft in drafts)
    assert all("\0" not in draft.command and "\n" not in draft.command for draft in drafts)


def test_lines_are_given_as_soon_as_they_are_complete() -> None:
    lines = CommandLines("-")
    assert list(lines.feed(b"one\ntw")) == [Draft("one", 1)]
    assert list(lines.feed(b"o \\\n")) == []
    assert list(lines.feed(b"three\nfour")) == [Draft("two three", 2)]
    assert lines.finish() == [Draft("four", 4)]


def test_after_bad_input_nothing_more_is_given() -> None:
    lines = CommandLines("-")
    given_before = lines.feed(b"one\n\0\ntwo\n")
    assert next(given_before) == Draft("one", 1)
    with pytest.raises(BadInput, match="line 2"):
        next(given_before)
    with pytest.raises(BadInput, match="line 2"):
        list(lines.feed(b"three\n"))
    with pytest.raises(BadInput, match="line 2"):
        lines.finish()


def test_an_endless_line_is_refused_before_it_ends() -> None:
    lines = CommandLines("-")
    for _ in range(LONGEST_COMMAND // 4096):
        assert list(lines.feed(b"x" * 4096)) == []
    with pytest.raises(BadInput, match="line 1"):
        list(lines.feed(b"x" * 4096))


def test_no_commands_on_a_pipe_are_no_error() -> None:
    assert CommandLines("-").finish() == []


def test_a_file_is_read_whole_though_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(f"{'a' * 997}\n" * 4_000 + "b")
    drafts = read_command_list(str(file))
    assert len(drafts) == 4_001
    assert drafts[-1] == Draft("b", 4_001)
    assert {draft.command for draft in drafts[:-1]} == {"a" * 997}


def unreadable(path: str) -> str:
    with pytest.raises(BadInput) as caught:
        read_command_list(path)
    return str(caught.value)


def test_what_cannot_be_read_is_refused_with_a_sentence(tmp_path: Path) -> None:
    assert unreadable(f"{tmp_path}/no.txt") == f"{tmp_path}/no.txt: there is no such file; check its name"
    assert unreadable(str(tmp_path)) == f"{tmp_path} is a directory; give a file"
    assert "cannot be read" in unreadable("a\0b")
    assert "cannot be read: File name too long" in unreadable("x" * 5000)
    assert "cannot be read: Not a directory" in unreadable("/dev/null/x")
    assert unreadable("/dev/null") == "/dev/null holds no commands; write one per line"
    assert unreadable("/dev/zero").startswith("/dev/zero, line 1: is longer than")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0)
    assert unreadable(str(file)) == f"{file} may not be read by you; check its permissions"


def test_a_permission_error_reads_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        with pytest.raises(BadInput) as caught:
            read_command_list("secret")
    assert str(caught.value) == "secret may not be read by you; check its permissions"


def test_a_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("a\nb\n",))
    writer.start()
    assert [draft.command for draft in read_command_list(str(fifo))] == ["a", "b"]
    writer.join()
