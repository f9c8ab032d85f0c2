"""`gputui sweep`: a command for each combination of parameters, printed as simple_hypersearch did, or added."""

from __future__ import annotations

import os
import shlex
import sys

from msgspec.structs import replace

from gputui.cli.command import carry_out
from gputui.cli.job_flags import add_job_flags, first_said, job_settings
from gputui.cli.output import Exit, out, refuse, say
from gputui.cli.parser import Options, Parser, checked
from gputui.core.amounts import counted
from gputui.sources.source import BadInput, Draft
from gputui.sources.sweep import Sampling, Sweep, range_values
from gputui.sources.values import count

from .add import add_all

Parameters = dict[str, list[str]]

MODES = ("shuffled_grid", "grid")
ABBREVIATED = ("--sampling-mode", "--n-samples", "--seed", "--parameter")
PARAMETERS = ("-p", "--parameter", "-r", "--range")


def _whole(written: str) -> int:
    return count(written, highest=10**15)


def _seed(written: str) -> int:
    return count(written, lowest=-(10**17), highest=10**17)


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Prints a command for each combination of parameters, in random order, or adds them as jobs. The pattern "
        "follows Python's format rules: {lr} is replaced by a value as it is, {lr!q} by the value quoted for the "
        "shell, {{ and }} are braces. The same seed gives the same lines. Without --add nothing is added, and flags "
        "of jobs are refused; --name and --outfile are patterns too: 'lr{lr}', 'logs/{lr}.log'.",
        usage="sweep PATTERN -p NAME VALUE … [-r NAME RANGE …] [--n-samples N] [--seed S] [--add [options]]",
        examples="gputui sweep 'python train.py --lr {lr} --bs {bs}' -p lr 0.1 0.01 -p bs 32 64 | gputui run\n"
        "gputui sweep 'python train.py --lr {lr}' -r lr log:1e-5:1e-1:5 --add --project lr\n"
        "gputui sweep 'python eval.py --seed {seed}' -r seed 0..9 --sampling-mode grid --add\n"
        "gputui sweep 'train {lr} {bs}' --n-samples 5 --seed 1 -p lr 1 2 3 -p bs a b c",
    )
    verb_parser.command_hint = _in_quotes
    verb_parser.add_argument(
        "pattern", nargs="?", metavar="PATTERN", help="the command, with a {name} for each parameter"
    )
    # Taken out before, for their values may begin with a dash: here for the help and for shells.
    verb_parser.add_argument(
        "-p", "--parameter", metavar="NAME VALUE …", help="a parameter and its values, taken as they are"
    )
    verb_parser.add_argument(
        "-r", "--range", metavar="NAME RANGE …", help="0..9 · 0..100..10 · lin:0:1:5 · log:1e-5:1e-1:5"
    )
    verb_parser.add_argument(
        "--sampling-mode", choices=MODES, metavar="MODE", help="shuffled_grid (default) or grid, in order"
    )
    verb_parser.add_argument("--n-samples", type=checked(_whole), metavar="N", help="only N of them, chosen at random")
    verb_parser.add_argument(
        "--seed", type=checked(_seed), metavar="S", help="makes the order, and the choice of samples, repeatable"
    )
    verb_parser.switch("--add", help="add the jobs instead of printing them; prints their ids")
    add_job_flags(verb_parser)
    verb_parser.add_common("no_start", "session")
    return verb_parser


def _in_quotes(_: list[str], pattern: list[str]) -> str:
    return f"write the pattern in quotes: gputui sweep {shlex.quote(' '.join(pattern))} …"


def main(verb: str, words: list[str]) -> int:
    parameters: Parameters = {}
    ranges: Parameters = {}
    try:
        others = _without_parameters(_spelled_out(words), parameters, ranges)
    except Exit as leaving:
        say(str(leaving))
        return leaving.status
    return carry_out(parser(verb), others, lambda options: _work(options, parameters, ranges))


def _spelled_out(words: list[str]) -> list[str]:
    """The flags of simple_hypersearch could be cut short, and still can."""
    rest = words.index("--") if "--" in words else len(words)
    return [_full(word) for word in words[:rest]] + words[rest:]


def _full(word: str) -> str:
    name, equals, value = word.partition("=")
    meant = [flag for flag in ABBREVIATED if flag.startswith(name)] if name.startswith("--") and len(name) > 2 else []
    return f"{meant[0]}{equals}{value}" if len(meant) == 1 else word


def _without_parameters(words: list[str], parameters: Parameters, ranges: Parameters) -> list[str]:
    """Takes out `-p NAME VALUES` and `-r NAME RANGES`; the last values of a name count, in its first place."""
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*others, word, *rest]
        if word not in PARAMETERS:
            others.append(word)
            continue
        parameter_words: list[str] = []
        while rest and _is_value(rest[0]):
            parameter_words.append(rest.pop(0))
        if len(parameter_words) < 2:
            refuse(f"{' '.join([word, *parameter_words])} has no values; write {word} NAME VALUE …")
        name, *values = parameter_words
        parameters[name] = values
        ranges.pop(name, None)
        if word in ("-r", "--range"):
            ranges[name] = values
    return others


def _is_value(word: str) -> bool:
    """A number below zero is one, and so is a lonely dash; anything else that begins with a dash is a flag."""
    return len(word) < 2 or word[0] != "-" or word[1].isdigit() or word[1] == "."


def _work(options: Options, parameters: Parameters, ranges: Parameters) -> int:
    if options.pattern is None:
        refuse("the pattern is missing; write it before -p and -r, or behind --")
    sweep = _sweep(options, parameters, ranges)
    if sweep.unused:
        say(f"{', '.join(sweep.unused)} is not in the pattern: equal commands come for each of its values")
    if options.add:
        return _add(options, sweep)
    useless = first_said(options) or ("--no-start" if options.no_start else "--session" if options.session else None)
    if useless is not None:
        refuse(f"{useless} is for jobs that are added; give --add too")
    if "\n" in options.pattern:
        say("the pattern has several lines: in a pipe each of them is a job; --add keeps them together")
    _print(sweep)
    return 0


def _sweep(options: Options, parameters: Parameters, ranges: Parameters) -> Sweep:
    try:
        return Sweep(
            options.pattern,
            {
                name: range_values(name, ranges[name]) if name in ranges else values
                for name, values in parameters.items()
            },
            sampling=Sampling(options.sampling_mode or Sampling.SHUFFLED),
            n_samples=options.n_samples,
            seed=options.seed,
            name=options.name,
            outfile=options.outfile,
        )
    except BadInput as error:
        refuse(str(error))


def _add(options: Options, sweep: Sweep) -> int:
    common = replace(job_settings(options), name=None, outfile=None)
    ids = add_all(options, map(_checked, sweep), common, "sweep", group=f"sweep {' '.join(sweep.names)}")
    for job in ids:
        out(str(job))
    say(f"{counted(len(ids), 'job', 'jobs')} added")
    return 0


def _checked(draft: Draft) -> Draft:
    try:
        draft.command.encode()
    except UnicodeEncodeError:
        refuse(f"the command {draft.command!a} is not UTF-8; write the pattern and its values in UTF-8")
    return draft


def _print(sweep: Sweep) -> None:
    """A reader who has seen enough ends the making too; a terminal is shown harmless text."""
    if sys.stdout.isatty():
        from gputui.logs.plain import plain

        for draft in sweep:
            print(plain(draft.command))
        return
    for draft in sweep:
        sys.stdout.buffer.write(os.fsencode(draft.command) + b"\n")
    sys.stdout.buffer.flush()
