"""Sweeps: one command for each combination of parameters, from patterns and ranges."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from math import prod
from string import Formatter
from typing import Any

from msgspec.structs import replace

from gputui.core.parameters import find_values
from gputui.core.regex import lazy_regex

from .command_list import LONGEST_COMMAND
from .settings import NO_SETTINGS
from .source import BadInput, Draft, shown
from .values import LONGEST_KEY, BadValue, closest_match

_NUMBER = lazy_regex(r"[0-9]+")
_PARTS = lazy_regex(r"[.\[]")


class CommandPattern:
    """A command with names in braces, such as {lr}. It is checked when it is created."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        known_names = tuple(names)
        self._text = text
        self.used: set[str] = set()
        """The names that occur in the pattern."""
        for name, conversion in _fields(text):
            _check_field(name, conversion, known_names)
            self.used.add(name)
        if "\0" in text:
            raise BadInput("the pattern contains a NUL byte; remove it")
        if not text.strip():
            raise BadInput("the pattern is empty; write a command with {NAME} where values go")

    def fill(self, values: Mapping[str, str]) -> str:
        try:
            command = _FORMATTER.vformat(self._text, (), values)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError, MemoryError) as error:
            raise BadInput(f"cannot fill in the pattern {shown(self._text)!r}: {error}") from None
        if len(command.encode("utf-8", "surrogateescape")) > LONGEST_COMMAND:
            raise BadInput(f"a command from this pattern exceeds {LONGEST_COMMAND} bytes; put the command in a script")
        return command


class _CommandFormatter(Formatter):
    """Python's format rules, the conversion `!q`, which quotes a value for the shell, and a limit for widths."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "q":
            from shlex import quote

            return quote(str(value))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        # format() would allocate memory for any width.
        if any(len(number) > 6 or int(number) > LONGEST_COMMAND for number in _NUMBER.findall(format_spec)):
            raise ValueError(f"the width in {format_spec!r} is too large")
        return format(value, format_spec)


_FORMATTER = _CommandFormatter()


def _fields(pattern: str, depth: int = 2) -> Iterator[tuple[str, str | None]]:
    """Yield the name and the conversion of each field, including those within the format of another field."""
    if depth == 0:
        raise BadInput(f"braces nested too deeply at {shown(pattern)!r}; write {{{{ and }}}} for literal braces")
    try:
        parsed = list(Formatter().parse(pattern))
    except ValueError as error:
        raise BadInput(f"invalid pattern {shown(pattern)!r}: {error}; write {{{{ and }}}} for literal braces") from None
    for _, field, format_spec, conversion in parsed:
        if field is not None:
            yield _PARTS.split(field, maxsplit=1)[0], conversion
        if format_spec:
            yield from _fields(format_spec, depth - 1)


def _check_field(name: str, conversion: str | None, names: tuple[str, ...]) -> None:
    if not name or name.isdigit():
        raise BadInput(f"{{{name}}} has no name; write e.g. {{{names[0] if names else 'lr'}}}")
    if name not in names:
        near = closest_match(name, names)
        hint = f"did you mean {{{near}}}?" if near else f"set its values: -p {shown(name)} VALUE …"
        raise BadInput(f"{{{shown(name)}}} is not a parameter; {hint}")
    if conversion not in (None, "r", "s", "a", "q"):
        raise BadInput(f"{{{name}!{conversion}}}: after ! use q (quoted for the shell), r, s or a")


def pattern_of(command: str) -> str:
    """Return a pattern that yields exactly this command, without parameters."""
    return command.replace("{", "{{").replace("}", "}}")


def fields_of(pattern: str) -> set[str]:
    """Return all names in the braces of a pattern, whether known or not. Raise BadInput if the braces are invalid."""
    return {name for name, _ in _fields(pattern) if name}


def with_field(pattern: str, name: str) -> str | None:
    """Replace `--lr 0.1` by `--lr {lr}`. Return None if the pattern has no such option."""
    for match in reversed(places := find_values(pattern, name)):
        start, end = match.span("value")
        pattern = f"{pattern[:start]}{{{name}}}{pattern[end:]}"
    return pattern if places else None


# Ranges


MOST_VALUES = 100_000
_STEPS = lazy_regex(r"(-?[0-9]{1,15})\.\.(-?[0-9]{1,15})(?:\.\.([0-9]{1,15}))?")
_SPREAD = lazy_regex(r"(lin|log):([^:]+):([^:]+):([0-9]{1,9})")
_EXPECTED = "use 0..9, 0..100..10, lin:0:1:5 or log:1e-5:1e-1:5"


def values_of(written: str) -> tuple[str, ...]:
    """Return the values of a range, including both ends. Raise BadValue if it is invalid."""
    steps = _STEPS.fullmatch(written)
    if steps:
        return _stepped(written, int(steps[1]), int(steps[2]), int(steps[3] or 1))
    spread = _SPREAD.fullmatch(written)
    if spread:
        return _spread(written, spread[1] == "log", _number(spread[2]), _number(spread[3]), int(spread[4]))
    raise BadValue(f"invalid range {written!r}: {_EXPECTED}")


def _stepped(written: str, first: int, last: int, step: int) -> tuple[str, ...]:
    if step == 0:
        raise BadValue(f"invalid step in {written!r}: use 1 or more")
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    _check_length(written, len(numbers))
    return tuple(map(str, numbers))


def _spread(written: str, logarithmic: bool, first: float, last: float, number: int) -> tuple[str, ...]:
    if number == 0:
        raise BadValue(f"{written!r} has no values; its last part is the count")
    _check_length(written, number)
    if logarithmic and not (first > 0 and last > 0):
        raise BadValue(f"{written!r}: a log range needs limits above 0")
    parts = [index / (number - 1) for index in range(number)] if number > 1 else [0.0]
    if logarithmic:
        low, high = math.log10(first), math.log10(last)
        numbers = [10 ** (low + part * (high - low)) for part in parts]
    else:
        numbers = [first + part * (last - first) for part in parts]
    numbers[0] = first
    numbers[-1] = last if number > 1 else first
    words: tuple[str, ...] = ()
    for digits in (6, 9, 12, 17):  # use as few digits as keep the values distinct
        words = tuple(_format_number(number, digits) for number in numbers)
        if len(set(words)) == len(set(numbers)):
            break
    return words


def _format_number(number: float, digits: int) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.{digits}g}"


def _number(written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    # Larger differences would overflow.
    if not abs(number) < 1e300:
        raise BadValue(f"{written!r} is not a number; {_EXPECTED}")
    return number


def _check_length(written: str, length: int) -> None:
    if length > MOST_VALUES:
        raise BadValue(f"{written!r} has {length:,} values; the limit is {MOST_VALUES:,}")


# Sweeps


MOST_SHUFFLED = 2_000_000
"""Maximum size of a grid that is shuffled as a whole. Samples of a larger grid are drawn without creating it."""
_BAD_IN_NAMES = frozenset(".[]{}!:")


class Sampling(StrEnum):
    GRID = "grid"
    """Use the order of the parameters. The last one varies fastest."""
    SHUFFLED = "shuffled_grid"


class Sweep:
    """One command for each combination of parameters, or for a sample of the combinations."""

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
        key: str | None = None,
    ) -> None:
        _check(parameters)
        if n_samples is not None and n_samples < 0:
            raise BadInput(f"invalid number of samples {n_samples}: use 0 or more")
        self._pattern = CommandPattern(pattern, parameters)
        patterns = {"name": name, "outfile": outfile, "key": key}
        self._settings = {key: CommandPattern(text, parameters) for key, text in patterns.items() if text is not None}
        self.names = tuple(parameters)
        self._values = tuple(tuple(values) for values in parameters.values())
        self._sampling = sampling
        # A random seed is chosen once, so that the preview shows what is added.
        self._seed = random.SystemRandom().getrandbits(64) if seed is None else seed
        self.grid_size = prod(map(len, self._values))
        self.count = self.grid_size if n_samples is None else min(n_samples, self.grid_size)
        """Number of commands."""
        self.unused = tuple(name for name in self.names if name not in self._pattern.used)
        """Parameters that do not occur in the pattern. The same command is repeated for each of their values."""
        used = self._pattern.used.union(*(pattern.used for pattern in self._settings.values()))
        self._job_params = [name for name in self.names if name in used]
        """Parameters recorded with each job: those that occur in its command or its settings."""
        if sampling is Sampling.SHUFFLED and n_samples is None and self.grid_size > MOST_SHUFFLED:
            raise BadInput(f"{self.grid_size:,} combinations are too many to shuffle; sample with --n-samples")
        if self.count:
            self._draft(0)

    def __iter__(self) -> Iterator[Draft]:
        repeated = Counter[str]()
        for index in self._order():
            draft = self._draft(index)
            if draft.settings.key is not None and not self._settings["key"].used:
                # A value may be listed twice on purpose, so that its command runs twice.
                key = line_key(draft.settings.key, self._combination(index), repeated)
                draft = replace(draft, settings=replace(draft.settings, key=key))
            yield draft

    def combinations(self) -> Iterator[dict[str, str]]:
        return map(self._combination, self._order())

    def first(self, number: int) -> list[Draft]:
        return list(islice(self, max(0, number)))

    def _order(self) -> Iterator[int]:
        """Yield the indices of the combinations in the grid, in the requested order."""
        if self._sampling is Sampling.GRID:
            return iter(range(self.count))
        chance = random.Random(self._seed)
        if self.grid_size > MOST_SHUFFLED:
            return iter(chance.sample(range(self.grid_size), self.count))
        order = list(range(self.grid_size))
        chance.shuffle(order)
        return islice(order, self.count)

    def _draft(self, index: int) -> Draft:
        params = self._combination(index)
        filled = {key: pattern.fill(params) for key, pattern in self._settings.items()}
        settings = replace(NO_SETTINGS, **filled) if filled else NO_SETTINGS
        return Draft(self._pattern.fill(params), settings, {name: params[name] for name in self._job_params})

    def _combination(self, index: int) -> dict[str, str]:
        chosen: list[str] = []
        for values in reversed(self._values):
            index, which = divmod(index, len(values))
            chosen.append(values[which])
        return dict(zip(self.names, reversed(chosen), strict=True))


def line_key(key: str, params: Mapping[str, str], repeated: Counter[str] | None = None) -> str:
    """Return the key of one job of a sweep. It depends only on the sweep's key and the job's parameters.

    `repeated` counts the keys so far, so that a combination that occurs twice gets two keys.
    """
    derived = f"{key}/{','.join(f'{name}={value}' for name, value in params.items())}"
    if len(derived) > LONGEST_KEY - 20 or not derived.isprintable():
        from hashlib import sha256

        derived = f"{key[: LONGEST_KEY // 2]}/{sha256(derived.encode('utf-8', 'surrogateescape')).hexdigest()}"
    if repeated is None:
        return derived
    repeated[derived] += 1
    return derived if repeated[derived] == 1 else f"{derived} #{repeated[derived]}"


def range_values(name: str, written: Sequence[str]) -> list[str]:
    """Return the values of a parameter, given as one or more ranges."""
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
            raise BadInput(f"-p {name} has no values; use -p {name} VALUE …")
        if any("\0" in value for value in values):
            raise BadInput(f"-p {name}: a value contains a NUL byte; remove it")
