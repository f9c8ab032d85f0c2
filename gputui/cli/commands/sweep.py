"""`gputui sweep`: print or add one command for each combination of parameters, as simple_hypersearch does."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

from msgspec.structs import replace

from gputui.cli.output import JSON, print_json, refuse, say, writing_output
from gputui.cli.parser import Options, Parser, argument_type
from gputui.logs.plain import plain
from gputui.sources.settings import SETTINGS
from gputui.sources.source import Draft
from gputui.sources.sweep import Sampling, Sweep, range_values
from gputui.sources.values import count

from .add import Swept, add_all, add_job_flags, job_settings, print_added

MODES = ("shuffled_grid", "grid")
ABBREVIATED = ("--sampling-mode", "--n-samples", "--seed", "--parameter")
SEPARATOR = "\0"
"""Separator of joined words. It cannot occur in an argument."""
PARAMETERS = ("-p", "--parameter", "-r", "--range")


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Print a command for each combination of parameters, in random order, or add them as jobs. The "
        "pattern uses Python's format syntax: {lr} inserts a value as is, {lr!q} quotes it for the "
        "shell, {{ and }} are literal braces. The same seed gives the same order. Job options need "
        "--add; --name, --outfile and --key are patterns too: 'lr{lr}', 'logs/{lr}.log'. If --key "
        "has no braces, the parameters are appended to it, so that adding the same sweep again adds no duplicates.",
        usage="sweep PATTERN -p NAME VALUE … [-r NAME RANGE …] [--n-samples N] [--seed S] [--add [options]]",
        examples="gputui sweep 'python train.py --lr {lr} --bs {bs}' -p lr 0.1 0.01 -p bs 32 64 | gputui run\n"
        "gputui sweep 'python train.py --lr {lr}' -r lr log:1e-5:1e-1:5 --add --project lr\n"
        "gputui sweep 'python train.py --lr {lr}' -p lr 0.1 0.01 --add --key night --json\n"
        "gputui sweep 'python eval.py --seed {seed}' -r seed 0..9 --sampling-mode grid --add\n"
        "gputui sweep 'train {lr} {bs}' --n-samples 5 --seed 1 -p lr 1 2 3 -p bs a b c",
        prepare=_prepare,
    )
    parser.command_hint = lambda _, pattern: (
        f"write the pattern in quotes: gputui sweep {shlex.quote(' '.join(pattern))} …"
    )
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="command with a {name} for each parameter")
    parameter: dict[str, Any] = {"dest": "parameters", "action": "append", "default": []}
    values, ranges = "a parameter and its literal values", "0..9 · 0..100..10 · lin:0:1:5 · log:1e-5:1e-1:5"
    parser.add_argument("-p", "--parameter", type=_values, metavar="NAME VALUE …", help=values, **parameter)
    parser.add_argument("-r", "--range", type=_ranges, metavar="NAME RANGE …", help=ranges, **parameter)
    parser.add_argument(
        "--sampling-mode", choices=MODES, metavar="MODE", help="shuffled_grid (default) or grid, in order"
    )
    sample_count = argument_type(lambda written: count(written, highest=10**15))
    parser.add_argument("--n-samples", type=sample_count, metavar="N", help="at most N combinations, chosen at random")
    seed = argument_type(lambda written: count(written, lowest=-(10**17), highest=10**17))
    parser.add_argument("--seed", type=seed, metavar="S", help="reproducible order and choice")
    parser.switch("--add", help="add the jobs instead of printing them; print their ids")
    add_job_flags(parser)
    parser.add_common("dry_run", "json", "no_start", "session")
    return parser


def _prepare(words: list[str]) -> list[str]:
    """Join each `-p NAME VALUE …` into one word, and expand the abbreviations that simple_hypersearch allows."""
    end = words.index("--") if "--" in words else len(words)
    parameters: list[str] = []
    others: list[str] = []
    values_follow = False
    for word in map(_expand, words[:end]):
        if word in PARAMETERS:
            parameters.append(f"{word}=")
            values_follow = True
        elif values_follow and _is_value(word):
            parameters[-1] += SEPARATOR + word
        else:
            others.append(word)
            values_follow = False
    return [*parameters, *others, *words[end:]]


def _expand(word: str) -> str:
    name, equals, value = word.partition("=")
    flags = [flag for flag in ABBREVIATED if flag.startswith(name)] if name.startswith("--") and len(name) > 2 else []
    return f"{flags[0]}{equals}{value}" if len(flags) == 1 else word


def _is_value(word: str) -> bool:
    """Return whether a word is a value rather than a flag. Negative numbers and a single dash are values."""
    return len(word) < 2 or word[0] != "-" or word[1].isdigit() or word[1] == "."


def _values(written: str) -> tuple[str, list[str]]:
    _, *words = written.split(SEPARATOR)
    if len(words) < 2:
        refuse(f"-p {' '.join(words)} has no values; use -p NAME VALUE …")
    return words[0], words[1:]


def _ranges(written: str) -> tuple[str, list[str]]:
    name, ranges = _values(written)
    return name, range_values(name, ranges)


def work(options: Options) -> int:
    if options.pattern is None:
        refuse("missing pattern; put it before -p and -r, or after --")
    sweep = Sweep(
        options.pattern,
        dict(options.parameters),
        sampling=Sampling(options.sampling_mode or Sampling.SHUFFLED),
        n_samples=options.n_samples,
        seed=options.seed,
        name=options.name,
        outfile=options.outfile,
        key=options.key,
    )
    if sweep.unused:
        say(f"{', '.join(sweep.unused)} is not in the pattern: the same command is repeated for each value")
    if options.add:
        return _add(options, sweep)
    flags = {f"--{key.replace('_', '-')}": getattr(options, setting.field) for key, setting in SETTINGS.items()}
    flags |= {"--dry-run": options.dry_run, "--no-start": options.no_start, "--session": options.session}
    unused = next((flag for flag, value in flags.items() if value), None)
    if unused is not None:
        refuse(f"{unused} needs --add")
    if "\n" in options.pattern:
        say("the pattern has several lines: in a pipe, each line becomes a job; --add makes them one job")
    _print(sweep)
    return 0


def _add(options: Options, sweep: Sweep) -> int:
    common = replace(job_settings(options), name=None, outfile=None, key=None)
    group = f"sweep {' '.join(sweep.names)}"
    return print_added(options, *add_all(options, map(_checked, sweep), common, "sweep", group=group))


def _checked(draft: Draft) -> Draft:
    try:
        draft.command.encode()
    except UnicodeEncodeError:
        refuse(f"the command {draft.command!a} is not valid UTF-8")
    return draft


def _print(sweep: Sweep) -> None:
    if JSON.on:
        print_json(Swept(commands=[draft.command for draft in sweep]))
        return
    if sys.stdout.isatty():
        for draft in sweep:
            print(plain(draft.command))
        return
    with writing_output():
        for draft in sweep:
            sys.stdout.buffer.write(os.fsencode(draft.command) + b"\n")
        sys.stdout.buffer.flush()
