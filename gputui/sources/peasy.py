"""GPUPeasy's batches: `NAME;; OUTFILE;; COMMAND;;;`.

Commands are run by a shell, as GPUPeasy's documentation says. GPUPeasy itself did not do that.
"""

from __future__ import annotations

import shlex

from gputui.core.amounts import counted

from .command_list import decoded, read_whole
from .documents import BadTable, checked_command
from .settings import JobSettings
from .source import BadInput, Draft, shown
from .values import BadValue, text


def read_batch(path: str) -> list[Draft]:
    return parse_batch(read_whole(path, "a batch"), path)


def parse_batch(data: bytes, origin: str) -> list[Draft]:
    """Return all jobs in a batch. A single error rejects the whole batch."""
    batch = decoded(data, origin).replace("\r\n", "\n").replace("\r", "\n")
    drafts: list[Draft] = []
    first_lines: dict[str | None, int] = {}
    errors: list[str] = []
    line = 1
    for written in batch.split(";;;"):
        begins = line + written[: len(written) - len(written.lstrip())].count("\n")
        line += written.count("\n")
        if not written.strip():
            continue
        try:
            draft = _draft(written)
            outfile = draft.settings.outfile
            if outfile in first_lines:
                raise BadValue(f"outfile {outfile} is already used on line {first_lines[outfile]}; choose another")
            first_lines[outfile] = begins
            drafts.append(draft)
        except (BadValue, BadTable) as bad:
            errors.append(f"{shown(origin)}, line {begins}: {bad}")
    if errors:
        more = f" ({counted(len(errors) - 1, 'more job is', 'more jobs are')} invalid)" if len(errors) > 1 else ""
        raise BadInput(f"{errors[0]}{more}")
    if not drafts:
        raise BadInput(f"no jobs in {shown(origin)}; write NAME;; OUTFILE;; COMMAND;;;")
    return drafts


def _draft(written: str) -> Draft:
    parts = [stripped for part in written.split(";;") if (stripped := part.replace("\n", " ").strip())]
    if len(parts) != 3:
        raise BadValue(f"a job needs three parts, NAME;; OUTFILE;; COMMAND;;; but this one has {len(parts)}")
    name, outfile, command = parts
    try:
        shlex.split(command)
    except ValueError:
        raise BadValue(f"unclosed quote in {command!r}") from None
    return Draft(checked_command(command), JobSettings(name=text(name), outfile=text(outfile)))
