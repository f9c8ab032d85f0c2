"""The parameters in which the jobs of a group differ, as columns and short names. Jobs are added one by one.

Values are parsed from a job's spec only when they are needed, so that a long queue takes little memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from gputui.core.job import Job, JobId, JobSpec
from gputui.core.parameters import FLAG, cached_arguments, parameters_of, remove_values
from gputui.core.regex import lazy_regex

_APART = lazy_regex(r"[./]")
_INTERPRETER = lazy_regex(r"^(?:\S*/)?python[\d.]*\s+(?=\S)")

_UNCLEAR = frozenset({"true", "false", "yes", "none", "null", "off", "auto", "default"})

LONGEST = 200
"""Maximum number of words of a command that are compared."""


class Pattern:
    """The words that the commands of a group have in common. Commands can be added and removed one by one."""

    __slots__ = ("_differing", "_first", "_heads", "_like_first", "_of_other_length", "_tails", "count")

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []
        self._like_first = 0
        """Number of commands that are identical to the first one. All other commands are compared with the first."""
        self._differing: list[int] = []
        """For each word of the first command, the number of commands of the same length that differ in it."""
        self._of_other_length = 0
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        """How many commands have exactly n words in common with the end of the first command, by n."""

    def learn(self, command: str) -> bool:
        """Add a command. Return whether names may have changed."""
        words = _words(command)
        self.count += 1
        if self.count == 1:
            self._first, self._differing = words, [0] * len(words)
        changed = self._compare(words, 1)
        return changed or self.count <= 2

    def forget(self, command: str) -> bool:
        """Remove a command. Return whether names may have changed."""
        self.count -= 1
        changed = self._compare(_words(command), -1)
        return changed or self.count < 2

    @property
    def stale(self) -> bool:
        """Whether no command is identical to the first one any more. If so, all commands must be learned again."""
        return self.count > 0 and self._like_first == 0

    def _compare(self, words: list[str], by: int) -> bool:
        """Add `by` to the counts of differences from the first command. Return whether the common words changed."""
        first = self._first
        if words == first:
            self._like_first += by
            return False
        changed = _count(self._heads, _common_prefix(first, words), by)
        changed |= _count(self._tails, _common_prefix(first[::-1], words[::-1]), by)
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
    def common(self) -> str:
        """The words at the start of all commands, up to the first difference. They are the title of a list of names."""
        return " ".join(self._first[: self._head])

    @property
    def differs(self) -> bool:
        """Whether the commands are not all identical."""
        return self.count > self._like_first

    def name(self, command: str) -> str:
        """Return the words in which this command differs from the others, or all of its words if it does not differ."""
        words = _words(command)
        if self.count < 2:
            return " ".join(words)
        if not self._of_other_length and len(words) == len(self._first):
            differing = [number for number, others in enumerate(self._differing) if others]
        else:
            tail = min(self._tails, default=len(self._first))
            end = len(words) - min(tail, max(0, len(words) - self._head))
            differing = list(range(min(self._head, len(words)), end))
        return " ".join(_differing_words(words, differing)) or " ".join(words)


def _words(command: str) -> list[str]:
    return command.split(maxsplit=LONGEST)[:LONGEST]


def _common_prefix(first: list[str], other: list[str]) -> int:
    """Return the number of identical words at the beginning."""
    limit = min(len(first), len(other))
    return next((number for number in range(limit) if first[number] != other[number]), limit)


def _count(counts: dict[int, int], key: int, by: int) -> bool:
    """Add `by` to a counter. Return whether the counter was added or removed."""
    counts[key] = counts.get(key, 0) + by
    if not counts[key]:
        del counts[key]
    return counts.get(key, 0) == max(0, by)


def _differing_words(words: list[str], differing: list[int]) -> Iterable[str]:
    """Yield the words at the given indexes. An option with its value, such as `--lr 0.1`, becomes `lr=0.1`."""
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
    return word.startswith("-") and number_of(word) is None


def _is_value_of(option: str, word: str) -> bool:
    # Quoted text after an option is not its value, as in `python -c "…"`.
    return _is_option(option) and "=" not in option and not _is_option(word) and word[0] not in "\"'"


# Columns


class ParameterColumn(Struct, frozen=True):
    name: str
    """The parameter's name as in the commands."""
    title: str
    """The shortest form of the name that is unique among the columns."""
    width: int
    """Width of the longest value."""
    is_number: bool
    """Whether all values are numbers. Numbers are right-aligned and sorted by size."""


def number_of(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if number == number else None


def sort_key(value: str | None) -> tuple[int, float, str]:
    """Return a sort key that puts numbers by size first, then text, then jobs without a value."""
    if value is None:
        return 2, 0.0, ""
    number = number_of(value)
    return (0, number, value) if number is not None else (1, 0.0, value)


class _Difference:
    """How the values of one parameter differ in a group."""

    __slots__ = ("longest", "others", "own", "words")

    def __init__(self) -> None:
        self.others = 0
        """Number of jobs with a different value than the first job, or without a value."""
        self.own = 0
        """Number of jobs in which the value does not merely repeat a parameter given by the source."""
        self.words = 0
        """Number of jobs in which the value is not a number."""
        self.longest = 0


class _Group:
    """The parameters of one group of jobs. Each job is compared with the first one."""

    def __init__(self, first: JobSpec) -> None:
        self.first = first
        self.named = parameters_of(first)
        self.count = self.like_first = 0
        self.named_jobs = 0
        """Number of jobs that have both parameters and a name given by the user."""
        self.bare_jobs = 0
        """Number of jobs without parameters."""
        self.differences: dict[str, _Difference] = {}
        self.rests = Pattern()
        """The words other than options in the commands of all jobs."""
        self.rests_beside = Pattern()
        """The words other than options in the commands of jobs with parameters."""

    @property
    def stale(self) -> bool:
        return self.count > 0 and (self.like_first == 0 or self.rests.stale or self.rests_beside.stale)

    def note(self, spec: JobSpec, by: int) -> bool:
        """Add a job if `by` is 1, or remove it if `by` is -1. Return whether the columns may have changed."""
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
        rest = " ".join(cached_arguments(spec.command).rest)
        for pattern in (self.rests, self.rests_beside) if named else (self.rests,):
            changed |= pattern.learn(rest) if by > 0 else pattern.forget(rest)
        return changed

    def varying(self) -> list[str]:
        """Return the names of the parameters that differ: first those of the first job, then the others."""
        names = [*self.named, *(name for name in self.differences if name not in self.named)]
        return [
            name
            for name in names
            if (difference := self.differences.get(name)) and difference.others and difference.own
        ]

    def shared(self) -> dict[str, str]:
        """Return the parameters that have the same value in all jobs."""
        return {
            name: value
            for name, value in self.named.items()
            if (difference := self.differences[name]).own and not difference.others
        }


class Parameters:
    """The parameters of all groups of a session. Adding a job takes equally long however many jobs there are."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._specs: dict[JobId, JobSpec] = {}
        self._columns: tuple[ParameterColumn, ...] | None = None

    def learn(self, job: Job) -> bool:
        """Add or update a job, or remove it if it is archived. Return whether the columns may have changed."""
        before, spec = self._specs.get(job.id), None if job.archived else job.spec
        if before is spec:
            return False
        changed = False
        self._columns = None
        if before is not None:
            del self._specs[job.id]
            changed = self._groups[before.group].note(before, -1) or not self._groups[before.group].count
        if spec is not None:
            self._specs[job.id] = spec
            group = self._groups.get(spec.group)
            if group is None:
                group = self._groups[spec.group] = _Group(spec)
            changed |= group.note(spec, 1)
        return changed

    @property
    def groups(self) -> int:
        """Number of groups that have jobs."""
        return sum(group.count > 0 for group in self._groups.values())

    def columns(self) -> tuple[ParameterColumn, ...]:
        """Return the columns of all groups, in the order in which the commands contain them."""
        if self._columns is not None:
            return self._columns
        groups = list(self._fresh())
        names = dict.fromkeys([name for group in groups for name in group.varying()] + _between(groups))
        titles = short_names(names)
        uses = {name: [use for group in groups if (use := group.differences.get(name))] for name in names}
        self._columns = tuple(
            ParameterColumn(name, titles[name], max(use.longest for use in each), not any(use.words for use in each))
            for name, each in uses.items()
        )
        return self._columns

    def value(self, job: Job, name: str) -> str | None:
        """Return the value of a parameter, or None if the job does not have it."""
        parameter = job.spec.params.get(name)
        return parameter if parameter is not None else parameters_of(job.spec).get(name)

    def rest(self, job: Job) -> str:
        """Return the words other than options in which a job differs from its group."""
        group = self._groups.get(job.spec.group)
        if group is None or group.count < 2:
            return ""
        words = " ".join(cached_arguments(job.spec.command).rest)
        name = group.rests.name(words)
        return "" if name == words and not group.rests.differs else name

    def label(self, job: Job) -> str:
        """Return how a job differs from its group: `resnet50 lr=0.1 bs=32`, or an empty string if it does not."""
        values = parameters_of(job.spec)
        named = (_format_parameter(column, value) for column in self.columns() if (value := values.get(column.name)))
        return " ".join(part for part in (self.rest(job), *named) if part)

    def of(self, job: Job) -> str:
        """Return a short name: the one given by the user, or else the job's label, parameters or command."""
        short_name = job.spec.name or self.label(job)
        parameters = " ".join(f"{name}={value}" for name, value in job.spec.params.items()) if not short_name else ""
        return short_name or parameters or " ".join(job.spec.command.split())

    def tells_all(self) -> bool:
        """Return whether the columns alone describe the jobs.

        They do not if any job with parameters has a name given by the user, or if jobs with parameters differ in words
        other than options.
        """
        columns = {column.name for column in self.columns()}
        groups = (group for group in self._groups.values() if group.count)
        return bool(columns) and not any(
            (group.rests_beside.differs or group.named_jobs) and not columns.isdisjoint(group.differences)
            for group in groups
        )

    def has_bare_jobs(self) -> bool:
        """Return whether any job has no value in any column."""
        columns = {column.name for column in self.columns()}
        groups = (group for group in self._groups.values() if group.count)
        return any(group.bare_jobs or columns.isdisjoint(group.differences) for group in groups)

    def common(self) -> str:
        """Return the words that all commands have in common, for use as a title. Empty if there are several groups."""
        groups = [group for group in self._fresh() if group.count > 1]
        if len(groups) != 1:
            return ""
        (group,) = groups
        if group.rests.differs:
            return _INTERPRETER.sub("", group.rests.common)
        command = next(spec for spec in self._specs.values() if spec.group == group.first.group).command
        for name in group.varying():
            command = remove_values(command, name)
        return _INTERPRETER.sub("", " ".join(command.split()))

    def _fresh(self) -> Iterable[_Group]:
        for name, group in list(self._groups.items()):
            if group.stale:
                specs = [spec for spec in self._specs.values() if spec.group == name]
                group = self._groups[name] = _Group(specs[0])
                for spec in specs:
                    group.note(spec, 1)
            if group.count:
                yield group


def _between(groups: Iterable[_Group]) -> list[str]:
    """Return the parameters that are the same within each group but differ between groups that run one program."""
    programs: dict[str, list[dict[str, str]]] = {}
    for group in groups:
        if not group.rests.differs:
            programs.setdefault(group.rests.common, []).append(group.shared())
    differing: list[str] = []
    for shared in programs.values():
        names = dict.fromkeys(name for values in shared for name in values) if len(shared) > 1 else ()
        differing += [name for name in names if any(values.get(name) != shared[0].get(name) for values in shared)]
    return differing


def _format_parameter(column: ParameterColumn, value: str) -> str:
    """Return for example `lr=0.1`, or only the value if it is clear without the name: `resnet50`."""
    if value == FLAG:
        return column.title
    clear = not column.is_number and len(value) > 2 and value.lower() not in _UNCLEAR and number_of(value) is None
    return value if clear else f"{column.title}={value}"


def short_names(names: Iterable[str]) -> Mapping[str, str]:
    """Map dotted names to their last part if that part is unique: `optimizer.lr` to `lr`."""
    full = list(names)
    ends: dict[str, int] = {}
    for name in full:
        end = _APART.split(name)[-1]
        ends[end] = ends.get(end, 0) + 1
    return {name: end if ends[end := _APART.split(name)[-1]] == 1 and end else name for name in full}
