"""Parameters of jobs: parsing them from commands, comparing jobs, and updating them after an edit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.regex import lazy_regex

from .job import Job, JobSpec

# Parsing commands


FLAG = "yes"
"""The value given to an option without an argument."""
MOST_WORDS = 400
DEEPEST = 3

_NOT_PLAIN = lazy_regex(r"""['"\\;&|<>()$`#\n]""")
_TOKEN = lazy_regex(
    r"""(?P<turn>\d*(?:>>|>\||>&|<&|<<<|>|<)|&>>?)|(?P<end>&&|\|\|?|;|&|\n|[()])"""
    r"""|(?P<word>(?:[^\s'"\\;&|<>()$`]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\([^)]*\)|`[^`]*`|\$)+)|(?P<odd>['"`])""",
    re.DOTALL,
)
_PIECE = lazy_regex(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_NAMED = lazy_regex(r"(?:\+{1,2}|--?)?([A-Za-z_][\w.@/:\[\]-]*)=(.*)", re.DOTALL)
_VARIABLE = lazy_regex(r"[A-Za-z_]\w*=")
_NUMBER = lazy_regex(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PROGRAM = lazy_regex(r".*\.(?:py|sh|bash|jl|r|R|lua|pl|m|ipynb|exe|rb|js)")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_KEYWORDS = _set("if then elif else while until do ! {")
_PREPARING = _set(
    """cd source . export set ulimit module conda mamba mkdir echo printf true false : sleep wait exit tee cat test [ [[
    for case trap read kill touch rm cp mv ls head tail grep seq date"""
)
"""Commands whose options are not parameters of the job."""
_SHELLS = _set("bash sh zsh dash")
_INTERPRETERS = {
    "python": "c",
    "pypy": "c",
    "ipython": "c",
    "perl": "e",
    "ruby": "e",
    "node": "e",
    "julia": "e",
    "Rscript": "e",
}
"""For each interpreter, the option after which code follows."""
_WRAPPERS = _set(
    """torchrun accelerate deepspeed srun mpirun mpiexec horovodrun uv poetry pipenv nohup time nice ionice stdbuf env
    xvfb-run apptainer singularity docker timeout taskset numactl sudo exec command jupyter setsid"""
).union(_SHELLS, _INTERPRETERS)


class Arguments(Struct, frozen=True, gc=False):
    """The arguments of a shell command."""

    named: dict[str, str]
    """The unquoted value of each name, in the order of the command."""
    rest: tuple[str, ...]
    """All other words of the command, including wrappers."""


def parse_arguments(command: str) -> Arguments:
    named: dict[str, str] = {}
    rest: list[str] = []
    _read(command, named, rest, 0)
    return Arguments(named, tuple(rest))


def _read(command: str, named: dict[str, str], rest: list[str], depth: int) -> None:
    is_plain = _NOT_PLAIN.search(command) is None
    for words in [command.split(None, MOST_WORDS)[:MOST_WORDS]] if is_plain else _commands(command):
        _simple(words, named, rest, depth)


def _commands(text: str) -> list[list[str]]:
    """Split a command line into simple commands, each a list of words without redirections."""
    commands: list[list[str]] = [[]]
    skips = False
    for token in _TOKEN.finditer(text):
        word = token["word"]
        if token["turn"] is not None:
            skips = True
        elif token["end"] is not None:
            commands.append([])
            skips = False
        elif word is not None:
            if word[0] == "#":
                break
            if not skips and len(commands[-1]) < MOST_WORDS:
                commands[-1].append(_PIECE.sub(_bare, word))
            skips = False
    return commands


def _bare(piece: re.Match[str]) -> str:
    return piece[1] if piece[1] is not None else piece[2] if piece[2] is not None else piece[3]


def _is_variable(word: str) -> bool:
    return _VARIABLE.match(word) is not None


def _assigned(words: list[str], named: dict[str, str]) -> None:
    for word in words:
        name, _, value = word.partition("=")
        _add(named, name, value)


def _simple(words: list[str], named: dict[str, str], rest: list[str], depth: int) -> None:
    keywords = next((number for number, word in enumerate(words) if word not in _KEYWORDS), len(words))
    start = keywords
    while start < len(words) and _is_variable(words[start]):
        start += 1
    rest += words[:keywords]
    _assigned(words[keywords:start], named)
    if start < len(words) and words[start] in _PREPARING:
        rest += [word for word in words[start:] if not _is_variable(word)]
        _assigned([word for word in words[start:] if words[start] == "export" and _is_variable(word)], named)
        return
    begin, holds_code, is_shell = _program(words, start)
    rest += words[start:begin]
    if not holds_code:
        _named(words[begin:], named, rest)
    elif is_shell:
        if depth < DEEPEST:
            _read(words[begin], named, rest, depth + 1)
        rest += words[begin + 1 :]
    else:
        rest.append(words[begin])
        _named(words[begin + 1 :], named, rest)


def _program(words: list[str], start: int) -> tuple[int, bool, bool]:
    """Return the index of the program or code that the words run, whether it is code, and whether it is shell code.

    Wrappers such as `nice` and their options are skipped.
    """
    is_shell, letter = False, ""
    for number, word in enumerate(words[start:], start):
        name = word.rpartition("/")[2].rstrip("0123456789.")
        if number == start and name not in _WRAPPERS:
            break
        before = words[number - 1] if number > start else ""
        if letter and before[:1] == "-" and before[1:2] != "-" and before.endswith(letter):
            return number, True, is_shell
        if before == "-m" or _PROGRAM.fullmatch(word):
            return number, False, False
        if name in _SHELLS or name in _INTERPRETERS:
            is_shell, letter = name in _SHELLS, _INTERPRETERS.get(name, "c")
    return start, False, False


def _named(words: list[str], named: dict[str, str], rest: list[str]) -> None:
    option = ""
    """The preceding option if the next word may be its value, else empty."""
    for word in words:
        if word[:1] == "-" and len(word) > 1 and _NUMBER.fullmatch(word) is None:
            if option:
                _add(named, option, FLAG)
                option = ""
            name, equals, value = word.lstrip("-").partition("=")
            if equals and name:
                _add(named, name, value)
            else:
                option = name
        elif option:
            _add(named, option, word)
            option = ""
        elif "=" in word and (match := _NAMED.fullmatch(word)) is not None:
            _add(named, match[1], match[2])
        else:
            rest.append(word)
    if option:
        _add(named, option, FLAG)


def _add(named: dict[str, str], name: str, value: str) -> None:
    """Add a value. If the name already has a different value, join both with a comma."""
    earlier = named.get(name)
    named[name] = value if earlier is None or earlier == value else f"{earlier},{value}"


def program_of(command: str) -> str:
    """Return the program that a command runs: `train.py`, or `pkg.train` for `python -m pkg.train`."""
    rest = cached_arguments(command).rest
    for before, word in pairwise(("", *rest)):
        if before == "-m" or _PROGRAM.fullmatch(word):
            return word
    return rest[0] if rest else command


# Parameters of jobs


OURS = "GPUTUI"
cached_arguments = lru_cache(maxsize=4096)(parse_arguments)


def parameters_of(spec: JobSpec) -> dict[str, str]:
    """Return all parameters of a job: first those given by its source, then those of its variables and command."""
    named = cached_arguments(spec.command).named
    variables = {name: value for name, value in spec.variables.items() if not name.startswith(OURS)}
    return {**spec.params, **{name: value for name, value in (variables | named).items() if name not in spec.params}}


def common_parameters(jobs: Iterable[Job]) -> dict[str, str]:
    """Return the parameters that all of these jobs have with the same value."""
    common: dict[str, str] | None = None
    for job in jobs:
        common = parameters_of(job.spec) if common is None else params_in_common(common, job.spec)
    return common or {}


def params_in_common(parameters: dict[str, str], spec: JobSpec) -> dict[str, str]:
    """Return the given parameters that have the same value in this job."""
    if not parameters:
        return parameters
    named = parameters_of(spec)
    return {name: value for name, value in parameters.items() if named.get(name) == value}


def params_missing(parameters: dict[str, str], spec: JobSpec) -> dict[str, str]:
    """Return the given parameters that this job lacks or that have another value in it."""
    has = params_in_common(parameters, spec)
    return {name: value for name, value in parameters.items() if name not in has}


# Editing


_VALUE = r"""(?P<value>'[^']*'|"[^"]*"|[^\s;|&()'"]+)"""


def find_values(command: str, name: str) -> list[re.Match[str]]:
    """Find all values of a name: `--lr 0.1`, `--lr=0.1` and `lr=0.1` for `lr`. The group `value` is the value."""
    spelled = _spelled(name)
    # After a space, there may be another option instead of a value. A negative number is a value.
    way = rf"(?<![^\s;|&('\"])(?:-{{0,2}}{spelled}=|-{{1,2}}{spelled}\s+(?!-[^\d.])){_VALUE}"
    return list(re.finditer(way, command))


def remove_values(command: str, name: str) -> str:
    """Remove all values of this name from a command. Options of this name without an argument are removed, too."""
    for match in reversed(find_values(command, name)):
        command = command[: match.start()] + command[match.end() :]
    return re.sub(rf"(?<!\S)-{{1,2}}{_spelled(name)}(?!\S)", "", command)


def _spelled(name: str) -> str:
    return "[-_]".join(map(re.escape, re.split("[-_]", name)))


def value_of(command: str, name: str) -> str | None:
    """Return the value of a name in a command, or None if there is no value or several different ones."""
    values = {_unquoted(match["value"]) for match in find_values(command, name)}
    return values.pop() if len(values) == 1 else None


def _unquoted(written: str) -> str:
    return written[1:-1] if written[0] in "'\"" else written


def with_updated_params(spec: JobSpec, before: JobSpec) -> JobSpec:
    """Return the edited spec with its parameters updated from the command.

    Parameters whose new value is unknown are removed. The job's name is removed if it was not edited and contains an
    outdated value.
    """
    if spec.params != before.params or not before.params or _origins(spec) == _origins(before):
        return spec
    params = {
        name: value for name, old in before.params.items() if (value := _value_now(name, old, spec, before)) is not None
    }
    outdated = {old for name, old in before.params.items() if params.get(name) != old}
    named = spec.name if spec.name != before.name or not _contains_any(spec.name, outdated) else None
    return replace(spec, params=params, name=named)


def _origins(spec: JobSpec) -> tuple[object, ...]:
    """Return the parts of a spec that can contain values of parameters."""
    return spec.command, spec.variables, spec.cwd, spec.task


def _value_now(name: str, old: str, spec: JobSpec, before: JobSpec) -> str | None:
    if value_of(before.command, name) == old:
        return value_of(spec.command, name)
    held = [key for key, value in before.variables.items() if value == old]
    if held and spec.command == before.command:
        return next(iter(now)) if len(now := {spec.variables.get(key) for key in held}) == 1 else None
    return old if _in_its_places(old, spec, before) else None


def _in_its_places(value: str, spec: JobSpec, before: JobSpec) -> bool:
    """Return whether the value is unchanged at the places of the old spec that contain it.

    If no place contains it, return whether nothing was changed that could affect it.
    """
    words, earlier = spec.command.split(), before.command.split()
    places = [number for number, word in enumerate(earlier) if value in word]
    if places:
        return all(number < len(words) and words[number] == earlier[number] for number in places)
    if value in before.cwd:
        return spec.cwd == before.cwd
    same = (spec.command, spec.task) == (before.command, before.task)
    return same and before.variables.items() <= spec.variables.items()


def _contains_any(name: str | None, values: set[str]) -> bool:
    """Return whether the name contains one of the values as a whole number or word: `lr0.1` contains 0.1, but not 0."""
    return name is not None and any(re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.])", name) for value in values)
