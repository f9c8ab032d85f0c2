"""A matrix in a spec file: a job for each combination of parameters, some left out, some added."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from msgspec import Meta, field
from msgspec.structs import replace

from .job_table import JobTable, Scalar, checked_command, written
from .pattern import Pattern
from .ranges import values_of
from .source import BadInput, Draft
from .sweep import Sampling, Sweep
from .tables import BadTable
from .values import BadValue

__all__ = ["MOST_JOBS", "MatrixTable", "drafts_of"]

MOST_JOBS = 1_000_000
Params = dict[str, str]
Values = list[str | int | float | bool] | str
_FILLED = ("name", "outfile", "cwd")


class MatrixTable(JobTable, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings for all its jobs; {names} in command, name, outfile, cwd and env stand for the parameters."""

    parameters: Annotated[
        dict[str, Values], Meta(description="each with its values, or a range: 0..9, lin:0:1:5, log:1e-5:1e-1:5")
    ] = field(default_factory=dict)
    exclude: Annotated[list[dict[str, str | int | float | bool]], Meta(description="combinations left out")] = field(
        default_factory=list
    )
    include: Annotated[list[dict[str, str | int | float | bool]], Meta(description="combinations added")] = field(
        default_factory=list
    )
    n_samples: Annotated[int, Meta(ge=0, description="only so many, drawn at random")] | None = None
    seed: Annotated[int, Meta(description="draw the same ones again")] | None = None


def drafts_of(matrix: MatrixTable, defaults: JobTable, line: int) -> Iterator[Draft]:
    if not matrix.parameters and not matrix.include:
        raise BadTable("it has no parameters; write [matrix.parameters] with lists of values")
    combinations = [*_chosen(matrix), *_included(matrix)]
    names = {name: None for params in combinations for name in params} or dict.fromkeys(matrix.parameters)
    command = checked_command(matrix.command or defaults.command)
    patterns = _patterns(matrix, command, names)
    base = matrix.settings().over(defaults.settings())
    for params in combinations:
        yield _draft(params, patterns, base, line)


def _draft(params: Params, patterns: dict[str, Pattern], base: Any, line: int) -> Draft:
    filled = {key: _fill(pattern, params, key) for key, pattern in patterns.items()}
    command = checked_command(filled.pop("command"))
    variables = {key[4:]: filled.pop(key) for key in list(filled) if key.startswith("env.")}
    changes: dict[str, Any] = dict(filled)
    if variables:
        changes["variables"] = {**(base.variables or {}), **variables}
    used = {name for pattern in patterns.values() for name in pattern.used}
    told = {name: value for name, value in params.items() if name in used}
    return Draft(command, line, replace(base, **changes), told)


def _patterns(matrix: MatrixTable, command: str, names: Iterable[str]) -> dict[str, Pattern]:
    texts = {key: value for key in _FILLED if (value := getattr(matrix, key)) is not None}
    texts |= {f"env.{key}": value for key, value in (matrix.env or {}).items() if isinstance(value, str)}
    return {key: _pattern(value, names, key) for key, value in {"command": command, **texts}.items()}


def _pattern(text: str, names: Iterable[str], key: str) -> Pattern:
    try:
        return Pattern(text, names)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _fill(pattern: Pattern, params: Params, key: str) -> str:
    missing = pattern.used - params.keys()
    if missing:
        raise BadTable(f"{key}: a combination has no {min(missing)}; give it one", ("include",))
    try:
        return pattern.fill(params)
    except BadInput as bad:
        raise BadTable(f"{key}: {bad}", (key,)) from None


def _chosen(matrix: MatrixTable) -> list[Params]:
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
    kept = [one for one in grid.combinations() if not any(left_out.items() <= one.items() for left_out in excluded)]
    if matrix.n_samples is not None or matrix.seed is not None:
        random.Random(matrix.seed).shuffle(kept)
    return kept[: matrix.n_samples]


def _excluded(number: int, matrix: MatrixTable) -> Params:
    row = matrix.exclude[number]
    unknown = row.keys() - matrix.parameters.keys()
    if unknown or not row:
        reason = f"{min(unknown)!r} is no parameter of this matrix" if unknown else "it would leave out everything"
        raise BadTable(f"exclude: {reason}", ("exclude", number, *sorted(unknown)[:1]))
    return _texts(row)


def _included(matrix: MatrixTable) -> list[Params]:
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
