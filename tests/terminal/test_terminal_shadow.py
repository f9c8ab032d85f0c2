"""The cell diff alone, against a terminal's own idea of what it was told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from support.emulation import Emulator

from gputui.tui.terminal.screen_diff import Cell, Shadow, cells_of

WIDTH, HEIGHT = 12, 3
STYLES = [None, *map(Style.parse, ("red", "bold red on blue", "on #102030", "reverse", "underline green", "dim"))]

texts = st.text(alphabet="ab 日本é━", max_size=8)
pieces = st.tuples(st.integers(0, HEIGHT - 1), st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=4))


def row(parts: list[tuple[str, Style | None]]) -> list[Cell]:
    """A whole row, as a compositor makes it: cut at the edge, filled up with blanks."""
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
def test_small_steps_lead_to_the_same_picture_as_drawing_it_at_once(
    steps: list[tuple[int, list[tuple[str, Style | None]]]],
) -> None:
    shadow, fresh = Shadow(), Shadow()
    shadow.resize(WIDTH, HEIGHT)
    fresh.resize(WIDTH, HEIGHT)
    rows = {y: row([]) for y in range(HEIGHT)} | {y: row(parts) for y, parts in steps}
    blank = [shadow.paint(0, y, row([])) for y in range(HEIGHT)]
    small = [shadow.paint(0, y, row(parts)) for y, parts in steps]
    assert shown(*blank, *small) == shown(*(fresh.paint(0, y, cells) for y, cells in rows.items()))


def test_half_a_wide_character_that_is_written_over_is_drawn_again_with_its_neighbour() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    wide = row([("日本", None)])
    start = shadow.paint(0, 0, wide)
    over = shadow.paint(1, 0, wide[5:6])
    back = shadow.paint(0, 0, wide)
    assert shown(start, over, back) == shown(start)


def test_the_same_again_is_no_byte_and_forgetting_sends_all() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    first = shadow.paint(0, 1, row([("hello", None)]))
    assert shadow.paint(0, 1, row([("hello", None)])) == ""
    shadow.forget()
    shadow.resize(WIDTH, HEIGHT)
    assert shadow.paint(0, 1, row([("hello", None)])) == first


def test_what_lies_outside_the_screen_is_left_out() -> None:
    shadow = Shadow()
    shadow.resize(WIDTH, HEIGHT)
    assert shadow.paint(0, HEIGHT, row([("hello", None)])) == ""
    assert shadow.paint(WIDTH - 2, 0, row([("hello", None)])).endswith("he")
