"""The checks before the app is shown and the message after it, both without Textual."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.terminal import recorded
from support.waiting import PATIENCE

from gputui.tui.terminal.tty import Colours, colours, locale_is_utf8

SAY = "import sys; from gputui.tui.terminal.tty import say; sys.exit(0 if say('Detached. ' * {}) else 3)"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, Colours.INDEXED),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, Colours.RGB),
        ({"TERM": "xterm"}, Colours.SIXTEEN),
        ({"TERM": "linux"}, Colours.SIXTEEN),
        ({}, Colours.SIXTEEN),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, Colours.NONE),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, Colours.NONE),
    ],
)
def test_the_environment_says_how_many_colours_there_are(environ: dict[str, str], expected: Colours) -> None:
    assert colours(environ) is expected


def test_the_locale_is_read_in_the_order_of_the_c_library() -> None:
    assert locale_is_utf8({"LC_ALL": "de_DE.UTF-8", "LANG": "C"})
    assert not locale_is_utf8({"LC_CTYPE": "de_DE.ISO-8859-1", "LANG": "de_DE.utf8"})
    assert not locale_is_utf8({"LANG": "C"})
    assert locale_is_utf8({}), "unset, and nearly every terminal uses UTF-8"


def test_the_message_after_leaving_reaches_the_terminal_even_if_output_is_redirected(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out, recorded([sys.executable, "-c", SAY.format(1)], stdout=out) as terminal:
        assert terminal.status() == 0
        assert "Detached." in terminal.text


def test_a_stalled_terminal_does_not_delay_the_exit() -> None:
    with recorded(["sh", "-c", 'read go; exec "$@"', "sh", sys.executable, "-c", SAY.format(20000)]) as terminal:
        terminal.stall()
        terminal.press("\n")
        assert terminal.process.wait(PATIENCE) == 3
