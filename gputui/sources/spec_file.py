"""Spec files: jobs as TOML or YAML, with defaults and a matrix."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from .documents import BadTable, Place, SpecDocument, bad_input, converted, read_document
from .job_table import JobTable, checked_command, read_table, table_schema
from .settings import JobSettings, Scalar, written
from .source import BadInput, Draft, shown
from .sweep import CommandPattern, Sampling, Sweep, values_of
from .values import BadValue

# ---- A matrix in a spec file ----


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
        reason = f"{min(unknown)!r} is not a parameter of this matrix" if unknown else "it would leave out everything"
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


# ---- Spec files ----


class SpecFile(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A whole file; what its tables hold is read one by one."""

    defaults: dict[str, Any] = {}
    job: list[Any] = []
    matrix: dict[str, Any] | list[Any] = []


def read_spec(path: str) -> list[Draft]:
    """All jobs of a file; BadInput if anything in it is wrong."""
    return parse_spec(read_document(path))


def parse_spec(document: SpecDocument) -> list[Draft]:
    try:
        drafts = list(_drafts(converted(document.value or {}, SpecFile), document))
    except BadTable as bad:
        raise bad_input(document.origin, document.line(bad.place), bad) from None
    if not drafts:
        raise BadInput(f"{shown(document.origin)} holds no jobs; write them as [[job]] or [matrix]")
    return drafts


def _drafts(spec: SpecFile, document: SpecDocument) -> Iterator[Draft]:
    defaults = read_table(spec.defaults, ("defaults",))
    for number, value in enumerate(spec.job):
        place: Place = ("job", number)
        job = read_table(value, place)
        settings = job.settings.over(defaults.settings)
        yield Draft(_command(place, job, defaults), document.line(place) or number + 1, settings)
    several = isinstance(spec.matrix, list)
    for number, value in enumerate(spec.matrix if isinstance(spec.matrix, list) else [spec.matrix]):
        place = ("matrix", number) if several else ("matrix",)
        matrix = read_matrix(value, place)
        try:
            yield from drafts_of(matrix, defaults, document.line(place) or 1)
        except BadTable as bad:
            raise BadTable(str(bad), (*place, *bad.place)) from None


def _command(place: Place, job: JobTable, defaults: JobTable) -> str:
    """A task needs no command of its own."""
    task = job.settings.task or defaults.settings.task
    try:
        return checked_command(job.command or defaults.command or task)
    except BadTable as bad:
        raise BadTable(str(bad), place) from None


def schema() -> dict[str, Any]:
    """The JSON schema of spec files, for editors."""
    job, matrix = {"$ref": "#/$defs/job"}, {"$ref": "#/$defs/matrix"}
    several = {"type": "array", "items": matrix}
    return {
        "title": "gputui jobs",
        "type": "object",
        "properties": {
            "defaults": {**job, "description": "for all jobs of this file"},
            "job": {"type": "array", "items": job, "description": "the jobs"},
            "matrix": {"anyOf": [matrix, several], "description": "a job for each combination of parameters"},
        },
        "additionalProperties": False,
        "$defs": {"job": table_schema(), "matrix": matrix_schema()},
    }
