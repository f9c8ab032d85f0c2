"""The parsers of all commands: parsing, help and error messages."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from support.sessions import GPUTUI, Gputui, said

from gputui.cli.commands import SUBCOMMANDS, parser_of
from gputui.cli.output import Exit
from gputui.cli.parser import Parser, whole_number

OURS = [
    subcommand for subcommand in SUBCOMMANDS if subcommand not in ("app", "run", "daemon", "report", "demo", "doctor")
]


def a_subcommand(words: str | None = "*", *, signed: bool = False) -> Parser:
    made = Parser("test", "A test.", usage="test", examples="gputui test", signed=signed)
    made.add_argument("words", nargs=words)
    made.add_argument("-n", "--lines", metavar="N", type=whole_number, help="lines")
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
def test_options_and_words_are_parsed(
    words: list[str], lines: int | None, follow: bool, env: list[str], others: list[str]
) -> None:
    options = a_subcommand().parse_args(words)
    assert (options.lines, options.follow, options.env_var, options.words) == (lines, follow, env, others)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--lnes", "3"], "did you mean --lines?"),
        (["--lines"], "needs a value: --lines N"),
        (["-n", "three"], "-n: "),
        (["--follow=yes"], "takes no value"),
        (["-x"], "unknown option -x"),
        (["--line", "3"], "unknown option --line;"),
        (["--follow", "x", "--flow"], "did you mean --follow?"),
    ],
)
def test_an_error_is_one_line_with_advice(words: list[str], sentence: str) -> None:
    with pytest.raises(Exit) as wrong:
        a_subcommand().parse_args(words)
    assert sentence in str(wrong.value)
    assert wrong.value.status == 2


def test_signed_numbers_can_be_arguments() -> None:
    assert a_subcommand(signed=True).parse_args(["-5", "-6,7"]).words == ["-5", "-6,7"]


@pytest.mark.parametrize("subcommand", OURS)
def test_every_subcommand_helps_with_examples(gputui: Gputui, subcommand: str) -> None:
    for spelling in ("--help", "-h"):
        told = gputui(subcommand, spelling)
        assert told.status == 0
        assert told.out.startswith(f"usage: gputui {subcommand}")
        assert "examples:" in told.out
        assert max(map(len, told.out.splitlines())) <= 120


def test_an_unknown_command_is_named_without_asking_for_a_terminal() -> None:
    done = subprocess.run(
        [*GPUTUI, "wrongword"], stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True
    )
    assert done.returncode == 2
    assert "'wrongword' is neither a command nor a file" in said(done)
    assert "terminal" not in done.stderr


def test_help_explains_terms_and_commands(gputui: Gputui) -> None:
    assert "external" in gputui("help", "terms").out == gputui("help", "glossary").out
    assert gputui("help", "ls").out == gputui("ls", "--help").out


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_an_invalid_choice_is_refused_with_the_valid_ones(subcommand: str) -> None:
    for action in parser_of(subcommand)._actions:
        if action.choices is None:
            continue
        words = [action.option_strings[-1], "bogus"] if action.option_strings else ["bogus"]
        with pytest.raises(Exit) as wrong:
            parser_of(subcommand).parse_args(words)
        sentence = str(wrong.value)
        assert sentence.endswith("'bogus' is not one of " + ", ".join(map(str, action.choices)))
        assert "<" not in sentence


def test_a_misspelled_choice_suggests_the_nearest() -> None:
    with pytest.raises(Exit, match=r"did you mean failed\?"):
        parser_of("ls").parse_args(["--state", "faild"])


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_every_prefix_of_a_flag_is_accepted_or_refused_in_one_line(subcommand: str) -> None:
    flags = [flag for flag in parser_of(subcommand)._option_string_actions if flag.startswith("--")]
    for start in sorted({flag[:length] for flag in flags for length in range(3, len(flag))} - set(flags)):
        sentence = refusal(subcommand, f"{start}=x")
        assert "\n" not in sentence
        assert "usage:" not in sentence
        assert len(sentence) < 300


def refusal(subcommand: str, *words: str) -> str:
    """The error message; empty if the words are valid."""
    try:
        parser_of(subcommand).parse_args(list(words))
    except Exit as wrong:
        return str(wrong)
    return ""


def test_an_ambiguous_prefix_names_the_flags_but_no_synonyms() -> None:
    with pytest.raises(Exit, match=re.escape("--gp is ambiguous: --gpus or --gpu-file? (see gputui run --help)")):
        parser_of("run").parse_args(["--gp", "1"])
    assert parser_of("run").parse_args(["--tas", "a.B"]).task == "a.B", "hidden flags do not count"


def may_ask(subcommand: str) -> bool:
    names = vars(import_module(f"gputui.cli.{SUBCOMMANDS[subcommand]}"))
    return subcommand in ("app", "run", "stop") or not {"confirm", "ask_yes_no", "ask_key"}.isdisjoint(names)


@pytest.mark.parametrize("subcommand", [subcommand for subcommand in SUBCOMMANDS if may_ask(subcommand)])
def test_every_subcommand_that_may_ask_takes_yes(subcommand: str) -> None:
    words = {"edit": ["1"], "priority": ["50", "1"], "move": ["1"]}.get(subcommand, [])
    for spelling in ("-y", "--yes"):
        assert parser_of(subcommand).parse_args([*words, spelling]).yes is True


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
def test_a_flag_of_the_jobs_command_suggests_the_two_dashes(words: list[str], meant: str) -> None:
    with pytest.raises(Exit) as wrong:
        parser_of("add").parse_args(words)
    assert str(wrong.value).endswith(f"if it is part of the command, write: {meant}")


def test_a_misspelled_flag_before_the_command_suggests_the_nearest() -> None:
    with pytest.raises(Exit, match=r"add: unknown option --gpsu; did you mean --gpus\?"):
        parser_of("add").parse_args(["--gpsu", "2", "python", "train.py"])


def test_a_sweep_pattern_of_several_words_needs_quotes(gputui: Gputui) -> None:
    for words in (["python", "train.py"], ["python", "train.py", "--lr", "{lr}"]):
        told = gputui("sweep", *words, "-p", "lr", "1", "2")
        assert told.err.endswith(f"write the pattern in quotes: gputui sweep '{' '.join(words)}' …\n")


def test_missing_and_unexpected_arguments_show_the_usage(gputui: Gputui) -> None:
    assert gputui("show").err == "gputui: missing JOB; usage: gputui show JOB [--json] [--env]\n"
    assert "unexpected '2'; usage: gputui show JOB" in gputui("show", "1", "2").err
    assert gputui("priority").err == "gputui: missing N|+N|-N; usage: gputui priority N|+N|-N JOBS …\n"
    Path("jobs.txt").touch()
    assert gputui("jobs.tx").err == "gputui: 'jobs.tx' is neither a command nor a file: did you mean gputui jobs.txt?\n"
    assert "did you mean --output-dir?" in gputui("run", "--session", "x").err


def test_command_names_of_other_tools_suggest_ours(gputui: Gputui) -> None:
    assert gputui("remove", "--help").out == gputui("rm", "--help").out
    assert gputui("help", "remove").out == gputui("rm", "--help").out
    for theirs, ours in (
        ("status", "ls"),
        ("list", "ls"),
        ("cancel", "kill"),
        ("retry", "rerun"),
        ("delete", "rm"),
        ("resme", "resume"),
    ):
        assert f"did you mean gputui {ours}?" in gputui(theirs).err
