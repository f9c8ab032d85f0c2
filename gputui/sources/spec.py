"""Spec files: jobs with every setting, defaults for all of them, and matrices; as TOML or as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from .documents import Document, Place, read_document
from .job_table import JobTable, checked_command
from .matrix import MatrixTable, drafts_of
from .settings import JobSettings
from .source import BadInput, Draft, shown
from .tables import BadTable, bad_input, converted

__all__ = ["SpecFile", "parse_spec", "read_spec", "schema"]


class SpecFile(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole file."""

    defaults: Annotated[JobTable, Meta(description="for all jobs of this file")] = JobTable()
    job: Annotated[list[JobTable], Meta(description="the jobs")] = []
    matrix: Annotated[
        MatrixTable | list[MatrixTable], Meta(description="a job for each combination of parameters")
    ] = []


def read_spec(path: str) -> list[Draft]:
    """All jobs of a file; BadInput if anything in it is wrong."""
    return parse_spec(read_document(path))


def parse_spec(document: Document) -> list[Draft]:
    try:
        drafts = list(_drafts(converted(document.value or {}, SpecFile), document))
    except BadTable as bad:
        raise bad_input(document.origin, document.line(bad.place), bad) from None
    if not drafts:
        raise BadInput(f"{shown(document.origin)} holds no jobs; write them as [[job]] or [matrix]")
    return drafts


def _drafts(spec: SpecFile, document: Document) -> Iterator[Draft]:
    defaults = _at(("defaults",), spec.defaults)
    for number, job in enumerate(spec.job):
        place: Place = ("job", number)
        settings = _at(place, job).over(defaults)
        yield Draft(_command(place, job, spec.defaults), document.line(place) or number + 1, settings)
    several = isinstance(spec.matrix, list)
    for number, matrix in enumerate(spec.matrix if isinstance(spec.matrix, list) else [spec.matrix]):
        place = ("matrix", number) if several else ("matrix",)
        try:
            yield from drafts_of(matrix, spec.defaults, document.line(place) or 1)
        except BadTable as bad:
            raise BadTable(str(bad), (*place, *bad.place)) from None


def _at(place: Place, table: JobTable) -> JobSettings:
    try:
        return table.settings()
    except BadTable as bad:
        raise BadTable(str(bad), (*place, *bad.place)) from None


def _command(place: Place, job: JobTable, defaults: JobTable) -> str:
    """A task needs no command of its own."""
    task = job.task or defaults.task
    try:
        return checked_command(job.command or defaults.command or task)
    except BadTable as bad:
        raise BadTable(str(bad), place) from None


def schema() -> bytes:
    """The JSON schema of spec files, for editors."""
    import msgspec

    found = msgspec.json.schema(SpecFile)
    return msgspec.json.format(msgspec.json.encode({"title": "gputui jobs", **found})) + b"\n"


if __name__ == "__main__":
    print(schema().decode(), end="")
