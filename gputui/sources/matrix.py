"""A matrix in a spec file: a job for each combination of parameters, some left out, some added."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from .documents import Place
from .job_table import JobTable, checked_command, read_table, table_schema
from .pattern import CommandPattern
from .ranges import values_of
from .settings.setting import Scalar, written
from .settings.table import JobSettings
from .source import BadInput, Draft
from .sweep import Sampling, Sweep
from .tables import BadTable, converted
from .values import BadValue

__all__ = ["MOST_JOBS", "Matrix", "drafts_of", "matrix_schema", "read_matrix"]

MOST_JOBS = 1_000_000
Params = dict[str, str]
Values = list[str | int | float | bool] | str
Row = dict[str, str | int | float | bool]
_FILLED = ("name", "outfile", "cwd")


class Combinations(Struct, kw_only=True, frozen=True):
    """Which ones a matrix has a job for."""

    parameters: Annotated[
        dict[str, Values], Meta(description="each with its values, or a range: 0..9, lin:0:1:5, log:1e-5:1e-1:5")
    ] = {}
    exclude: Annotated[list[Row], Meta(description="combinations left out")] = []
    include: Annotated[list[Row], Meta(description="combinations added")] = []
    n_samples: Annotated[int, Meta(ge=0, description="only so many, drawn at random")] | None = None
    seed: Annotated[int, Meta(description="draw the same ones again")] | None = None


class Matrix(Struct, frozen=True):
    """Settings for all its jobs; {names} in command, name, outfile, cwd and env stand for the parameters."""

    combinations: Combinations
    table: JobTable


def read_matrix(value: object, place: Place) -> Matrix:
    """BadTable with the place of what is wrong."""
    own = Combinations.__struct_fields__
    table = converted(value, dict[str, Any], place)
    combinations = converted({key: entry for key, entry in table.items() if key in own}, Combinations, place)
    return Matrix(combinations, read_table(table, place, own))


def matrix_schema() -> dict[str, Any]:
    own = msgspec.json.schema(Combinations)["$defs"]["Combinations"]["properties"]
    return table_schema(own)


def drafts_of(matrix: Matrix, defaults: JobTable, line: int) -> Iterator[Draft]:
    wanted = matrix.combinations
    if not wanted.parameters and not wanted.include:
        raise BadTable("it has no parameters; write [matrix.parameters] with lists of values")
    combinations = [*_chosen(wanted), *_included(wanted)]
    names = {name: None for params in combinations for name in params} or dict.fromkeys(wanted.parameters)
    command = checked_command(matrix.table.command or defaults.command)
    patterns = _patterns(matrix.table.settings, command, names)
    base = matrix.table.settings.over(defaults.settings)
    for params in combinations:
        yield _draft(params, patterns, base, line)


def _draft(params: Params, patterns: dict[str, CommandPattern], base: JobSettings, line: int) -> Draft:
    filled = {key: _fill(pattern, params, key) for key, pattern in patterns.items()}
    command = checked_command(filled.pop("command"))
    variables = {key[4:]: filled.pop(key) for key in list(filled) if key.startswith("env.")}
    changes: dict[str, Any] = dict(filled)
    if variables:
        changes["variables"] = {**(base.variables or {}), **variables}
    return Draft(command, line, replace(base, **changes), params)


def _patterns(settings: JobSettings, command: str, names: Iterable[str]) -> dict[str, CommandPattern]:
    texts = {key: value for key in _FILLED if (value := getattr(settings, key)) is not None}
    texts |= {f"env.{key}": value for key, value in (settings.variables or {}).items()}
    return {key: _pattern(value, names, key) for key, value in {"command": command, **texts}.items()}


def _pattern(text: str, names: Iterable[str], key: str) -> CommandPattern:
    try:
        return CommandPattern(text, names)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _fill(pattern: CommandPattern, params: Params, key: str) -> str:
    missing = pattern.used - params.keys()
    if missing:
        raise BadTable(f"{key}: a combination has no {min(missing)}; give it one", ("include",))
    try:
        return pattern.fill(params)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _chosen(matrix: Combinations) -> list[Params]:
    """The grid in its order without what is excluded, or a sample of that."""
    if not matrix.parameters:
        return []
    try:
        grid = Sweep(
            "x", {key: _values(key, values) for key, values in matrix.parameters.items()}, sampling=Sampling.GRID
        )
    except BadInput as bad:
        raise BadTable(str(bad), ("parameters",)) from None
    if grid.grid_size > MOST_JOBS:
        raise BadTable(f"{grid.grid_size} combinations are too many; the most are {MOST_JOBS}", ("parameters",))
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
        reason = f"{min(unknown)!r} is no parameter of this matrix" if unknown else "it would leave out everything"
        raise BadTable(f"exclude: {reason}", ("exclude", number, *sorted(unknown)[:1]))
    return _texts(row)


def _included(matrix: Combinations) -> list[Params]:
    return [_texts(row) for row in matrix.include]


def _texts(row: dict[str, Scalar]) -> Params:
    return {key: written(value) for key, value in row.items()}


def _values(key: str, values: Values) -> list[str]:
    if isinstance(values, list):
        return [written(value) for value in values]
    try:
        return list(values_of(values))
    except BadValue as bad:
        raise BadTable(f"parameters.{key}: {bad}, or a list of values", ("parameters", key)) from None
