"""In what the jobs of a group differ, learnt one job after the other: the columns that tell them apart. Pure.

The values themselves are read from a job's spec when they are asked for: a long queue keeps none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from .job import Job, JobId, JobSpec
from .parameters import FLAG, Pattern, arguments_of, without

__all__ = ["ParameterColumn", "Parameters", "number_of", "parameters_of", "sort_key"]

OURS = "GPUTUI"
_APART = re.compile(r"[./]")
_INTERPRETER = re.compile(r"^(?:\S*/)?python[\d.]*\s+(?=\S)")

_UNCLEAR = frozenset({"true", "false", "yes", "none", "null", "off", "auto", "default"})

_arguments = lru_cache(maxsize=4096)(arguments_of)


class ParameterColumn(Struct, frozen=True):
    name: str
    """As the command has it."""
    title: str
    """The shortest that is still clear beside the other columns."""
    width: int
    """Of the longest value."""
    is_number: bool
    """All values are: they stand to the right and sort by size."""


def parameters_of(spec: JobSpec) -> dict[str, str]:
    """All that a job is told under a name; what its source called a parameter comes first."""
    named = _arguments(spec.command).named
    variables = {name: value for name, value in spec.variables.items() if not name.startswith(OURS)}
    return {**spec.params, **{name: value for name, value in (variables | named).items() if name not in spec.params}}


def number_of(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number == number else None


def sort_key(value: str | None) -> tuple[int, float, str]:
    """Numbers by size, then words, then those without."""
    if value is None:
        return 2, 0.0, ""
    number = number_of(value)
    return (0, number, value) if number is not None else (1, 0.0, value)


class _Difference:
    """How one name is used in a group."""

    __slots__ = ("longest", "others", "own", "words")

    def __init__(self) -> None:
        self.others = 0
        """Jobs that have another value than the first, or none."""
        self.own = 0
        """Jobs in which it tells something that no parameter of their source does."""
        self.words = 0
        """Jobs in which it is no number."""
        self.longest = 0


class _Group:
    """What is learnt of one group, by comparing each job with the first."""

    def __init__(self, first: JobSpec) -> None:
        self.first = first
        self.named = parameters_of(first)
        self.count = self.like_first = 0
        self.named_jobs = 0
        """Jobs with parameters to which the user gave a name."""
        self.bare_jobs = 0
        """Jobs without parameters."""
        self.differences: dict[str, _Difference] = {}
        self.rests = Pattern()
        """The words without a name, of all jobs."""
        self.rests_beside = Pattern()
        """The same of those with parameters."""

    @property
    def stale(self) -> bool:
        return self.count > 0 and (self.like_first == 0 or self.rests.stale or self.rests_beside.stale)

    def note(self, spec: JobSpec, by: int) -> bool:
        """True if the columns may have changed."""
        self.count += by
        named, changed = parameters_of(spec), False
        self.named_jobs += by * bool(spec.name and named)
        self.bare_jobs += by * (not named)
        if named == self.named:
            self.like_first += by
        for name, value in named.items():
            difference = self.differences.get(name)
            if difference is None:
                difference = self.differences[name] = _Difference()
            difference.words += by * (number_of(value) is None)
            if not spec.params or name in spec.params or value not in spec.params.values():
                difference.own += by
            if len(value) > difference.longest:
                difference.longest, changed = len(value), True
            if self.named.get(name) != value:
                difference.others += by
                changed |= difference.others <= 1
        if len(named) < len(self.named) or named.keys() != self.named.keys():
            for name in self.named.keys() - named.keys():
                self.differences[name].others += by
                changed |= self.differences[name].others <= 1
        rest = " ".join(_arguments(spec.command).rest)
        for pattern in (self.rests, self.rests_beside) if named else (self.rests,):
            changed |= pattern.learn(rest) if by > 0 else pattern.forget(rest)
        return changed

    def varying(self) -> list[str]:
        """Those of the source and of the first job come first, in their order."""
        names = [*self.named, *(name for name in self.differences if name not in self.named)]
        return [
            name
            for name in names
            if (difference := self.differences.get(name)) and difference.others and difference.own
        ]

    def shared(self) -> dict[str, str]:
        """What all of its jobs are told alike."""
        return {
            name: value
            for name, value in self.named.items()
            if (difference := self.differences[name]).own and not difference.others
        }


class Parameters:
    """All groups of a session; learning one job costs its own words, whatever is known already."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._learnt: dict[JobId, JobSpec] = {}
        self._columns: tuple[ParameterColumn, ...] | None = None

    def learn(self, job: Job) -> bool:
        """The job as it is now; one that was removed is forgotten. True if columns may have changed."""
        before, spec = self._learnt.get(job.id), None if job.archived else job.spec
        if before is spec:
            return False
        changed = False
        self._columns = None
        if before is not None:
            del self._learnt[job.id]
            changed = self._groups[before.group].note(before, -1) or not self._groups[before.group].count
        if spec is not None:
            self._learnt[job.id] = spec
            group = self._groups.get(spec.group)
            if group is None:
                group = self._groups[spec.group] = _Group(spec)
            changed |= group.note(spec, 1)
        return changed

    @property
    def groups(self) -> int:
        """How many groups there are jobs of."""
        return sum(group.count > 0 for group in self._groups.values())

    def columns(self) -> tuple[ParameterColumn, ...]:
        """Of all groups, in the order in which the commands have them."""
        if self._columns is None:
            self._columns = self._made()
        return self._columns

    def _made(self) -> tuple[ParameterColumn, ...]:
        groups = list(self._fresh())
        names = dict.fromkeys([name for group in groups for name in group.varying()] + _between(groups))
        titles = short_names(names)
        uses = {name: [use for group in groups if (use := group.differences.get(name))] for name in names}
        return tuple(
            ParameterColumn(
                name, titles[name], max(use.longest for use in uses[name]), not any(use.words for use in uses[name])
            )
            for name in names
        )  # fmt: skip

    def value(self, job: Job, name: str) -> str | None:
        """What the job is given under a name; None: nothing."""
        parameter = job.spec.params.get(name)
        return parameter if parameter is not None else parameters_of(job.spec).get(name)

    def rest(self, job: Job) -> str:
        """The words without a name in which it differs from its group; empty: none."""
        group = self._groups.get(job.spec.group)
        if group is None or group.count < 2:
            return ""
        words = " ".join(_arguments(job.spec.command).rest)
        name = group.rests.name(words)
        return "" if name == words and not group.rests.differs else name

    def told(self, job: Job) -> str:
        """What tells it from its group, in one line: `resnet50 lr=0.1 bs=32`; empty: nothing does."""
        values = parameters_of(job.spec)
        named = (_named(column, value) for column in self.columns() if (value := values.get(column.name)))
        return " ".join(part for part in (self.rest(job), *named) if part)

    def of(self, job: Job) -> str:
        """A short name: the user's own, or what tells it from its group, or all of its command."""
        short_name = job.spec.name or self.told(job)
        parameters = " ".join(f"{name}={value}" for name, value in job.spec.params.items()) if not short_name else ""
        return short_name or parameters or " ".join(job.spec.command.split())

    def tells_all(self) -> bool:
        """No job with a value in a column has more that tells it from its group: a name, or words without one."""
        columns = {column.name for column in self.columns()}
        groups = [group for group in self._groups.values() if group.count]
        return bool(columns) and not any(
            (group.rests_beside.differs or group.named_jobs) and not columns.isdisjoint(group.differences)
            for group in groups
        )

    def has_bare_jobs(self) -> bool:
        """There are jobs without a value in any column."""
        columns = {column.name for column in self.columns()}
        groups = (group for group in self._groups.values() if group.count)
        return any(group.bare_jobs or columns.isdisjoint(group.differences) for group in groups)

    def common(self) -> str:
        """What all jobs of the only group share, for a title."""
        groups = [group for group in self._fresh() if group.count > 1]
        if len(groups) != 1:
            return ""
        (group,) = groups
        if group.rests.differs:
            return _INTERPRETER.sub("", group.rests.common)
        command = self._first_of(group.first.group).command
        for name in group.varying():
            command = without(command, name)
        return _INTERPRETER.sub("", " ".join(command.split()))

    def _fresh(self) -> Iterable[_Group]:
        for name, group in list(self._groups.items()):
            if group.stale:
                self._relearn(name)
            if self._groups[name].count:
                yield self._groups[name]

    def _first_of(self, group: str) -> JobSpec:
        """That is still there: the one that others were compared with may be gone."""
        return next(spec for spec in self._learnt.values() if spec.group == group)

    def _relearn(self, name: str) -> None:
        specs = [spec for spec in self._learnt.values() if spec.group == name]
        group = self._groups[name] = _Group(specs[0])
        for spec in specs:
            group.note(spec, 1)


def _between(groups: Iterable[_Group]) -> list[str]:
    """In what groups of one program differ, though the jobs of each are alike in it; having a name or not counts."""
    programs: dict[str, list[dict[str, str]]] = {}
    for group in groups:
        if not group.rests.differs:
            programs.setdefault(group.rests.common, []).append(group.shared())
    differing: list[str] = []
    for shared in programs.values():
        names = dict.fromkeys(name for each in shared for name in each) if len(shared) > 1 else ()
        differing += [name for name in names if any(each.get(name) != shared[0].get(name) for each in shared)]
    return differing


def _named(column: ParameterColumn, value: str) -> str:
    """`lr=0.1`; of a word the word alone, where it says enough: `resnet50`."""
    if value == FLAG:
        return column.title
    clear = not column.is_number and len(value) > 2 and value.lower() not in _UNCLEAR and number_of(value) is None
    return value if clear else f"{column.title}={value}"


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """`optimizer.lr` is `lr`, unless another one would be too."""
    full = list(names)
    ends: dict[str, int] = {}
    for name in full:
        end = _APART.split(name)[-1]
        ends[end] = ends.get(end, 0) + 1
    return {name: end if ends[end := _APART.split(name)[-1]] == 1 and end else name for name in full}
