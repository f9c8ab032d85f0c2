"""How many rows and columns the devices take beside the queue, and which figures fit a cell. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gputui.gpus.picture import DevicesPicture

from .figures import memory_width, watts
from .names import device_name

NARROWEST = 36
"""Cells that a device needs at the least."""
GAP = 2
"""Cells between two columns of devices."""
TALL_SCREEN = 56
"""Rows from which a device has two lines."""
_LONGEST_GRAPH = 64
_LOW_SCREEN = 30
_WIDE_SCREEN = 160
_MOST_COLUMNS = 4


def rows_wanted(picture: DevicesPicture, width: int, height: int, *, unfolded: bool = False) -> int:
    """How many lines the pane should get on a screen of this size; `width` is the pane's own, without its border."""
    count = entry_count(picture)
    most = max(3, height // (2 if unfolded else 3))
    if height >= TALL_SCREEN and 2 * count <= most:
        return 2 * count
    columns = 1 if unfolded else _columns_wanted(count, width, height)
    return max(1, min(most, _rows(count, columns)))


def _columns_wanted(count: int, width: int, height: int) -> int:
    if count <= 2:
        return 1
    folds = height < _LOW_SCREEN or count >= 16 or (count > 4 and width >= _WIDE_SCREEN)
    columns = 2 if folds else 1
    while _rows(count, columns) > max(3, height // 3) and columns < _most_columns(width):
        columns += 1
    return min(columns, _most_columns(width))


def columns_for(count: int, width: int, rows: int) -> int:
    """The fewest columns with which everything is in sight, or as many as can be."""
    most = _most_columns(width)
    return next((columns for columns in range(1, most) if _rows(count, columns) <= rows), most)


def _most_columns(width: int) -> int:
    return max(1, min(_MOST_COLUMNS, (width + GAP) // (NARROWEST + GAP)))


def _rows(count: int, columns: int) -> int:
    return -(-count // columns)


def entry_count(picture: DevicesPicture) -> int:
    trouble = 2 if picture.sample is not None and picture.sample.trouble is not None else 0
    return max(1, trouble + (picture.host is not None) + len(picture.devices))


class Fields(Struct, frozen=True, kw_only=True):
    """The width of every field of a cell; 0: left out. Fields stand in this order, with their gaps before them."""

    number: int
    name: int
    spark: int
    bar: int
    memory: int
    temperature: int
    power: int
    occupant: int
    brief: bool = False
    """One space between fields, and `°` instead of `°C`."""
    coarse: bool = False
    """Memory in whole gigabytes."""

    @property
    def gap(self) -> str:
        return " " if self.brief else "  "

    @property
    def wide_gap(self) -> str:
        """Before what is of another kind: memory after load, who after figures."""
        return " " if self.brief else "   "

    @property
    def head(self) -> int:
        """Number and name, with the gap after them."""
        return 1 + self.number + 1 + (self.name + len(self.gap) if self.name else 0)

    @property
    def load(self) -> int:
        return self.spark + bool(self.spark) + 4

    @property
    def figures(self) -> int:
        """From the graph to the power, with the gaps between them."""
        memory = len(self.wide_gap) + self.bar + bool(self.bar) + self.memory if self.memory else 0
        rest = [field for field in (self.temperature, self.power) if field]
        return self.load + memory + sum(len(self.gap) + field for field in rest)

    def labels(self) -> list[tuple[int, str]]:
        """The names of the columns and where they begin."""
        memory_at = self.head + self.load + len(self.wide_gap)
        temperature_at = memory_at + self.bar + bool(self.bar) + self.memory + len(self.gap)
        power_at = temperature_at + self.temperature + len(self.gap)
        labels = [(self.head, "util, 30 min" if self.spark >= 12 else "util")]
        labels += [(memory_at, "memory")] if self.memory else []
        labels += [(temperature_at, "temp")] if self.temperature >= 4 else []
        labels += [(power_at, f"{'power W':>{self.power}}")] if self.power else []
        return [*labels, (self.head + self.figures + len(self.wide_gap), "job")]


class _Plan(Struct, frozen=True):
    """One way to fill a cell, and how much room must be left for the occupant to choose it."""

    name: int
    spark: int
    bar: int
    power: bool
    room: int
    brief: bool = False
    memory: bool = True
    temperature: bool = True
    coarse: bool = False


_PLANS = (
    _Plan(16, 20, 16, True, 60),
    _Plan(12, 20, 12, True, 30),
    _Plan(10, 12, 8, True, 22),
    _Plan(8, 9, 6, True, 20, brief=True),
    _Plan(8, 9, 6, False, 16, brief=True),
    _Plan(0, 9, 0, False, 12, brief=True),
    _Plan(0, 9, 0, False, 5, brief=True),
    _Plan(0, 6, 0, False, 4, brief=True, coarse=True),
    _Plan(0, 0, 0, False, 6, brief=True, coarse=True, temperature=False),
    _Plan(0, 0, 0, False, 0, brief=True, temperature=False, memory=False),
)


def fields_for(picture: DevicesPicture, width: int, *, tall: bool = False) -> Fields:
    """The richest cell that fits. Depends only on what does not change from sample to sample, so nothing jumps."""
    shapes = _Shapes.of(picture)
    candidates = (_fields(plan, shapes, width) for plan in _PLANS)
    *others, last = zip(_PLANS, candidates, strict=True)
    chosen = next((fields for plan, fields in others if fields.occupant >= plan.room), last[1])
    return _widened(chosen) if tall else chosen


def _widened(fields: Fields) -> Fields:
    """A graph of two lines takes what a job's name does not need."""
    more = min(_LONGEST_GRAPH - fields.spark, max(0, fields.occupant - 52))
    return replace(fields, spark=fields.spark + more, occupant=fields.occupant - more)


class _Shapes(Struct, frozen=True):
    """The widest texts of a picture's devices."""

    number: int
    name: int
    memory: int
    coarse_memory: int
    power: int
    hot: bool
    """They have temperatures."""

    @classmethod
    def of(cls, picture: DevicesPicture) -> _Shapes:
        devices = [device.sample for device in picture.devices]
        totals = [device.memory_total for device in devices]
        if picture.host is not None:
            totals.append(picture.host.memory_total)
        limits = [device.power_limit for device in devices]
        shared = len(" shared") if picture.host is None and any(device.memory_shared for device in devices) else 0
        return cls(
            number=len("CPU") if picture.host is not None else _widest([str(device.index) for device in devices]),
            name=_widest([device_name(device) for device in devices]),
            memory=max(map(memory_width, totals), default=1) + shared,
            coarse_memory=max((memory_width(total, brief=True) for total in totals), default=1),
            power=_widest([watts(limit, limit) for limit in limits if limit is not None]),
            hot=any(device.temperature is not None for device in devices) or picture.host is None,
        )


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)


def _fields(plan: _Plan, shapes: _Shapes, width: int) -> Fields:
    shaped = Fields(
        number=max(1, shapes.number),
        name=min(plan.name, max(4, shapes.name)) if plan.name else 0,
        spark=plan.spark,
        bar=plan.bar,
        memory=0 if not plan.memory else shapes.coarse_memory if plan.coarse else shapes.memory,
        temperature=(3 if plan.brief else 4) if plan.temperature and shapes.hot else 0,
        power=max(7, shapes.power) if plan.power and shapes.hot else 0,
        occupant=0,
        brief=plan.brief,
        coarse=plan.coarse,
    )
    used = shaped.head + shaped.figures + len(shaped.wide_gap)
    return replace(shaped, occupant=max(0, width - used))
