"""What was found in one line before it is judged: named numbers, coordinates, counters, and the phase."""

from __future__ import annotations

from dataclasses import dataclass, field

from gputui.core.metric_names import words_of

from .names import NameKind, cleaned, eval_phase, is_setting, kind_of, phase_in, rank_of
from .reading import MetricReading

__all__ = ["Counter", "LineFindings", "NamedNumber"]

UNDECODED = "\ufffd"
"""In the place of bytes that are no text."""


@dataclass(slots=True)
class NamedNumber:
    """A number under a name."""

    name: str
    value: float
    signed: bool = True
    whole: bool = False
    """Printed without a point: of an unknown name it is a count."""
    phase: str | None = None
    unit: str = ""


@dataclass(slots=True)
class Counter:
    """`i/n` or a percentage of something."""

    words: str
    done: float
    total: float
    bar: bool = False
    opens: bool = False
    """It stands at the beginning of the line."""
    closes: bool = False
    """It stands in brackets at the end of the line, behind a loss."""
    phase: str | None = None
    """That the line had told before it."""


@dataclass(slots=True)
class LineFindings:
    """All of one line."""

    named: list[NamedNumber] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    coordinates: list[tuple[int, float]] = field(default_factory=list)
    phase: str | None = None
    structured: bool = False

    def coordinate(self, name: str, value: float) -> None:
        self.coordinates.append((rank_of(name), value))

    def step(self) -> float | None:
        return max(self.coordinates, key=lambda coordinate: coordinate[0])[1] if self.coordinates else None

    def judged(self, step: float | None, goes_on: bool = False) -> list[MetricReading]:
        """The results among the named numbers; company decides about names that tell nothing, and a rate of learning
        alone is a result where the work goes on."""
        kinds = [kind_of(named.name) for named in self.named]
        if not self.coordinates and sum(is_setting(named.name) for named in self.named) >= (
            1 if NameKind.METRIC not in kinds else 2
        ):
            return []
        company = self.structured or NameKind.METRIC in kinds or bool(self.coordinates)
        readings: dict[str, MetricReading] = {}
        for named, kind in zip(self.named, kinds, strict=True):
            rate = kind is NameKind.RATE and (company or goes_on)
            if kind is NameKind.METRIC or rate or (company and self._counts(named, kind)):
                name = _in_phase(named, named.phase or (self.phase if eval_phase(self.phase) else None), kind)
                if name.isprintable() and UNDECODED not in name:
                    readings.setdefault(name, MetricReading(name, named.value, step, unit=named.unit))
        return list(readings.values())

    def _counts(self, named: NamedNumber, kind: NameKind) -> bool:
        return named.signed and not named.whole and kind in (NameKind.UNKNOWN, NameKind.PHASE)


def _in_phase(named: NamedNumber, phase: str | None, kind: NameKind) -> str:
    name = cleaned(named.name)
    if phase is None or kind is NameKind.RATE or phase_in(words_of(named.name)) is not None:
        return name
    return f"{phase}_{name}"
