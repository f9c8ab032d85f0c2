"""Redirected standard streams, and terminals with few colors, another locale, or none at all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.app import at_home
from support.terminal import RecordedTerminal, recorded
from support.waiting import until

COLOR = re.compile(rb"\x1b\[[0-9;]*?(?:3[0-79]|4[0-79]|9[0-7]|10[0-7]|38;|48;)[0-9;]*m")
MANY_COLORS = re.compile(rb"\x1b\[[0-9;]*?[34]8;[25];")


def works_by_keys(terminal: RecordedTerminal) -> None:
    terminal.press("?")
    terminal.shows("Lowercase keys never touch running jobs")
    terminal.press("\x1b")
    until(lambda: "Lowercase keys never touch running jobs" not in terminal.text, "the help is gone")
    terminal.press("q")
    terminal.shows("detach: jobs keep running in the background")
    terminal.press("q")
    assert terminal.status() == 0


def test_jobs_may_come_through_a_pipe_while_the_keyboard_works(tmp_path: Path) -> None:
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
def test_jobs_may_come_from_standard_input_while_the_keyboard_works(tmp_path: Path, words: tuple[str, ...]) -> None:
    with at_home(tmp_path) as home:
        jobs = home.write("exec sleep 600", "exec sleep 601", "exec sleep 602")
        with jobs.open() as given, home.opened(*words, stdin=given) as terminal:
            terminal.shows("2 run")
            terminal.shows("0/3")
            works_by_keys(terminal)


def test_redirected_output_stays_empty_and_the_screen_works(tmp_path: Path) -> None:
    with at_home(tmp_path) as home:
        jobs, taken = home.write("exec sleep 600"), tmp_path / "taken"
        with taken.open("w") as file, home.opened(jobs, stdout=file, stderr=file) as terminal:
            terminal.shows("1 run")
            assert max(len(line) for line in terminal.text.splitlines()) > 100, "the size is the terminal's"
            works_by_keys(terminal)
            assert "Detached. 1 running" in terminal.text
        assert taken.read_text() == ""


@pytest.mark.parametrize(
    ("env", "shell", "reason"),
    [
        ({"TERM": "dumb"}, 'exec "$@"', "TERM=dumb"),
        ({}, 'exec "$@" <&-', "standard input is closed"),
        ({}, 'exec setsid --wait "$@"', "no terminal"),
    ],
)
def test_where_the_tui_cannot_run_one_line_says_why_and_what_to_do(
    tmp_path: Path, env: dict[str, str], shell: str, reason: str
) -> None:
    with at_home(tmp_path) as home:
        words = ["sh", "-c", shell, "sh", *home.words(home.write("true"))]
        with recorded(words, size=(120, 40), cwd=tmp_path, env=env) as terminal:
            assert terminal.status() == 2
            text = terminal.text.replace("\n", "")
            assert text.startswith("gputui: ")
            assert reason in text
            assert "`gputui run`" in text
            assert b"\x1b" not in terminal.since(0)
            assert not home.root.exists()


@pytest.mark.parametrize(
    ("env", "colored"),
    [({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, False), ({"TERM": "xterm", "COLORTERM": None}, True)],
)
def test_a_terminal_gets_no_more_colors_than_it_has(tmp_path: Path, env: dict[str, str | None], colored: bool) -> None:
    with at_home(tmp_path) as home:
        jobs = home.write("exit 3", "exec sleep 600", "exec sleep 601", "exec sleep 602")
        with home.opened(jobs, env=env) as terminal:
            terminal.shows("2 run")
            terminal.shows("1/4")
            terminal.shows("✗ failed")
            works_by_keys(terminal)
            raw = terminal.since(0)
    assert bool(COLOR.search(raw)) is colored, COLOR.findall(raw)[:5]
    assert MANY_COLORS.search(raw) is None, MANY_COLORS.findall(raw)[:5]


@pytest.mark.parametrize(("words", "header"), [((), 236), (("--theme", "light"), 254)])
def test_a_terminal_of_256_colors_gets_only_these(tmp_path: Path, words: tuple[str, ...], header: int) -> None:
    env = {"TERM": "screen-256color", "COLORTERM": None}
    with at_home(tmp_path) as home, home.opened(home.write("exec sleep 600"), *words, env=env) as terminal:
        terminal.shows("1 run")
        works_by_keys(terminal)
        raw = terminal.since(0)
    assert b"48;5;%d" % header in raw
    assert re.search(rb"[34]8;2;", raw) is None


def test_in_another_locale_the_screen_is_still_utf_8(tmp_path: Path) -> None:
    latin = {"LANG": None, "LC_ALL": "en_US.ISO-8859-1", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with at_home(tmp_path) as home:
        jobs = home.write("echo größe 日本; exec sleep 600")
        with home.opened(jobs, env=latin) as terminal:
            terminal.shows("1 run")
            terminal.shows("größe 日")
            works_by_keys(terminal)
            assert "Detached" in terminal.text
