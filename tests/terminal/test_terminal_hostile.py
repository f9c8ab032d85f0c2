"""Whatever reaches a widget, the terminal gets nothing to obey but what the app itself says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from support.hosting import hosted
from support.terminal import CTRL_L
from textual.color import Color

from gputui.tui.terminal.screen_diff import Sanitize

OURS = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[[0-9]+;[0-9]+H|\x1b\[[0-9]*C"
    r"|\x1b\[\?(?:1000|1002|1006|1049|2004|2026|25|7)[hl]|\x1b\[\?2026\$p|\x1b\[>25u|\x1b\[<u"
)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("parts", [("hostile",), ("hostile", "stock")])
def test_no_widget_passes_on_what_a_terminal_would_obey(tmp_path: Path, parts: tuple[str, ...]) -> None:
    with hosted(tmp_path, *parts, size=(80, 50)) as host:
        terminal = host.ready().terminal
        terminal.shows("red(0bidi end")
        terminal.press("\t" * 3 + CTRL_L)
        terminal.settles()
        assert terminal.text.count("bidi") > 8, terminal.text
        left = OURS.sub("", terminal.since(0).decode())
        if "stock" in parts:
            left = left.replace("\r\n", "")  # Textual's own between rows
        assert CONTROL.search(left) is None, repr(left)
        terminal.press("q")


def test_the_filter_keeps_every_column_where_it_was() -> None:
    segments = [Segment("a\x1b[2Jb\u202ec\td\x9be\ud800"), Segment("fine"), Segment("x", Style(link="https://x"))]
    after = Sanitize().apply(segments, Color(0, 0, 0))
    assert [segment.text for segment in after] == ["a[2Jbcde\ufffd", "fine", "x"]
    assert after[2].style is not None
    assert after[2].style.link is None
    assert [segment.cell_length for segment in after] == [segment.cell_length for segment in segments]


def test_harmless_lines_pass_untouched() -> None:
    segments = [Segment("plain 日本語 ━━╸ é")]
    assert Sanitize().apply(segments, Color(0, 0, 0)) is segments
