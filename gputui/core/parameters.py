"""Parameters in commands: options and name=value words, and short names for jobs made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from .job import JobSpec

# ---- What a command says under a name ----


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


# ---- Parameters follow the command ----


_VALUE = r"""(?P<value>'[^']*'|"[^"]*"|[^\s;|&()'"]+)"""


def given(command: str, name: str) -> list[re.Match[str]]:
    """Every `--lr 0.1`, `--lr=0.1` and `lr=0.1` of this name; the group `value` is what is given."""
    spelled = _spelled(name)
    # After a blank an option may follow instead of a value; a number below zero is a value.
    way = rf"(?<![^\s;|&('\"])(?:-{{0,2}}{spelled}=|-{{1,2}}{spelled}\s+(?!-[^\d.])){_VALUE}"
    return list(re.finditer(way, command))


def without(command: str, name: str) -> str:
    """The command less what it gives under this name, also an option that is just there."""
    for match in reversed(given(command, name)):
        command = command[: match.start()] + command[match.end() :]
    return re.sub(rf"(?<!\S)-{{1,2}}{_spelled(name)}(?!\S)", "", command)


def _spelled(name: str) -> str:
    return "[-_]".join(map(re.escape, re.split("[-_]", name)))


def value_of(command: str, name: str) -> str | None:
    """The one value that a command gives to a name; None: none, or several that differ."""
    values = {_unquoted(match["value"]) for match in given(command, name)}
    return values.pop() if len(values) == 1 else None


def _unquoted(written: str) -> str:
    return written[1:-1] if written[0] in "'\"" else written


def following(spec: JobSpec, before: JobSpec) -> JobSpec:
    """`before` as a person changed it: parameters that are no longer what runs are read anew, or go.

    So does a name that was left as it was and tells such a value.
    """
    if spec.params != before.params or not before.params or _told_by(spec) == _told_by(before):
        return spec
    params = {
        name: value for name, old in before.params.items() if (value := _value_now(name, old, spec, before)) is not None
    }
    untrue = {old for name, old in before.params.items() if params.get(name) != old}
    named = spec.name if spec.name != before.name or not _tells(spec.name, untrue) else None
    return replace(spec, params=params, name=named)


def _told_by(spec: JobSpec) -> tuple[object, ...]:
    """All that a parameter can come to a job by."""
    return spec.command, spec.variables, spec.cwd, spec.task


def _value_now(name: str, old: str, spec: JobSpec, before: JobSpec) -> str | None:
    if value_of(before.command, name) == old:
        return value_of(spec.command, name)
    held = [key for key, value in before.variables.items() if value == old]
    if held and spec.command == before.command:
        return next(iter(now)) if len(now := {spec.variables.get(key) for key in held}) == 1 else None
    return old if _in_its_places(old, spec, before) else None


def _in_its_places(value: str, spec: JobSpec, before: JobSpec) -> bool:
    """Whatever held the value holds it still; one that nothing shows goes with any change of what it came by."""
    words, earlier = spec.command.split(), before.command.split()
    places = [number for number, word in enumerate(earlier) if value in word]
    if places:
        return all(number < len(words) and words[number] == earlier[number] for number in places)
    if value in before.cwd:
        return spec.cwd == before.cwd
    same = (spec.command, spec.task) == (before.command, before.task)
    return same and before.variables.items() <= spec.variables.items()


def _tells(name: str | None, values: set[str]) -> bool:
    """`lr0.1` tells 0.1, and not 0."""
    return name is not None and any(re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.])", name) for value in values)


# ---- Short names for jobs ----


LONGEST = 200
"""Words of a command that are looked at; what differs further on is not worth a name."""


class Pattern:
    """What the commands of one group have in common; learns and forgets one command after the other."""

    __slots__ = ("_differing", "_first", "_heads", "_like_first", "_of_other_length", "_tails", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []
        self._like_first = 0
        """Commands that are just the one that all others are compared with."""
        self._differing: list[int] = []
        """Per word of the first: in how many commands of its length it is another."""
        self._of_other_length = 0
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        """How many commands are like the first in just so many words at this end."""

    def learn(self, command: str) -> bool:
        """True if names given so far may have changed."""
        words = _words(command)
        self.count += 1
        if self.count == 1:
            self._first, self._differing = words, [0] * len(words)
        changed = self._compare(words, 1)
        return changed or self.count <= 2

    def forget(self, command: str) -> bool:
        """The same for a command that is no longer there."""
        self.count -= 1
        changed = self._compare(_words(command), -1)
        return changed or self.count < 2

    @property
    def stale(self) -> bool:
        """The command that all were compared with is gone: only learning the rest again tells what they share."""
        return self.count > 0 and self._like_first == 0

    def _compare(self, words: list[str], by: int) -> bool:
        """Counts in what this command differs from the first; True if that changes what all have in common."""
        first = self._first
        if words == first:
            self._like_first += by
            return False
        changed = _count(self._heads, _alike(first, words), by)
        changed |= _count(self._tails, _alike(first[::-1], words[::-1]), by)
        if len(words) != len(first):
            self._of_other_length += by
            return changed or self._of_other_length <= 1
        for number, (word, other) in enumerate(zip(first, words, strict=True)):
            if word != other:
                self._differing[number] += by
                changed |= self._differing[number] <= 1
        return changed

    @property
    def _head(self) -> int:
        return min(self._heads, default=len(self._first))

    @property
    def _tail(self) -> int:
        return min(self._tails, default=len(self._first))

    @property
    def common(self) -> str:
        """The words before the first that differs: the title over a list of names."""
        return " ".join(self._first[: self._head])

    @property
    def differs(self) -> bool:
        """Not all commands are the first one."""
        return self.count > self._like_first

    def name(self, command: str) -> str:
        """The words of this command that tell it from the others; all of it when nothing does."""
        words = _words(command)
        if self.count < 2:
            return " ".join(words)
        if not self._of_other_length and len(words) == len(self._first):
            differing = [number for number, others in enumerate(self._differing) if others]
        else:
            end = len(words) - min(self._tail, max(0, len(words) - self._head))
            differing = list(range(min(self._head, len(words)), end))
        return " ".join(_told(words, differing)) or " ".join(words)


def _words(command: str) -> list[str]:
    return command.split(maxsplit=LONGEST)[:LONGEST]


def _alike(first: list[str], other: list[str]) -> int:
    """How many words at the beginning are the same."""
    limit = min(len(first), len(other))
    return next((number for number in range(limit) if first[number] != other[number]), limit)


def _count(counts: dict[int, int], key: int, by: int) -> bool:
    """True if the key came or went."""
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]
    return counts.get(key, 0) == max(0, by)


def _told(words: list[str], differing: list[int]) -> Iterable[str]:
    """`--lr 0.1` and `--lr=0.1` are both told as `lr=0.1`."""
    for number in differing:
        word, before = words[number], words[number - 1] if number else ""
        if _is_option(word):
            if number + 1 not in differing or not _is_value_of(word, words[number + 1]):
                yield word.lstrip("-") if word.startswith("--") else word
        elif _is_value_of(before, word):
            yield f"{before.lstrip('-')}={word}"
        else:
            yield word


def _is_option(word: str) -> bool:
    return word.startswith("-") and not _is_number(word)


def _is_value_of(option: str, word: str) -> bool:
    """What is quoted after an option is text of its own, as in `python -c "…"`."""
    return _is_option(option) and "=" not in option and not _is_option(word) and word[0] not in "\"'"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
