"""Tables whose rows are results: a column names them, others hold the value, or one value for each phase."""

from __future__ import annotations

from gputui.core.metric_names import words_of

from .found import LineFindings, NamedNumber
from .names import NameKind, kind_of
from .tables import Table, cells_of
from .tokens import number_of

__all__ = ["header_of_rows", "read_named_row"]

FORM = "rows"
_NAMING = frozenset({"metric", "metrics", "measure", "name", "quantity"})
_VALUES = frozenset({"value", "values", "score", "result", "mean"})


def _cells(line: str) -> list[str] | None:
    """Some draw no bars at the ends."""
    return cells_of(line) or (cells_of(f"|{line}|") if "|" in line else None)


def header_of_rows(line: str) -> Table | None:
    cells = _cells(line)
    if cells is None or any(sign.isdigit() for sign in line):
        return None
    roles = [_role(cell) for cell in cells]
    if "name" not in roles and len([role for role in roles if role == "phase"]) == len(cells) > 1:
        cells, roles = ["", *cells], ["name", *roles]
    if "name" not in roles and not cells[0] and "phase" in roles:
        roles[0] = "name"
    if roles.count("name") != 1 or not {"phase", "value"}.intersection(roles):
        return None
    return Table(cells, [], [], FORM)


def _role(cell: str) -> str:
    words = words_of(cell)
    if len(words) == 1 and words[0] in _NAMING:
        return "name"
    if len(words) == 1 and words[0] in _VALUES:
        return "value"
    return "phase" if kind_of(cell) is NameKind.PHASE else ""


def read_named_row(line: str, table: Table, findings: LineFindings) -> bool:
    """Adds the results of a row; what the first column says holds until it says something else."""
    cells = _cells(line)
    if table.form != FORM or cells is None or len(cells) != len(table.names):
        return False
    roles = [_role(cell) for cell in table.names]
    naming = roles.index("name") if "name" in roles else 0
    if naming and cells[0] and number_of(cells[0]) is None:
        table.group = f"{cells[0]} "
    for role, heading, cell in zip(roles, table.names, cells, strict=True):
        value = number_of(cell) if role in ("phase", "value") and cell else None
        if value is not None and cells[naming] and kind_of(cells[naming]) is not NameKind.COORDINATE:
            phase = f"{heading} " if role == "phase" else ""
            findings.named.append(NamedNumber(f"{phase}{table.group}{cells[naming]}", value, whole=cell.isdigit()))
    return True
