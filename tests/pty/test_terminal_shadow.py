"""The cell diff against an emulated terminal, and the filter for hostile text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from support.terminal import Emulator
from textual.color import Color

from gputui.tui.terminal.screen_diff import Cell, Sanitize, Shadow, cells_of

WIDTH, HEIGHT = 12, 3
STYLES = [None, *map(Style.parse, ("red", "bold red on blue", "on #102030", "reverse", "underline green", "dim"))]

texts = st.text(alphabet="ab 日本é━", max_size=8)
pieces = st.tuples(st.integers(0, HEIGHT - 1), st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=4))


def row(parts: list[tuple[str, Style | None]]) -> list[Cell]:
    """A whole row, as the compositor makes it: cut at the edge, padded with blanks."""
    cells = cells_of([Segment(text, style) for text, style in parts], ColorSystem.TRUECOLOR)[:WIDTH]
    if cells and cells[-1][0] and ord(cells[-1][0][0]) > 0x3000:
        cells[-1] = (" ", cells[-1][1])
    return cells + cells_of([Segment(" " * (WIDTH - len(cells)))], ColorSystem.TRUECOLOR)


def shown(*sequences: str) -> object:
    emulator = Emulator(WIDTH, HEIGHT)
    emulator.feed(b"\x1b[?7l" + "".join(sequences).encode())
    return emulator.picture


@given(st.lists(pieces, max_size=12))
@settings(max_examples=150)
def test_many_small_changes_show_the_same_as_one_drawing(
    steps: list[tuple[int, list[tuple[str, Style | None]]]],
) -> None:
    shadow, together, fresh = Shadow(), Shadow(), Shadow()
    for each in (shadow, together, fresh):
        each.resize(WIDTH, HEIGHT)
    rows = {y: row([]) for y in range(HEIGHT)} | {y: row(parts) for y, parts in steps}
    blank = shadow.paint((0, y, row([])) for y in range(HEIGHT))
    small = [shadow.paint([(0, y, row(parts))]) for y, parts in steps]
    two = [together.paint((0, y, row(parts)) for y, parts in half) for half in (steps[:6], steps[6:])]
    assert shown(blank, *small) == shown(fresh.paint((0, y, cells) for y, cells in rows.items()))
    assert shown(*two) == shown(*small)


def test_overwriting_half_a_wide_character_redraws_both_halves() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    wide = row([("日本", None)])
    start = shadow.paint([(0, 0, wide)])
    over = shadow.paint([(1, 0, wide[5:6])])
    back = shadow.paint([(0, 0, wide)])
    assert shown(start, over, back) == shown(start)


def test_cells_of_one_style_are_sent_together() -> None:
    shadow, fresh = Shadow(), Shadow()
    shadow.resize(WIDTH, HEIGHT)
    fresh.resize(WIDTH, HEIGHT)
    parts = [("ab", STYLES[1]), ("  ", None), ("ab", STYLES[2])]
    frame = shadow.paint([(0, y, row(parts)) for y in range(HEIGHT)])
    assert frame.count("m") == 3
    assert shown(frame) == shown(*(fresh.paint([(0, y, row(parts))]) for y in range(HEIGHT)))


def test_the_same_again_sends_nothing_until_the_screen_is_forgotten() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    first = shadow.paint([(0, 1, row([("hello", None)]))])
    assert shadow.paint([(0, 1, row([("hello", None)]))]) == ""
    shadow.forget()
    shadow.resize(WIDTH, HEIGHT)
    assert shadow.paint([(0, 1, row([("hello", None)]))]) == first


def test_cells_outside_the_screen_are_not_sent() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    assert shadow.paint([(0, HEIGHT, row([("hello", None)]))]) == ""
    assert shadow.paint([(WIDTH - 2, 0, row([("hello", None)]))]).endswith("he")


def test_the_filter_keeps_every_column_in_its_place() -> None:
    segments = [Segment("a\x1b[2Jb\u202ec\td\x9be\ud800"), Segment("fine"), Segment("x", Style(link="https://x"))]
    after = Sanitize().apply(segments, Color(0, 0, 0))
    assert [segment.text for segment in after] == ["a[2Jbcde\ufffd", "fine", "x"]
    assert after[2].style is not None
    assert after[2].style.link is None
    assert [segment.cell_length for segment in after] == [segment.cell_length for segment in segments]
