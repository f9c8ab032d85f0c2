"""Documents: the layout of lines on the screen, and a search that finds a text wherever it is visible."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.logs import document as search
from gputui.logs.document import (
    Document,
    LineLayout,
    Needle,
    Top,
    backward,
    find_above,
    find_below,
    find_nearest,
    forward,
)

Result = TypeVar("Result")


def result(work: Generator[None, None, Result]) -> Result:
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: Result = done.value
            return value


@given(st.text("abA", max_size=60), st.text("abA", min_size=1, max_size=4), st.integers(0, 60), st.integers(1, 9))
def test_matches_across_pieces_are_found(text: str, sought: str, start: int, piece: int) -> None:
    data, needle = text.encode(), Needle(sought)
    same = text if needle.exact else text.lower()
    before, search.PIECE = search.PIECE, piece
    try:
        below = result(forward(needle, lambda offset, length: data[offset : offset + length], start, len(data)))
        above = result(
            backward(needle, lambda offset, length: data[offset : offset + length], 0, min(start, len(data)))
        )
    finally:
        search.PIECE = before
    assert (-1 if below is None else below) == same.find(sought, start)
    assert (-1 if above is None else above) == same[:start].rfind(sought)


@pytest.fixture
def document(tmp_path: Path) -> Document:
    (tmp_path / "out").write_bytes(b"first Loss\nsecond\nthird loss\n" + b"\rloss 1\rloss 2\rdone    " + b"\nfifth\n")
    (tmp_path / "err").write_bytes(b"warning\nLOSS is nan\n")
    both = Document([("OUT", tmp_path / "out"), ("ERR", tmp_path / "err")])
    both.look(at_end=True)
    return both


def text_at(document: Document, key: int | None) -> str | None:
    return None if key is None else document.line(key).text


def test_matches_are_found_in_both_directions_and_both_files(document: Document) -> None:
    keys = [document.key(row) for row in range(document.rows)]
    needle = Needle("loss")
    found = []
    key: int | None = keys[0]
    while key is not None and (key := result(find_below(document, needle, key))) is not None:
        found.append(text_at(document, key))
        key += 1
    assert found == ["first Loss", "third loss", "LOSS is nan"]
    back = []
    key = document.key(document.rows)
    while (key := result(find_above(document, needle, key))) is not None:
        back.append(text_at(document, key))
    assert back == found[::-1]


def test_upper_case_makes_a_search_case_sensitive(document: Document) -> None:
    assert text_at(document, result(find_below(document, Needle("LOSS"), document.key(0)))) == "LOSS is nan"


def test_the_nearest_match_is_below_else_above(document: Document) -> None:
    last = document.key(document.rows - 1)
    assert text_at(document, result(find_nearest(document, Needle("first"), last))) == "first Loss"
    assert result(find_nearest(document, Needle("nowhere"), last)) is None


def test_a_match_far_above_what_is_known_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"needle here\n")
        file.seek(8 << 20)
        file.write(b"\nend\n")
    document = Document([("OUT", path)])
    document.look(at_end=True)
    assert not document.complete
    key = result(find_above(document, Needle("needle"), document.key(document.rows - 1)))
    assert text_at(document, key) == "needle here"


PARTS = st.lists(st.integers(1, 5), max_size=12)


def all_rows(parts: list[int]) -> list[Top]:
    return [Top(row, part) for row, count in enumerate(parts) for part in range(count)]


@given(PARTS, st.integers(1, 8), st.integers(0, 60), st.integers(-70, 70))
def test_scrolling_moves_over_all_rows(parts: list[int], height: int, start: int, by: int) -> None:
    rows = all_rows(parts)
    layout = LineLayout(len(parts), height, parts.__getitem__)
    last = max(0, len(rows) - height)
    assert layout.last_top() == (rows[last] if rows else Top(0))
    place = min(start, last)
    top = rows[place] if rows else Top(0)
    assert list(layout.visible(top)) == rows[place : place + height]
    expected = max(0, min(last, place + by))
    assert layout.moved(top, by) == (rows[expected] if rows else Top(0))


def test_only_lines_near_the_screen_are_measured() -> None:
    asked = []

    def parts(row: int) -> int:
        asked.append(row)
        return 2

    layout = LineLayout(10_000_000, 40, parts)
    assert layout.last_top() == Top(9_999_980)
    layout.moved(Top(5_000_000), -39)
    list(layout.visible(Top(5_000_000)))
    assert len(asked) < 200
