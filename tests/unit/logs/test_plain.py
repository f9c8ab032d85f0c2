"""Text from outside can be shown and cannot control the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import never_hanging

from gputui.logs.plain import plain

CASES = [
    ("", ""),
    ("python train.py --lr 0.1", "python train.py --lr 0.1"),
    ("naïve Übung 日本語 🚀 مرحبا שלום", "naïve Übung 日本語 🚀 مرحبا שלום"),
    ("👩\u200d🔬", "👩\u200d🔬"),
    ("e\u0301", "e\u0301"),
    ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[38;2;1;2;3mtrue\x1b[m colour", "true colour"),
    ("\x9b31mC1 red", "C1 red"),
    ("\x1b]0;title\x07text", "text"),
    ("\x1b]52;c;aGk=\x1b\\text", "text"),
    ("\x9d0;title\x9ctext", "text"),
    ("\x1bPq#0;2\x1b\\text", "text"),
    ("\x1b_Gi=1;AAAA\x1b\\text", "text"),
    ("\x1b^private\x1b\\text", "text"),
    ("\x1b]0;never closed", "0;never closed"),
    ("\x1b[31", "31"),
    ("\x1b(Bascii", "ascii"),
    ("\x1bcreset", "reset"),
    ("end\x1b", "end"),
    ("\x1b\x1b[2Jtwice", "twice"),
    ("a\x08b\x07c\x00d\x7fe", "abcde"),
    ("a\tb", "a b"),
    ("a\nb", "a␤b"),
    ("a\r\nb", "a␤b"),
    ("a\rb", "a b"),
    ("a\x85b\u2028c\u2029d", "a␤b␤c␤d"),
    ("evil\u202etxt.exe", "eviltxt.exe"),
    ("\u2066isolate\u2069", "isolate"),
    ("half \ud83d pair", "half \ufffd pair"),
    ("\x80\x9f\x8dC1", "C1"),
]


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_escape_sequences_are_removed(text: str, shown: str) -> None:
    assert plain(text) == shown


PIECES = st.sampled_from(
    ["\x1b", "[", "]", "0;", "m", "\x07", "\\", "\x9b", "\x9c", "\x9d", "P", "\r", "\n", "\u202e", "\ud800"]
)
TEXTS = st.one_of(
    st.text(st.characters()),
    st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join),
    st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@given(TEXTS)
def test_no_control_character_is_left(text: str) -> None:
    shown = plain(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    shown.encode()


@given(TEXTS)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_ordinary_characters_are_kept(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize("piece", ["\x1b", "\x1b[", "\x1b]", "\x1b[0", "\x1b]a", "\x9b ", "\x1bP\x1b"])
def test_no_text_takes_long(piece: str) -> None:
    with never_hanging():
        plain(piece * 1_000_000)
        plain(piece + "0 " * 1_000_000)
