"""One parser per verb: it reads, it helps, it completes."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from support.calling import Gputui
from support.sessions import GPUTUI, said

from gputui.cli.output import Exit
from gputui.cli.parser import Parser, whole
from gputui.cli.top import HELP
from gputui.cli.verbs import VERBS, parser_of

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
    assert "'wrongword' is neither a command nor a file" in said(done)
    assert "terminal" not in done.stderr


def test_the_words_of_a_newcomer_and_of_one_verb_are_explained(gputui: Gputui) -> None:
    assert "stranger" in gputui("help", "words").out
    assert gputui("help", "ls").out == gputui("ls", "--help").out


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_with_choices_refuses_another_value_by_naming_them(verb: str) -> None:
    for action in parser_of(verb)._actions:
        if action.choices is None:
            continue
        words = [action.option_strings[-1], "bogus"] if action.option_strings else ["bogus"]
        with pytest.raises(Exit) as wrong:
            parser_of(verb).parse_args(words)
        sentence = str(wrong.value)
        assert sentence.endswith("'bogus' is not one of " + ", ".join(map(str, action.choices)))
        assert "<" not in sentence


def test_a_choice_with_a_slip_names_the_nearest() -> None:
    with pytest.raises(Exit, match=r"did you mean failed\?"):
        parser_of("ls").parse_args(["--state", "faild"])


@pytest.mark.parametrize("verb", VERBS)
def test_every_beginning_of_a_flag_is_read_or_refused_in_one_sentence(verb: str) -> None:
    flags = [flag for flag in parser_of(verb)._option_string_actions if flag.startswith("--")]
    for start in sorted({flag[:length] for flag in flags for length in range(3, len(flag))} - set(flags)):
        sentence = refusal(verb, f"{start}=x")
        assert "\n" not in sentence
        assert "usage:" not in sentence
        assert len(sentence) < 300


def refusal(verb: str, *words: str) -> str:
    """Empty: they are read."""
    try:
        parser_of(verb).parse_args(list(words))
    except Exit as wrong:
        return str(wrong)
    return ""


def test_an_ambiguous_beginning_names_the_flags_and_two_names_of_one_flag_are_not_ambiguous() -> None:
    with pytest.raises(Exit, match=re.escape("--gp is ambiguous: --gpus or --gpu-file? (see gputui run --help)")):
        parser_of("run").parse_args(["--gp", "1"])
    assert parser_of("run").parse_args(["--tas", "a.B"]).task == "a.B", "hidden flags do not count"


def may_ask(verb: str) -> bool:
    """Its module can ask, or it is one of those that ask from deeper down."""
    names = vars(import_module(f"gputui.cli.{VERBS[verb]}"))
    return verb in ("app", "run", "stop") or not {"confirm", "agreed", "ask_one_key"}.isdisjoint(names)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if may_ask(verb)])
def test_every_verb_that_may_ask_takes_yes(verb: str) -> None:
    words = {"edit": ["1"], "priority": ["50", "1"], "move": ["1"]}.get(verb, [])
    for spelling in ("-y", "--yes"):
        assert parser_of(verb).parse_args([*words, spelling]).yes is True


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["python", "train.py", "--lr", "0.1"], "gputui add -- python train.py --lr 0.1"),
        (["python", "-m", "train"], "gputui add -- python -m train"),
        (
            ["--gpus", "2", "--name=x y", "python", "a b.py", "--lr=1"],
            "gputui add --gpus 2 '--name=x y' -- python 'a b.py' --lr=1",
        ),
        (["--urgent", "torchrun", "--n_proc=2", "t.py"], "gputui add --urgent -- torchrun --n_proc=2 t.py"),
    ],
)
def test_a_flag_of_the_command_without_the_dashes_before_it_is_told_where_they_go(words: list[str], meant: str) -> None:
    with pytest.raises(Exit) as wrong:
        parser_of("add").parse_args(words)
    assert str(wrong.value).endswith(f"if it is part of the command, write: {meant}")


def test_a_slip_in_a_flag_before_the_command_still_names_the_nearest() -> None:
    with pytest.raises(Exit, match=r"add has no --gpsu; did you mean --gpus\?"):
        parser_of("add").parse_args(["--gpsu", "2", "python", "train.py"])


def test_a_sweep_of_several_words_is_told_to_quote_its_pattern(gputui: Gputui) -> None:
    for words in (["python", "train.py"], ["python", "train.py", "--lr", "{lr}"]):
        told = gputui("sweep", *words, "-p", "lr", "1", "2")
        assert told.err.endswith(f"write the pattern in quotes: gputui sweep '{' '.join(words)}' …\n")


def test_what_is_missing_is_named_and_a_file_with_a_slip(gputui: Gputui) -> None:
    assert gputui("show").err == "gputui: JOB is missing; usage: gputui show JOB [--json] [--env]\n"
    assert gputui("priority").err == "gputui: N|+N|-N is missing; usage: gputui priority N|+N|-N JOBS …\n"
    Path("jobs.txt").touch()
    assert gputui("jobs.tx").err == "gputui: 'jobs.tx' is neither a command nor a file: did you mean gputui jobs.txt?\n"
    assert "did you mean --output-dir?" in gputui("run", "--session", "x").err


def test_remove_is_rm_and_the_words_of_other_tools_name_ours(gputui: Gputui) -> None:
    assert gputui("remove", "--help").out == gputui("rm", "--help").out
    assert gputui("help", "remove").out == gputui("rm", "--help").out
    for theirs, ours in (("status", "ls"), ("list", "ls"), ("cancel", "kill"), ("retry", "rerun"), ("delete", "rm")):
        assert f"did you mean gputui {ours}?" in gputui(theirs).err
