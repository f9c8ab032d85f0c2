"""Hostile text in every field that somebody else can fill: no pane, no dialog and no sentence passes it on."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.apps import AppHome, at_home
from support.hostile import MARK, PAYLOAD, nothing_to_obey, pasted
from support.terminal import CTRL_L, RecordedTerminal
from support.waiting import until

from gputui.session.session_dir import Paths

ESCAPE = "\x1b"
FILE_NAME = PAYLOAD + ".txt"
TRACEBACK = "Traceback (most recent call last):\\n  File x\\nValueError: %s\\n"
CRASH = f"printf '{TRACEBACK}' {shlex.quote(PAYLOAD)} >&2; exit 1"


def spec(folder: Path, command: str, **more: Any) -> dict[str, Any]:
    cwd = folder / f"in {PAYLOAD}"
    cwd.mkdir(exist_ok=True)
    return {"command": command, "cwd": str(cwd), "environment": "", "group": PAYLOAD, **more}


@contextmanager
def besieged(folder: Path) -> Iterator[tuple[AppHome, RecordedTerminal]]:
    """Three jobs have crashed in the same words, one writes and runs, some wait; all that can be is hostile."""
    with at_home(folder, PAYLOAD) as home:
        says = f"printf '%s\\n' {shlex.quote(PAYLOAD)} | tee /dev/stderr"
        lanes = [{"id": number, "devices": [], "kind": "cpu"} for number in range(2)]
        Paths(str(home.root)).create()
        home.ask("begin", lanes=lanes, given=True, change_lanes=True, cpu_jobs=1, pause_after=3)
        jobs = [
            spec(folder, f"{says}; exec sleep 600 # {PAYLOAD}", name=PAYLOAD, variables={"BAD": PAYLOAD}),
            *(spec(folder, CRASH + f" # {number}", name=f"{PAYLOAD} {number}") for number in range(3)),
            spec(folder, f"exec sleep 600 # {PAYLOAD}", params={PAYLOAD: PAYLOAD}, outfile=PAYLOAD, after=[PAYLOAD]),
        ]
        home.ask(
            "load", work=True, specs=jobs, environment={"PATH": os.environ["PATH"], "BAD": PAYLOAD}, origin=PAYLOAD
        )
        home.becomes(3, "failed")
        with home.opened(home.write(f"true {PAYLOAD}".replace("\x85", ""), name=FILE_NAME), gpus=None) as terminal:
            terminal.shows("jobs crashed alike")
            yield home, terminal


def opens(terminal: RecordedTerminal, keys: str, wanted: str) -> None:
    """Something over the screen that shows these words and hostile text; then it is closed again."""
    terminal.press(keys)
    terminal.shows(wanted)
    terminal.press(CTRL_L)
    until(lambda: MARK in terminal.text, f"the hostile text is on the screen:\n{terminal.text}")
    terminal.settles(0.1)


def closes(terminal: RecordedTerminal, wanted: str) -> None:
    terminal.press(ESCAPE)
    until(lambda: wanted not in terminal.text, f"{wanted!r} is closed")


def test_no_pane_dialog_or_farewell_passes_on_what_a_terminal_would_obey(tmp_path: Path) -> None:
    with besieged(tmp_path) as (_, terminal):
        terminal.shows(MARK)
        terminal.press("g")
        terminal.press("o")
        terminal.shows("ERR")
        terminal.press("ow")
        for keys, wanted in (
            ("\r", "Story"),
            ("K", "kill now"),
            ("R", "enter rerun"),
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
        terminal.shows("nothing matches")
        closes(terminal, "nothing matches")
        terminal.press("1j")
        opens(terminal, "\r", "drain: nothing more")
        closes(terminal, "drain: nothing more")
        nothing_to_obey(terminal.since(0))
        terminal.press("q")
        terminal.shows("detach: everything goes on")
        terminal.press("q")
        assert terminal.status() == 0
        assert MARK in terminal.text
        nothing_to_obey(terminal.since(0))


def test_the_question_of_a_takeover_passes_nothing_on(tmp_path: Path) -> None:
    with besieged(tmp_path) as (home, _), home.opened(gpus=None) as second:
        second.shows("[Enter] take over")
        assert MARK in second.text
        second.press("q")
        assert second.status() == 0
        nothing_to_obey(second.since(0))


@pytest.mark.parametrize("table", ["keys", ""])
def test_a_wrong_setting_is_refused_and_passes_nothing_on(tmp_path: Path, table: str) -> None:
    (tmp_path / "gputui").mkdir()
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in PAYLOAD)
    written = f'[{table}]\n"{escaped}" = "{escaped}"\n' if table else f'"{escaped}" = "{escaped}"\n'
    (tmp_path / "gputui" / "config.toml").write_text(written)
    with at_home(tmp_path) as home, home.opened(env={"XDG_CONFIG_HOME": str(tmp_path)}) as terminal:
        assert terminal.status() == 2
        assert MARK in terminal.text
        nothing_to_obey(terminal.since(0))
