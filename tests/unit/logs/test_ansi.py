"""A log line is shown with its colors and cannot control the terminal."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.waiting import never_hanging

from gputui.logs.ansi import LONGEST, PLAIN, Look, after_sgr, decoded

CASES = [
    (b"", ""),
    (b"plain", "plain"),
    ("日本語 é 👩‍🔬".encode(), "日本語 é 👩‍🔬"),
    (b"crlf\r", "crlf"),
    (b"a\tb", "a       b"),
    (b"\x1b[31mred\x1b[0m\tb", "red     b"),
    (b"bad \xff\xfe utf8", "bad �� utf8"),
    (b"nul \x00 bell \x07 bs \x08 vt", "nul  bell  bs  vt"),
    (b"\x1b]52;c;aGFja2Vk\x07clip \x1b]0;TITLE\x1b\\title", "clip title"),
    (b"\xc2\x9b2Jc1\xc2\x9d52;c;eHg=\xc2\x9c", "c1"),
    (b"[bold]markup[/bold] [@click=app.quit]x[/]", "[bold]markup[/bold] [@click=app.quit]x[/]"),
]


@pytest.mark.parametrize(("raw", "shown"), CASES)
def test_other_escape_sequences_are_removed(raw: bytes, shown: str) -> None:
    assert decoded(raw).text == shown


BARS = [
    (b"\r  0%|          | 0/5\r 40%|####      | 2/5\r100%|##########| 5/5", "100%|##########| 5/5"),
    (b"\r  0%|          | 0/5\r 40%|####      | 2/5\r", " 40%|####      | 2/5"),
    (b"downloading 100%\rdone", "doneloading 100%"),
    (b"\r 40%|####  | 2/5\r                 \rmessage", "message"),
    (b"\rxxxxxxxxxxxx: 10%|1 |\rxx: 20%|2 |          ", "xx: 20%|2 |"),
    (b"\rbar 90%\r       \r", ""),
    (b"old old old\r\x1b[Knew", "new"),
    (b"\x1b[2K\rold old\x1b[2K\rnew", "new"),
    (b"12345678\rab\rcdef", "cdef5678"),
    (b"\r\r\r", ""),
]


@pytest.mark.parametrize(("raw", "shown"), BARS)
def test_a_line_that_was_redrawn_reads_as_on_a_terminal(raw: bytes, shown: str) -> None:
    assert decoded(raw).text == shown


def test_colors_are_kept() -> None:
    runs = decoded(b"a\x1b[31mb\x1b[1;38;5;208mc\x1b[38;2;1;2;3;44md\x1b[0me").runs
    assert [run.text for run in runs] == list("abcde")
    assert runs[1].look == Look(foreground=1)
    assert runs[2].look == Look(foreground=208, bold=True)
    assert runs[3].look == Look(foreground=(1, 2, 3), background=4, bold=True)
    assert runs[0].look == runs[4].look == PLAIN


SEQUENCES = [
    ("", PLAIN),
    ("0", PLAIN),
    ("1;2;3;4;7;9", Look(bold=True, dim=True, italic=True, underline=True, reverse=True, strike=True)),
    ("1;22", PLAIN),
    ("95;103", Look(foreground=13, background=11)),
    ("38:2::9:8:7", Look(foreground=(9, 8, 7))),
    ("31;39;41;49", PLAIN),
    ("38", PLAIN),
    ("38;5", PLAIN),
    ("38;2;1;2", PLAIN),
    ("99999999999999999999;31", Look(foreground=1)),
    ("8;5;31", Look(foreground=1)),
]


@pytest.mark.parametrize(("parameters", "look"), SEQUENCES)
def test_color_sequences_mean_what_they_do_in_a_terminal(parameters: str, look: Look) -> None:
    assert after_sgr(PLAIN, parameters) == look


def test_a_plain_line_is_one_run() -> None:
    assert len(decoded(b"all the same").runs) == 1
    assert len(decoded(b"\x1b[0mall\x07 the\x1b[0m same\x1b[m").runs) == 1


def test_a_very_long_line_is_cut_and_says_by_how_much() -> None:
    line = decoded(b"z" * 100_000)
    assert line.text == "z" * LONGEST
    assert line.hidden == 100_000 - LONGEST
    head = decoded(b"z" * 40_000, size=1_000_000)
    assert head.hidden == 1_000_000 - LONGEST


def test_a_cut_leaves_no_half_characters_and_no_half_sequences() -> None:
    assert decoded("é".encode() * LONGEST).text == "é" * (LONGEST // 2)
    assert decoded(b"x" + "é".encode() * LONGEST).text == "x" + "é" * (LONGEST // 2 - 1)
    assert decoded(b"z" * (LONGEST - 4) + b"\x1b[38;5;208mrest").text == "z" * (LONGEST - 4)


PIECES = [b"\x1b", b"[", b"]", b"31", b"m", b";", b"\x07", b"\\", b"\xc2\x9b", b"\xc2\x9c", b"P", b"\r", b"\t", b"\x9b"]
RAW = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)), max_size=60).map(b"".join),
    st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@given(RAW)
@example(b"\x1b\x1b[31m[2J")
@example(b"\x1b[3\x1b[31m1m")
@example(b"\xc2\x1b[0m\x9b2J")
def test_no_control_character_survives(raw: bytes) -> None:
    raw = raw.replace(b"\n", b"")
    text = decoded(raw).text
    assert not [one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]", text)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1b[31m" * 20_000 + b"x",
        b"\x1b]" * 40_000,
        b"\r" * 65_000,
        b"a\r" * 32_000,
        b"\x1b[" + b"1;" * 30_000,
        b"\t" * 16_000,
    ],
)
def test_a_hostile_line_costs_little(raw: bytes) -> None:
    with never_hanging():
        decoded(raw)
