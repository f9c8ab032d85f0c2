"""GPUPeasy's batches: `NAME;; OUTFILE;; COMMAND;;;`, all of them or none.

Its document promises shell commands, and shell commands they are here; its program ran them without a shell.
"""

from __future__ import annotations

import shlex

from gputui.core.amounts import counted

from .command_list import read_whole
from .documents import BadTable
from .job_table import checked_command
from .settings import JobSettings
from .source import BadInput, Draft, shown
from .values import BadValue, text

__all__ = ["parse_batch", "read_batch"]


def read_batch(path: str) -> list[Draft]:
    return parse_batch(read_whole(path, "a batch"), path)


def parse_batch(data: bytes, origin: str) -> list[Draft]:
    """All jobs; every error is told, and one is enough to refuse the batch."""
    batch = _decoded(data, origin)
    drafts: list[Draft] = []
    errors: list[str] = []
    line = 1
    for written in batch.split(";;;"):
        begins = line + written[: len(written) - len(written.lstrip())].count("\n")
        line += written.count("\n")
        if not written.strip():
            continue
        try:
            drafts.append(_draft(written, begins))
        except (BadValue, BadTable) as bad:
            errors.append(f"{shown(origin)}, line {begins}: {bad}")
    errors += _twice(drafts, origin)
    if errors:
        more = f" ({counted(len(errors) - 1, 'more job is', 'more jobs are')} wrong)" if len(errors) > 1 else ""
        raise BadInput(f"{errors[0]}{more}")
    if not drafts:
        raise BadInput(f"{shown(origin)} holds no jobs; write NAME;; OUTFILE;; COMMAND;;;")
    return drafts


def _decoded(data: bytes, origin: str) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput.at(
            origin, line, f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def _draft(written: str, line: int) -> Draft:
    parts = [stripped for part in written.split(";;") if (stripped := part.replace("\n", " ").strip())]
    if len(parts) != 3:
        raise BadValue(f"a job has three parts, NAME;; OUTFILE;; COMMAND;;; but this one has {len(parts)}")
    name, outfile, command = parts
    return Draft(checked_command(_closed(command)), line, JobSettings(name=text(name), outfile=text(outfile)))


def _closed(command: str) -> str:
    """An open quote would reach over the end of the job."""
    try:
        shlex.split(command)
    except ValueError:
        raise BadValue(f"a quote is not closed in {command!r}; close it") from None
    return command


def _twice(drafts: list[Draft], origin: str) -> list[str]:
    first: dict[str | None, int] = {}
    fields: list[str] = []
    for draft in drafts:
        outfile = draft.settings.outfile
        if outfile in first:
            fields.append(
                f"{shown(origin)}, line {draft.line}: {outfile} is the outfile of line {first[outfile]} already"
            )
        first.setdefault(outfile, draft.line)
    return fields
