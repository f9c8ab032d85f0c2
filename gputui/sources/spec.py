"""Spec files: jobs with every setting, defaults for all of them, and matrices; as TOML or as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from .documents import Place, SpecDocument, read_document
from .job_table import JobTable, checked_command, read_table, table_schema
from .matrix import drafts_of, matrix_schema, read_matrix
from .source import BadInput, Draft, shown
from .tables import BadTable, bad_input, converted

__all__ = ["parse_spec", "read_spec", "schema"]


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
