"""One parser per verb: it reads, it helps, it completes."""

from __future__ import annotations

import subprocess

import pytest
from support.calling import Gputui
from support.sessions import GPUTUI, said

from gputui.cli.output import Exit
from gputui.cli.parser import Parser, whole
from gputui.cli.top import HELP
from gputui.cli.verbs import VERBS

OURS = [verb for verb in VERBS if verb not in ("app", "run", "keep", "report", "demo", "doctor")]


def a_verb(words: str | None = "*", *, signed: bool = False) -> Parser:
    made = Parser("test", "A test.", usage="test", examples="gputui test", signed=signed)
    made.add_argument("words", nargs=words)
    made.add_argument("-n", "--lines", metavar="N", type=whole, help="lines")
    made.switch("-f", "--follow", help="follow")
    made.add_argument("--env-var", metavar="K=V", action="append", default=[], help="variable")
    return made


@pytest.mark.parametrize(
    ("words", "lines", "follow", "env", "others"),
    [
        ([], None, False, [], []),
        (["-n", "3"], 3, False, [], []),
        (["-n3"], 3, False, [], []),
        (["--lines=3", "x"], 3, False, [], ["x"]),
        (["-fn3"], 3, True, [], []),
        (["x", "-f", "y"], None, True, [], ["x", "y"]),
        (["--env-var", "a=1", "--env_var=b=2"], None, False, ["a=1", "b=2"], []),
        (["--", "-f", "--lines"], None, False, [], ["-f", "--lines"]),
        (["-"], None, False, [], ["-"]),
    ],
)
def test_words_are_read(words: list[str], lines: int | None, follow: bool, env: list[str], others: list[str]) -> None:
    options = a_verb().parse_args(words)
    assert (options.lines, options.follow, options.env_var, options.words) == (lines, follow, env, others)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--lnes", "3"], "did you mean --lines?"),
        (["--lines"], "needs a value: --lines N"),
        (["-n", "three"], "-n: "),
        (["--follow=yes"], "takes no value"),
        (["-x"], "has no -x"),
        (["--line", "3"], "has no --line;"),
        (["--follow", "x", "--flow"], "did you mean --follow?"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(Exit) as wrong:
        a_verb().parse_args(words)
    assert sentence in str(wrong.value)
    assert wrong.value.status == 2


def test_too_few_and_too_many_words_show_the_usage() -> None:
    for words in ([], ["a", "b"]):
        with pytest.raises(Exit, match="usage: gputui test"):
            a_verb(None).parse_args(words)


def test_signed_words_are_no_flags_where_that_makes_sense() -> None:
    assert a_verb(signed=True).parse_args(["-5", "-6,7"]).words == ["-5", "-6,7"]


@pytest.mark.parametrize("verb", OURS)
def test_every_verb_helps_with_examples(gputui: Gputui, verb: str) -> None:
    for spelling in ("--help", "-h"):
        told = gputui(verb, spelling)
        assert told.status == 0
        assert told.out.startswith(f"usage: gputui {verb}")
        assert "examples:" in told.out
        assert max(map(len, told.out.splitlines())) <= 120


def test_the_overview_names_every_verb() -> None:
    words = HELP.split()
    assert [verb for verb in VERBS if verb not in words] == []


def test_a_verb_with_a_slip_names_the_nearest(gputui: Gputui) -> None:
    assert "gputui resume" in gputui("resme").err


def test_a_word_that_is_no_verb_and_no_file_is_named_with_or_without_a_terminal() -> None:
    done = subprocess.run(
        [*GPUTUI, "wrongword"], stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )
    assert done.returncode == 2
    assert "no verb and no file 'wrongword'" in said(done)
    assert "terminal" not in done.stderr


def test_the_words_of_a_newcomer_and_of_one_verb_are_explained(gputui: Gputui) -> None:
    assert "stranger" in gputui("help", "words").out
    assert gputui("help", "ls").out == gputui("ls", "--help").out
