"""Sweeps: one command for each combination of parameters; the same seed gives simple_hypersearch's lines.

Pure. Knows how many commands there are without making them, and makes only those that are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from math import prod

from msgspec.structs import replace

from .pattern import CommandPattern
from .ranges import values_of
from .settings.table import NO_SETTINGS
from .source import BadInput, Draft, shown
from .values import BadValue

__all__ = ["Sampling", "Sweep", "range_values"]

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
            raise BadInput(f"{name!r} is no name of a parameter; write letters, digits, _ or -")
        if not values:
            raise BadInput(f"-p {name} has no values; write -p {name} VALUE …")
        if any("\0" in value for value in values):
            raise BadInput(f"-p {name}: a value holds a NUL byte; remove it")
