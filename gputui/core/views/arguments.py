"""What a command says under a name: options, `name=value` words, flags and variables before it. Pure.

Wrappers (`python`, `torchrun --nproc …`, `bash -c`, `cd x &&`), redirections and what a pipe leads to say nothing of a
job. What stands under no name is the rest.
"""

from __future__ import annotations

import re

from msgspec import Struct

__all__ = ["FLAG", "Arguments", "arguments_of"]

FLAG = "yes"
"""The value of an option that is just there."""
MOST_WORDS = 400
DEEPEST = 3

_NOT_PLAIN = re.compile(r"""['"\\;&|<>()$`#\n]""")
_TOKEN = re.compile(
    r"""(?P<turn>\d*(?:>>|>\||>&|<&|<<<|>|<)|&>>?)|(?P<end>&&|\|\|?|;|&|\n|[()])"""
    r"""|(?P<word>(?:[^\s'"\\;&|<>()$`]|'[^']*'|"(?:[^"\\]|\\.)*"|\\.|\$\([^)]*\)|`[^`]*`|\$)+)|(?P<odd>['"`])""",
    re.DOTALL,
)
_PIECE = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_NAMED = re.compile(r"(?:\+{1,2}|--?)?([A-Za-z_][\w.@/:\[\]-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PROGRAM = re.compile(r".*\.(?:py|sh|bash|jl|r|R|lua|pl|m|ipynb|exe|rb|js)")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PREPARING = _set("cd source . export set ulimit module conda mamba mkdir echo true sleep wait exit tee cat")
_SHELLS = _set("bash sh zsh dash")
_WRAPPERS = _set(
    """python pypy torchrun accelerate deepspeed srun mpirun mpiexec horovodrun uv poetry pipenv nohup time nice ionice
    stdbuf env xvfb-run apptainer singularity docker timeout taskset numactl bash sh zsh dash sudo exec command ipython
    jupyter julia Rscript setsid"""
)


class Arguments(Struct, frozen=True, gc=False):
    named: dict[str, str]
    """In the order of the command, as they were written, without quotes."""
    rest: tuple[str, ...]
    """All other words of it, wrappers too."""


def arguments_of(command: str) -> Arguments:
    named: dict[str, str] = {}
    rest: list[str] = []
    _read(command, named, rest, 0)
    return Arguments(named, tuple(rest))


def _read(command: str, named: dict[str, str], rest: list[str], depth: int) -> None:
    if _NOT_PLAIN.search(command) is None:
        _simple(command.split(None, MOST_WORDS)[:MOST_WORDS], named, rest, depth)
        return
    for words in _commands(command):
        if words and words[0] in _PREPARING:
            rest += [word for word in words if not _is_variable(word)]
            _assigned([word for word in words if words[0] == "export" and _is_variable(word)], named)
        else:
            _simple(words, named, rest, depth)


def _commands(text: str) -> list[list[str]]:
    """The words of each simple command; what a redirection names is left out."""
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
    start = 0
    while start < len(words) and _is_variable(words[start]):
        start += 1
    if start:
        _assigned(words[:start], named)
    begin = _program(words, start)
    rest += words[start:begin]
    if begin < len(words) and begin > start and words[begin - 1].startswith("-") and words[begin - 1].endswith("c"):
        if depth < DEEPEST:
            _read(words[begin], named, rest, depth + 1)
        rest += words[begin + 1 :]
        return
    _named(words[begin:], named, rest)


def _program(words: list[str], start: int) -> int:
    """Where a command's own words begin: behind wrappers and their options, at the program or what `-c` gives."""
    if start >= len(words) or words[start].rpartition("/")[2].rstrip("0123456789.") not in _WRAPPERS:
        return start
    is_shell = words[start].rpartition("/")[2] in _SHELLS
    for number in range(start + 1, len(words)):
        word = words[number]
        if _PROGRAM.fullmatch(word):
            return number
        before = words[number - 1]
        if before == "-m" or (is_shell and before[0] == "-" and before.endswith("c")):
            return number
        if word in _SHELLS:
            return _program(words, number)
    return start


def _named(words: list[str], named: dict[str, str], rest: list[str]) -> None:
    option = ""
    """The last one that may still take a value."""
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
    """One that is given twice has both values."""
    earlier = named.get(name)
    named[name] = value if earlier is None or earlier == value else f"{earlier},{value}"
