"""Sweeps: one command for each combination of parameters, from patterns and ranges."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from math import prod
from string import Formatter
from typing import Any

from msgspec.structs import replace

from gputui.core.parameters import given

from .command_list import LONGEST_COMMAND
from .settings import NO_SETTINGS
from .source import BadInput, Draft, shown
from .values import BadValue

# ---- Command patterns ----


_NUMBER = re.compile(r"[0-9]+")
_PARTS = re.compile(r"[.\[]")


class CommandPattern:
    """Checked when it is made; `fill` makes a command of it."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self._text = text
        self._names = tuple(names)
        self.used: set[str] = set()
        """The names that stand in it."""
        self._pieces = self._parsed(text)
        if "\0" in text:
            raise BadInput("the pattern holds a NUL byte; remove it")
        if not text.strip():
            raise BadInput("the pattern is empty; write a command with {NAME} where values go")

    def fill(self, values: Mapping[str, str]) -> str:
        try:
            command = _joined(self._pieces, values)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
            raise BadInput(f"the pattern {shown(self._text)!r} cannot be filled: {error}") from None
        if len(command.encode("utf-8", "surrogateescape")) > LONGEST_COMMAND:
            raise BadInput(
                f"a command of this pattern is longer than the {LONGEST_COMMAND} bytes it may have; call a script"
            )
        return command

    def _parsed(self, text: str, depth: int = 2) -> list[_Piece]:
        if depth == 0:
            raise BadInput(f"the pattern {shown(self._text)!r} has braces three deep; write {{{{ and }}}} for braces")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise BadInput(
                f"the pattern {shown(self._text)!r} is wrong: {error}; write {{{{ and }}}} for braces"
            ) from None
        return [self._piece(*part, depth) for part in parsed]

    def _piece(self, before: str, field: str | None, spec: str | None, conversion: str | None, depth: int) -> _Piece:
        if field is None:
            return before, None, "", []
        name = _PARTS.split(field, maxsplit=1)[0]
        self._check(name)
        self.used.add(name)
        if conversion not in (None, "r", "s", "a", "q"):
            raise BadInput(f"{{{field}!{conversion}}}: after ! stands q (quoted for the shell), r, s or a")
        return before, field, conversion or "", self._parsed(spec or "", depth - 1) if spec else []

    def _check(self, name: str) -> None:
        if name in self._names:
            return
        if not name or name.isdigit():
            raise BadInput(f"{{{name}}} has no name; write e.g. {{{self._names[0] if self._names else 'lr'}}}")
        from difflib import get_close_matches

        near = get_close_matches(name, self._names, n=1)
        hint = f"did you mean {{{near[0]}}}?" if near else f"give its values: -p {shown(name)} VALUE …"
        raise BadInput(f"{{{shown(name)}}} is not a parameter; {hint}")


def pattern_of(command: str) -> str:
    """The pattern that gives just this command."""
    return command.replace("{", "{{").replace("}", "}}")


def fields_of(pattern: str) -> set[str]:
    """The names in a pattern's braces, known or not; BadInput where the braces are wrong."""
    try:
        fields = [field for _, field, _, _ in Formatter().parse(pattern) if field]
    except ValueError as error:
        raise BadInput(f"the pattern {shown(pattern)!r} is wrong: {error}") from None
    return {_PARTS.split(field, maxsplit=1)[0] for field in fields}


def with_field(pattern: str, name: str) -> str | None:
    """`--lr 0.1` made into `--lr {lr}`; None where the pattern gives no such value."""
    for match in reversed(places := given(pattern, name)):
        start, end = match.span("value")
        pattern = f"{pattern[:start]}{{{name}}}{pattern[end:]}"
    return pattern if places else None


_Piece = tuple[str, str | None, str, list[Any]]
"""The text before a field, the field, its conversion, and the pieces of its format."""


def _joined(pieces: list[_Piece], values: Mapping[str, str]) -> str:
    return "".join(before if field is None else before + _value(field, conversion, spec, values)
                   for before, field, conversion, spec in pieces)  # fmt: skip


def _value(field: str, conversion: str, spec: list[_Piece], values: Mapping[str, str]) -> str:
    value = values[field] if field in values else Formatter().get_field(field, (), values)[0]
    if conversion == "q":
        from shlex import quote

        value = quote(str(value))
    elif conversion:
        value = Formatter().convert_field(value, conversion)
    return format(value, _harmless(_joined(spec, values)))


def _harmless(spec: str) -> str:
    """A width of a billion would be made before anybody could refuse it."""
    if any(len(number) > 6 or int(number) > LONGEST_COMMAND for number in _NUMBER.findall(spec)):
        raise ValueError(f"the width in {spec!r} is too large")
    return spec


# ---- Ranges of parameters ----


MOST_VALUES = 100_000
_STEPS = re.compile(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})(?:\.\.([0-9]{1,15}))?")
_SPREAD = re.compile(r"(lin|log):([^:]+):([^:]+):([0-9]{1,9})")
_EXPECTED = "write 0..9, 0..100..10, lin:0:1:5 or log:1e-5:1e-1:5"


def values_of(written: str) -> tuple[str, ...]:
    """All values of a range, both ends included; BadValue says what is wrong."""
    steps = _STEPS.fullmatch(written)
    if steps:
        return _stepped(written, int(steps[1]), int(steps[2]), int(steps[3] or 1))
    spread = _SPREAD.fullmatch(written)
    if spread:
        return _spread(written, spread[1] == "log", _number(spread[2]), _number(spread[3]), int(spread[4]))
    raise BadValue(f"{written!r} is no range; {_EXPECTED}")


def _stepped(written: str, first: int, last: int, step: int) -> tuple[str, ...]:
    if step == 0:
        raise BadValue(f"{written!r} never gets on; its step must be 1 or more")
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    _check_length(written, len(numbers))
    return tuple(map(str, numbers))


def _spread(written: str, logarithmic: bool, first: float, last: float, number: int) -> tuple[str, ...]:
    if number == 0:
        raise BadValue(f"{written!r} has no values; its last part says how many")
    _check_length(written, number)
    if logarithmic and not (first > 0 and last > 0):
        raise BadValue(f"{written!r}: a logarithmic range needs ends above 0")
    parts = [index / (number - 1) for index in range(number)] if number > 1 else [0.0]
    if logarithmic:
        low, high = math.log10(first), math.log10(last)
        numbers = [10 ** (low + part * (high - low)) for part in parts]
    else:
        numbers = [first + part * (last - first) for part in parts]
    numbers[0] = first
    numbers[-1] = last if number > 1 else first
    return _written(numbers)


def _written(numbers: list[float]) -> tuple[str, ...]:
    """As few digits as tell them apart."""
    words: tuple[str, ...] = ()
    for digits in (6, 9, 12, 17):
        words = tuple(_short(number, digits) for number in numbers)
        if len(set(words)) == len(set(numbers)):
            break
    return words


def _short(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{digits}g}"


def _number(written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    # 1e300 apart is more than any parameter, and would overflow on the way.
    if not abs(number) < 1e300:
        raise BadValue(f"{written!r} is not a number; {_EXPECTED}")
    return number


def _check_length(written: str, length: int) -> None:
    if length > MOST_VALUES:
        raise BadValue(
            f"{written!r} has {length} values, more than the {MOST_VALUES} a range may have; write a shorter one"
        )


# ---- Sweeps ----


MOST_SHUFFLED = 2_000_000
"""Up to here the whole grid is shuffled, as the old tool did; beyond, samples are drawn without making it."""
_BAD_IN_NAMES = frozenset(".[]{}!:")


class Sampling(StrEnum):
    GRID = "grid"
    """In the order of the parameters, the last one fastest."""
    SHUFFLED = "shuffled_grid"


class Sweep:
    """BadInput if the pattern and the parameters do not fit together."""

    def __init__(
        self,
        pattern: str,
        parameters: Mapping[str, Sequence[str]],
        *,
        sampling: Sampling = Sampling.SHUFFLED,
        n_samples: int | None = None,
        seed: int | None = None,
        name: str | None = None,
        outfile: str | None = None,
    ) -> None:
        _check(parameters)
        if n_samples is not None and n_samples < 0:
            raise BadInput(f"{n_samples} samples cannot be drawn; give a number from 0 on")
        self._pattern = CommandPattern(pattern, parameters)
        said = {"name": name, "outfile": outfile}
        self._settings = {key: CommandPattern(text, parameters) for key, text in said.items() if text is not None}
        self.names = tuple(parameters)
        self._values = tuple(tuple(values) for values in parameters.values())
        self._sampling = sampling
        # Chosen now when nobody chose it, so that what was shown before is what is added.
        self._seed = random.SystemRandom().getrandbits(64) if seed is None else seed
        self.grid_size = prod(map(len, self._values))
        self.count = self.grid_size if n_samples is None else min(n_samples, self.grid_size)
        """How many commands it gives."""
        self.unused = tuple(name for name in self.names if name not in self._pattern.used)
        """Parameters that are not in the pattern: the same command comes once for each of their values."""
        used = self._pattern.used.union(*(pattern.used for pattern in self._settings.values()))
        self._told = [name for name in self.names if name in used]
        """A job is told by what it is made of: a parameter that is nowhere in it would tell something untrue."""
        if sampling is Sampling.SHUFFLED and n_samples is None and self.grid_size > MOST_SHUFFLED:
            raise BadInput(f"{self.grid_size} combinations are too many to shuffle; draw some of them (--n-samples)")
        if self.count:
            self._draft(0, 0)

    def __iter__(self) -> Iterator[Draft]:
        for line, index in enumerate(self._order(), start=1):
            yield self._draft(index, line)

    def combinations(self) -> Iterator[dict[str, str]]:
        return map(self._combination, self._order())

    def first(self, number: int) -> list[Draft]:
        """The first commands, of however many."""
        return list(islice(self, max(0, number)))

    def _order(self) -> Iterator[int]:
        """The combinations' numbers in the grid, in the order in which they are wanted."""
        if self._sampling is Sampling.GRID:
            return iter(range(self.count))
        chance = random.Random(self._seed)
        if self.grid_size > MOST_SHUFFLED:
            return iter(chance.sample(range(self.grid_size), self.count))
        order = list(range(self.grid_size))
        chance.shuffle(order)
        return islice(order, self.count)

    def _draft(self, index: int, line: int) -> Draft:
        params = self._combination(index)
        said = {key: pattern.fill(params) for key, pattern in self._settings.items()}
        settings = replace(NO_SETTINGS, **said) if said else NO_SETTINGS
        return Draft(self._pattern.fill(params), line, settings, {name: params[name] for name in self._told})

    def _combination(self, index: int) -> dict[str, str]:
        chosen: list[str] = []
        for values in reversed(self._values):
            index, which = divmod(index, len(values))
            chosen.append(values[which])
        return dict(zip(self.names, reversed(chosen), strict=True))


def range_values(name: str, written: Sequence[str]) -> list[str]:
    """The values of one or more ranges of a parameter."""
    try:
        return [value for text in written for value in values_of(text)]
    except BadValue as bad:
        raise BadInput(f"-r {shown(name)}: {bad}") from None


def _check(parameters: Mapping[str, Sequence[str]]) -> None:
    if not parameters:
        raise BadInput("a sweep needs parameters: -p NAME VALUE … or -r NAME RANGE")
    for name, values in parameters.items():
        if not name or name.isdigit() or not name.isprintable() or _BAD_IN_NAMES & set(name):
            raise BadInput(f"{name!r} is not a name for a parameter; write letters, digits, _ or -")
        if not values:
            raise BadInput(f"-p {name} has no values; write -p {name} VALUE …")
        if any("\0" in value for value in values):
            raise BadInput(f"-p {name}: a value holds a NUL byte; remove it")
