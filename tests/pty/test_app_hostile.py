"""Hostile text in every field that others can fill: no pane, dialog or message passes it on to the terminal."""

from __future__ import annotations

import codecs
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.app import AppHome, at_home
from support.terminal import CTRL_L, RecordedTerminal
from support.waiting import until

from gputui.session.session_dir import Paths

MARK = "innocent"
"""What is left of the payload when it is harmless: proof that it was shown at all."""


PAYLOAD = (
    "\x1b]52;c;aGk=\x07\x1b[2J\x1b[?1049l\x1b]0;owned\x1b\\\x1b(0\x9b31m\x9d52;c;aGk=\x9c\x90q\x9c"
    f"\u202e\x07\x08\x85\u2028[bold]{MARK}\x7f"
)


_OURS = re.compile(
    r"\x1b\[[0-9;]*m|\x1b\[[0-9]+;[0-9]+H|\x1b\[[0-9]*[CD]|\x1b\[[0-9]*[AB]\x08{0,3}"
    r"|\x1b\[\?(?:1000|1002|1006|1049|2004|2026|25|7)[hl]|\x1b\[\?2026\$p|\x1b\[>25u|\x1b\[<u"
    r"|\x1b\[2[23];2t|\x1b\]2;(?:[0-9,]+/[0-9,]+(?: · [0-9,]+✗)? )?gputui\x07"
    r"|\r+\n"
)


_UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?\Z")
"""What was read so far may end in the middle of a sequence, or of a letter."""


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def nothing_to_obey(raw: bytes) -> None:
    """But what the app itself says to a terminal."""
    text = codecs.getincrementaldecoder("utf-8")().decode(_UNFINISHED.sub(b"", raw))
    left = _OURS.sub("", text)
    found = _CONTROL.search(left)
    assert found is None, repr(left[max(0, found.start() - 40) : found.start() + 40])
    assert raw.count(b"\x1b[?1049l") <= 1, "the screen is left once"


def pasted(text: str) -> str:
    """As a terminal hands over what was pasted: all of them take escape out."""
    return "\x1b[200~" + text.replace("\x1b", "") + "\x1b[201~"


ESCAPE = "\x1b"
FILE_NAME = PAYLOAD + ".txt"
TRACEBACK = "Traceback (most recent call last):\\n  File x\\nValueError: %s\\n"
CRASH = f"printf '{TRACEBACK}' {shlex.quote(PAYLOAD)} >&2; exit 1"


def spec(directory: Path, command: str, **more: Any) -> dict[str, Any]:
    cwd = directory / f"with {PAYLOAD}"
    cwd.mkdir(exist_ok=True)
    return {"command": command, "cwd": str(cwd), "environment": "", "group": PAYLOAD, **more}


@contextmanager
def hostile_session(directory: Path) -> Iterator[tuple[AppHome, RecordedTerminal]]:
    """Three jobs have failed with the same error, one is running, some are waiting; every text is hostile."""
    with at_home(directory, PAYLOAD) as home:
        says = f"printf '%s\\n' {shlex.quote(PAYLOAD)} | tee /dev/stderr"
        slots = [{"id": number, "devices": [], "kind": "cpu"} for number in range(2)]
        Paths(str(home.root)).create()
        home.ask("begin", slots=slots, given=True, change_slots=True, settings={"cpu_jobs": 1, "pause_after": 3})
        jobs = [
            spec(directory, f"{says}; exec sleep 600 # {PAYLOAD}", name=PAYLOAD, variables={"BAD": PAYLOAD}),
            *(spec(directory, CRASH + f" # {number}", name=f"{PAYLOAD} {number}") for number in range(3)),
            spec(directory, f"exec sleep 600 # {PAYLOAD}", params={PAYLOAD: PAYLOAD}, outfile=PAYLOAD, after=[PAYLOAD]),
        ]
        home.ask(
            "load", work=True, specs=jobs, environment={"PATH": os.environ["PATH"], "BAD": PAYLOAD}, origin=PAYLOAD
        )
        home.becomes(3, "failed")
        with home.opened(home.write(f"true {PAYLOAD}".replace("\x85", ""), name=FILE_NAME), gpus=None) as terminal:
            terminal.shows("3 jobs")
            yield home, terminal


def opens(terminal: RecordedTerminal, keys: str, wanted: str) -> None:
    """Open a view or dialog that shows these words and hostile text."""
    terminal.press(keys)
    terminal.shows(wanted)
    terminal.press(CTRL_L)
    until(lambda: MARK in terminal.text, f"the hostile text is on the screen:\n{terminal.text}")
    terminal.settles(0.1)


def closes(terminal: RecordedTerminal, wanted: str) -> None:
    terminal.press(ESCAPE)
    until(lambda: wanted not in terminal.text, f"{wanted!r} is closed")


def test_no_pane_dialog_or_last_message_sends_hostile_sequences(tmp_path: Path) -> None:
    with hostile_session(tmp_path) as (_, terminal):
        terminal.shows(MARK)
        terminal.press("g")
        terminal.press("o")
        terminal.shows("ERR")
        terminal.press("ow")
        for keys, wanted in (
            ("\r", "History"),
            ("K", "kill now"),
            ("R", "Enter: rerun"),
            ("B", "B  requeue"),
            ("c", "command"),
        ):
            opens(terminal, keys, wanted)
            closes(terminal, wanted)
        terminal.press("a")
        terminal.shows("command")
        terminal.press(pasted(PAYLOAD))
        terminal.shows(MARK)
        terminal.settles(0.1)
        closes(terminal, "command")
        terminal.press("/")
        terminal.shows("state:failed lr=0.1")
        terminal.press(pasted(PAYLOAD) + "\r")
        terminal.shows("no matches: Esc to show all")
        closes(terminal, "no matches: Esc to show all")
        terminal.press("1j")
        opens(terminal, "\r", "drain: start no more jobs here")
        closes(terminal, "drain: start no more jobs here")
        nothing_to_obey(terminal.since(0))
        terminal.press("q")
        terminal.shows("detach: jobs keep running in the background")
        terminal.press("q")
        assert terminal.status() == 0
        assert MARK in terminal.text
        nothing_to_obey(terminal.since(0))


def test_the_takeover_question_sends_no_hostile_sequences(tmp_path: Path) -> None:
    with hostile_session(tmp_path) as (home, _), home.opened(gpus=None) as second:
        second.shows("[Enter] take over")
        assert MARK in second.text
        second.press("q")
        assert second.status() == 0
        nothing_to_obey(second.since(0))


@pytest.mark.parametrize("table", ["keys", ""])
def test_an_invalid_setting_is_refused_without_hostile_sequences(tmp_path: Path, table: str) -> None:
    (tmp_path / "gputui").mkdir()
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in PAYLOAD)
    written = f'[{table}]\n"{escaped}" = "{escaped}"\n' if table else f'"{escaped}" = "{escaped}"\n'
    (tmp_path / "gputui" / "config.toml").write_text(written)
    with at_home(tmp_path) as home, home.opened(env={"XDG_CONFIG_HOME": str(tmp_path)}) as terminal:
        assert terminal.status() == 2
        assert MARK in terminal.text
        nothing_to_obey(terminal.since(0))
