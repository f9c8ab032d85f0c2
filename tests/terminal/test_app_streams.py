"""Jobs from a pipe or a file while the keyboard stays the keyboard; terminals that can do little, or nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.apps import at_home
from support.sessions import GPUTUI
from support.terminal import RecordedTerminal
from support.waiting import until

COLOUR = re.compile(rb"\x1b\[[0-9;]*?(?:3[0-79]|4[0-79]|9[0-7]|10[0-7]|38;|48;)[0-9;]*m")
MANY_COLOURS = re.compile(rb"\x1b\[[0-9;]*?[34]8;[25];")


def works_by_keys(terminal: RecordedTerminal) -> None:
    terminal.press("?")
    terminal.shows("Lower case never touches running work")
    terminal.press("\x1b")
    until(lambda: "Lower case" not in terminal.text, "the help is gone")
    terminal.press("q")
    terminal.shows("detach: everything goes on")
    terminal.press("q")
    assert terminal.status() == 0


def test_jobs_come_through_a_pipe_as_they_are_written_and_the_keyboard_works(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with at_home(tmp_path) as home, home.opened("-", stdin=reading) as terminal:
        os.close(reading)
        os.write(writing, b"exec sleep 600\nexec sleep 601\n")
        terminal.shows("2 run")
        os.write(writing, b"exec sleep 602\n")
        terminal.shows("2 run")
        terminal.shows("0/3")
        works_by_keys(terminal)
        os.close(writing)
        home.owner()
        assert home.counts() == {"running": 2, "queued": 1}


@pytest.mark.parametrize("words", [(), ("-",)])
def test_jobs_come_from_a_file_at_standard_input_and_the_keyboard_works(tmp_path: Path, words: tuple[str, ...]) -> None:
    with at_home(tmp_path) as home:
        jobs = home.write("exec sleep 600", "exec sleep 601", "exec sleep 602")
        with jobs.open() as given, home.opened(*words, stdin=given) as terminal:
            terminal.shows("2 run")
            terminal.shows("0/3")
            works_by_keys(terminal)


def test_redirected_output_gets_nothing_and_the_screen_is_there(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        jobs, taken = home.write("exec sleep 600"), tmp_path / "taken"
        with taken.open("w") as file, home.opened(jobs, stdout=file, stderr=file) as terminal:
            terminal.shows("1 run")
            works_by_keys(terminal)
            assert "Detached. 1 running" in terminal.text
        assert taken.read_text() == ""


def test_a_dumb_terminal_is_refused_in_a_sentence_and_nothing_is_made(tmp_path: Path) -> None:
    with at_home(tmp_path) as home, home.opened(home.write("true"), env={"TERM": "dumb"}) as terminal:
        assert terminal.status() == 2
        assert "gputui run" in terminal.text
        assert "TERM=dumb" in terminal.text
        assert b"\x1b" not in terminal.since(0)
        assert not home.root.exists()


def test_without_a_terminal_the_way_to_go_is_said_and_nothing_is_made(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        jobs = home.write("true")
        done = subprocess.run(
            ["setsid", *GPUTUI, "--output-dir", str(home.root), str(jobs)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("gputui: there is no terminal here; run jobs without a screen with `gputui run`")
        assert done.stderr.count("\n") == 1
        assert not home.root.exists()


def looks(tmp_path: Path, env: dict[str, str | None]) -> bytes:
    """What is sent for a screen with a running, a failed and a waiting job, a dialog and the help."""
    with at_home(tmp_path) as home:
        jobs = home.write("exit 3", "exec sleep 600", "exec sleep 601", "exec sleep 602")
        with home.opened(jobs, env=env) as terminal:
            terminal.shows("2 run")
            terminal.shows("1/4")
            terminal.shows("1 ✗")
            works_by_keys(terminal)
            return terminal.since(0)


def test_no_color_sends_no_colour_and_states_are_told_by_signs_and_words(tmp_path: Path) -> None:
    raw = looks(tmp_path, {"NO_COLOR": "1"})
    assert COLOUR.search(raw) is None, COLOUR.findall(raw)[:5]
    assert "✗".encode() in raw or b"failed" in raw


def test_sixteen_colours_are_enough(tmp_path: Path) -> None:
    raw = looks(tmp_path, {"TERM": "xterm", "COLORTERM": None})
    assert COLOUR.search(raw) is not None
    assert MANY_COLOURS.search(raw) is None, MANY_COLOURS.findall(raw)[:5]


def test_a_locale_without_utf_8_breaks_nothing(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        jobs = home.write("echo größe 日本; exec sleep 600")
        with home.opened(jobs, env={"LC_ALL": "C", "LANG": "C"}) as terminal:
            terminal.shows("1 run")
            terminal.shows("größe 日")
            works_by_keys(terminal)
            assert "Detached" in terminal.text
