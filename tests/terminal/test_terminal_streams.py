"""Pipes and files for standard streams, terminals that cannot do much, and no terminal at all."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.hosting import HOST, hosted

COLOUR = re.compile(rb"\x1b\[[0-9;]*?(?<![0-9])(3[0-8]|4[0-8]|9[0-7]|10[0-7])(?![0-9])[0-9;]*m")
MANY = re.compile(rb"\x1b\[[0-9;]*?[34]8;[25];")


def test_what_comes_through_a_pipe_is_never_taken_as_keys(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("q" * 500)
    with (tmp_path / "jobs").open() as jobs, hosted(tmp_path, stdin=jobs) as host:
        host.ready().terminal.shows("piped 500")
        host.terminal.press("a")
        host.terminal.shows("again 1")
        host.terminal.press("q")
        assert host.terminal.status() == 7


def test_redirected_output_and_errors_do_not_touch_the_screen(tmp_path: Path) -> None:
    with (
        (tmp_path / "out").open("w") as out,
        (tmp_path / "err").open("w") as err,
        hosted(tmp_path, stdout=out, stderr=err, size=(100, 30)) as host,
    ):
        host.ready().terminal.press("nq")
        host.tells("frame 1")
        assert host.terminal.status() == 7
    assert (tmp_path / "out").read_bytes() == b""
    assert (tmp_path / "err").read_bytes() == b""


def test_the_size_is_the_terminals_whatever_the_output_is(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out, hosted(tmp_path, stdout=out, size=(100, 30)) as host:
        host.ready().terminal.press("n")
        host.terminal.shows("frame 1")
        host.terminal.settles()
        last = host.terminal.text.splitlines()[-1]
        assert len(last) == 100


@pytest.mark.parametrize(
    ("env", "shell", "reason"),
    [
        ({"TERM": "dumb"}, 'exec "$@"', "TERM=dumb"),
        ({}, 'exec "$@" <&-', "standard input is closed"),
        ({}, 'exec setsid --wait "$@"', "there is no terminal here"),
    ],
)
def test_where_it_cannot_be_shown_one_sentence_says_why_and_where_to_go(
    tmp_path: Path, env: dict[str, str], shell: str, reason: str
) -> None:
    with hosted(tmp_path, words=("sh", "-c", shell, "sh", *HOST), env=env) as host:
        assert host.terminal.status() == 1
        text = host.terminal.text.replace("\n", "")
        assert text.startswith("gputui: ")
        assert reason in text
        assert "`gputui run`" in text
        assert "`gputui ls`" in text
        assert not host.terminal.emulator.alternate


def test_without_any_terminal_it_ends_at_once() -> None:
    done = subprocess.run(HOST, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True)
    assert done.returncode == 1
    assert "there is no terminal here" in done.stderr


@pytest.mark.parametrize("value", ["1", ""])
def test_no_color_sends_none(tmp_path: Path, value: str) -> None:
    with hosted(tmp_path, env={"NO_COLOR": value}) as host:
        host.ready().terminal.press("nm")
        host.terminal.shows("shall we")
        host.terminal.settles()
        assert COLOUR.search(host.terminal.since(0)) is None


def test_a_terminal_of_sixteen_colours_gets_its_own(tmp_path: Path) -> None:
    with hosted(tmp_path, env={"TERM": "linux", "COLORTERM": None}) as host:
        host.ready().terminal.press("nm")
        host.terminal.shows("shall we")
        host.terminal.settles()
        assert COLOUR.search(host.terminal.since(0)) is not None
        assert MANY.search(host.terminal.since(0)) is None


def test_in_another_locale_the_screen_is_still_utf8(tmp_path: Path) -> None:
    latin = {"LANG": None, "LC_ALL": "en_US.ISO-8859-1", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with hosted(tmp_path, env=latin) as host:
        host.ready().terminal.shows("日本語")
        host.terminal.press("é")
        host.terminal.press("a")
        host.terminal.shows("again 1")
