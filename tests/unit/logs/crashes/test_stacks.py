"""What stands above a stack, between rules or in a box is the message, whatever language or program printed it."""

from __future__ import annotations

import pytest

from gputui.core.job import CrashKind
from gputui.logs.crashes.lines import cleaned
from gputui.logs.crashes.signature import crash_of
from gputui.logs.crashes.tracebacks import above_stack

LUA = (
    "lua: train.lua:12: attempt to index a nil value (global 'net')\nstack traceback:\n\ttrain.lua:12: in main chunk\n"
)
RUBY = "train.rb:12:in `main': undefined method `fit' (NoMethodError)\n\tfrom train.rb:31:in `<main>'\n"
ELIXIR = "** (ArgumentError) axis 3 out of bounds\n    (nx 0.7.0) lib/nx/shape.ex:11: f/4\n    train.exs:12: (file)\n"
RULE = "-" * 74
SLOTS = f"{RULE}\nThere are not enough slots available in the system\nto satisfy the 16 that were requested\n\n{RULE}\n"


@pytest.mark.parametrize("log", [LUA, RUBY, ELIXIR], ids=["lua", "ruby", "elixir"])
def test_the_line_above_the_frames_is_the_message(log: str) -> None:
    assert crash_of(f"loading data\n{log}".encode(), 1).message == log.partition("\n")[0]


def test_frames_without_a_line_above_them_say_nothing() -> None:
    assert above_stack(cleaned(b"stack traceback:\n\t[C]: in ?\n")) is None


def test_a_notice_between_rules_is_read_from_its_beginning() -> None:
    assert crash_of(SLOTS.encode(), 1).message.startswith("There are not enough slots available")


def test_refused_options_in_a_box_or_above_the_usage_are_wrong_usage() -> None:
    box = "╭─ Unrecognized options ─────╮\n│ Unrecognized options: --lrr │\n╰────────────────────────────╯\n"
    for log in (box, "error: unexpected argument '--lrr' found\n\nUsage: train --lr <LR>\n"):
        assert crash_of(log.encode(), 2).kind is CrashKind.USAGE
