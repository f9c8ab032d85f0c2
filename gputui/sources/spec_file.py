"""Spec files: jobs in TOML or YAML, with defaults and a matrix."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from .documents import (
    BadTable,
    JobTable,
    Place,
    SpecDocument,
    bad_input,
    checked_command,
    converted,
    read_document,
    read_table,
    table_schema,
)
from .settings import JobSettings, Scalar, written
from .source import BadInput, Draft, shown
from .sweep import CommandPattern, Sampling, Sweep, line_key, values_of
from .values import BadValue

# Matrices


MOST_JOBS = 1_000_000
Params = dict[str, str]
Values = list[str | int | float | bool] | str
Row = dict[str, str | int | float | bool]
_FILLED = ("name", "outfile", "cwd", "key")


class Combinations(Struct, kw_only=True, frozen=True):
    """The combinations of parameters for which a matrix creates jobs."""

    parameters: Annotated[
        dict[str, Values], Meta(description="lists of values, or ranges: 0..9, lin:0:1:5, log:1e-5:1e-1:5")
    ] = {}
    exclude: Annotated[list[Row], Meta(description="combinations to exclude")] = []
    include: Annotated[list[Row], Meta(description="combinations to add")] = []
    n_samples: Annotated[int, Meta(ge=0, description="size of a random sample")] | None = None
    seed: Annotated[int, Meta(description="seed of the sample")] | None = None


def _matrix_drafts(value: object, defaults: JobTable, place: Place) -> Iterator[Draft]:
    """Yield the jobs of a matrix.

    {names} in command, name, outfile, cwd and env are replaced by the values of parameters.
    """
    own = Combinations.__struct_fields__
    whole = converted(value, dict[str, Any], place)
    wanted = converted({key: entry for key, entry in whole.items() if key in own}, Combinations, place)
    table = read_table(whole, place, own)
    try:
        yield from _fill_matrix(wanted, table, defaults)
    except BadTable as bad:
        raise BadTable(str(bad), (*place, *bad.place)) from None


def _fill_matrix(wanted: Combinations, table: JobTable, defaults: JobTable) -> Iterator[Draft]:
    if not wanted.parameters and not wanted.include:
        raise BadTable("no parameters; add [matrix.parameters] with lists of values")
    combinations = [*_grid(wanted), *map(_texts, wanted.include)]
    names = {name: None for params in combinations for name in params} or dict.fromkeys(wanted.parameters)
    texts = {"command": checked_command(table.command or defaults.command)}
    texts |= {key: value for key in _FILLED if (value := getattr(table.settings, key)) is not None}
    texts |= {f"env.{key}": value for key, value in (table.settings.variables or {}).items()}
    patterns = {key: _pattern(value, names, key) for key, value in texts.items()}
    base = table.settings.over(defaults.settings)
    for params in combinations:
        yield _draft(params, patterns, base)


def _draft(params: Params, patterns: dict[str, CommandPattern], base: JobSettings) -> Draft:
    filled = {key: _fill(pattern, params, key) for key, pattern in patterns.items()}
    command = checked_command(filled.pop("command"))
    variables = {key[4:]: filled.pop(key) for key in list(filled) if key.startswith("env.")}
    changes: dict[str, Any] = dict(filled)
    if "key" in filled and not patterns["key"].used:
        changes["key"] = line_key(filled["key"], params)
    if variables:
        changes["variables"] = {**(base.variables or {}), **variables}
    return Draft(command, replace(base, **changes), params)


def _pattern(text: str, names: Iterable[str], key: str) -> CommandPattern:
    try:
        return CommandPattern(text, names)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _fill(pattern: CommandPattern, params: Params, key: str) -> str:
    missing = pattern.used - params.keys()
    if missing:
        raise BadTable(f"{key}: a parameter combination has no value for {min(missing)}; add one", ("include",))
    try:
        return pattern.fill(params)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _grid(matrix: Combinations) -> list[Params]:
    """Return the combinations of the grid in order, without the excluded ones, or a sample of them."""
    if not matrix.parameters:
        return []
    try:
        grid = Sweep(
            "x", {key: _values(key, values) for key, values in matrix.parameters.items()}, sampling=Sampling.GRID
        )
    except BadInput as bad:
        raise BadTable(str(bad), ("parameters",)) from None
    if grid.grid_size > MOST_JOBS:
        raise BadTable(f"{grid.grid_size:,} combinations; the limit is {MOST_JOBS:,}", ("parameters",))
    excluded = [_excluded(number, matrix) for number in range(len(matrix.exclude))]
    combinations = [
        combination
        for combination in grid.combinations()
        if not any(left_out.items() <= combination.items() for left_out in excluded)
    ]
    if matrix.n_samples is not None or matrix.seed is not None:
        random.Random(matrix.seed).shuffle(combinations)
    return combinations[: matrix.n_samples]


def _excluded(number: int, matrix: Combinations) -> Params:
    row = matrix.exclude[number]
    unknown = row.keys() - matrix.parameters.keys()
    if unknown or not row:
        reason = f"{min(unknown)!r} is not a parameter of this matrix" if unknown else "would exclude everything"
        raise BadTable(f"exclude: {reason}", ("exclude", number, *sorted(unknown)[:1]))
    return _texts(row)


def _texts(row: dict[str, Scalar]) -> Params:
    return {key: written(value) for key, value in row.items()}


def _values(key: str, values: Values) -> list[str]:
    if isinstance(values, list):
        return [written(value) for value in values]
    try:
        return list(values_of(values))
    except BadValue as bad:
        raise BadTable(f"parameters.{key}: {bad}, or a list of values", ("parameters", key)) from None


# Spec files


class SpecFile(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A whole spec file. Its tables are parsed one by one."""

    defaults: dict[str, Any] = {}
    job: list[Any] = []
    matrix: dict[str, Any] | list[Any] = []


def read_spec(path: str) -> list[Draft]:
    """Return all jobs in a spec file. Raise BadInput if anything in it is invalid."""
    return parse_spec(read_document(path))


def parse_spec(document: SpecDocument) -> list[Draft]:
    try:
        drafts = list(_drafts(converted(document.value or {}, SpecFile)))
    except BadTable as bad:
        raise bad_input(document.origin, document.line(bad.place), bad) from None
    if not drafts:
        raise BadInput(f"no jobs in {shown(document.origin)}; add [[job]] or [matrix]")
    return drafts


def _drafts(spec: SpecFile) -> Iterator[Draft]:
    defaults = read_table(spec.defaults, ("defaults",))
    for number, value in enumerate(spec.job):
        place: Place = ("job", number)
        job = read_table(value, place)
        settings = job.settings.over(defaults.settings)
        try:
            # A task needs no command.
            command = checked_command(job.command or defaults.command or settings.task)
        except BadTable as bad:
            raise BadTable(str(bad), place) from None
        yield Draft(command, settings)
    several = isinstance(spec.matrix, list)
    for number, value in enumerate(spec.matrix if isinstance(spec.matrix, list) else [spec.matrix]):
        place = ("matrix", number) if several else ("matrix",)
        yield from _matrix_drafts(value, defaults, place)


def schema() -> dict[str, Any]:
    """Return the JSON schema of spec files, for editors."""
    job, matrix = {"$ref": "#/$defs/job"}, {"$ref": "#/$defs/matrix"}
    several = {"type": "array", "items": matrix}
    combinations = msgspec.json.schema(Combinations)["$defs"]["Combinations"]["properties"]
    return {
        "title": "gputui jobs",
        "type": "object",
        "properties": {
            "defaults": {**job, "description": "defaults for all jobs here"},
            "job": {"type": "array", "items": job, "description": "the jobs"},
            "matrix": {"anyOf": [matrix, several], "description": "a job for each combination of parameters"},
        },
        "additionalProperties": False,
        "$defs": {"job": table_schema(), "matrix": table_schema(combinations)},
    }
