"""Ranges of parameters: `0..9`, `0..100..10`, `lin:0:1:5`, `log:1e-5:1e-1:5`, as the words they stand for."""

from __future__ import annotations

import math
import re

from .values import BadValue

__all__ = ["MOST_VALUES", "values_of"]

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
        raise BadValue(f"{written!r} is no number; {_EXPECTED}")
    return number


def _check_length(written: str, length: int) -> None:
    if length > MOST_VALUES:
        raise BadValue(
            f"{written!r} has {length} values, more than the {MOST_VALUES} a range may have; write a shorter one"
        )
