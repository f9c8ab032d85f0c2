"""Read tables that programs print, with their headers and rows."""

from __future__ import annotations

from msgspec import Struct

from gputui.core.regex import lazy_regex
from gputui.core.results import name_words

from .findings import LineFindings, NamedNumber, NameKind, kind_of, number_of

# Tables


_BARS = lazy_regex(r"[|│┃║]")
_BORDER = lazy_regex(r"[\s|+:=\-_─━═┄│┃║┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬┏┓┗┛┡┩┢┪╇┳┻╭╮╰╯╞╡╪]+$")
_WIDE = lazy_regex(r"\S+(?: \S+)*")
_WORD = lazy_regex(r"\S+")
_NUMBER = lazy_regex(r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|nan|inf|NaN)%?$")
_NAME = lazy_regex(r"[A-Za-z#][\w@#%/().:+-]*(?<!:)(?: [\w@#%/().:+-]+(?<!:)){0,3}$")
_MODEL_WORDS = frozenset({"params", "param", "layer", "shape", "type", "parameters", "mem", "memory", "pid", "process"})
_RESULT_ROWS = frozenset(
    {"all", "mean", "macro", "micro", "weighted", "accuracy", "miou", "overall", "avg", "average", "total"}
)


class Table(Struct):
    """The layout of a table according to its header."""

    names: list[str]
    starts: list[int]
    ends: list[int]
    form: str
    """The separator between columns: `bars`, `commas` or `blanks`."""
    group: str = ""


def is_border(line: str) -> bool:
    return _BORDER.match(line) is not None


def cells_of(line: str) -> list[str] | None:
    """Return the cells of a line that begins and ends with a bar, or None for other lines."""
    text = line.strip()
    if len(text) < 3 or text[0] not in "|│┃║" or text[-1] not in "|│┃║":
        return None
    return [cell.strip() for cell in _BARS.split(text[1:-1])]


def header_of(line: str) -> Table | None:
    """Return the table that a header line describes, or None if the line is not the header of a table of results."""
    bars = cells_of(line)
    if bars is not None:
        return _table(bars, [0] * len(bars), [0] * len(bars), "bars")
    names = [name.strip() for name in line.split(",")]
    if len(names) > 1 and not any(" " in name for name in names):
        return _table(names, [0] * len(names), [0] * len(names), "commas")
    wide = list(_WIDE.finditer(line)) if "  " in line.strip() else []
    loose = any(kind_of(title[0]) is NameKind.UNKNOWN and " " in title[0] for title in wide)
    glued = any(
        " " in title[0] and all(kind_of(word) is NameKind.METRIC for word in title[0].split()) for title in wide
    )
    if not wide or glued or (loose and (len(wide) < 3 or any(title[0].count(" ") > 1 for title in wide))):
        wide = list(_WORD.finditer(line))
    names = _without_groups([title[0] for title in wide])
    return _table(names, [title.start() for title in wide], [title.end() for title in wide], "blanks")


def _without_groups(names: list[str]) -> list[str]:
    """Remove groups such as `Box` in `Box(P R mAP50) Mask(P R mAP50)` from the names of columns.

    If a name occurs again in a later group, the group's name is put before it.
    """
    group, plain_names = "", list[str]()
    for name in names:
        start, bracket, rest = name.partition("(")
        if bracket and ")" not in rest:
            group, name = start, rest
        inner = name.removesuffix(")") if "(" not in name else name
        plain_names.append(f"{group} {inner}".strip() if inner in plain_names else inner)
        if inner != name:
            group = ""
    return plain_names


def _table(names: list[str], starts: list[int], ends: list[int], form: str) -> Table | None:
    written = [name for name in names if name]
    if len(written) < 2 or not all(_NAME.match(name) for name in written) or any(map(_has_value, written)):
        return None
    metrics = sum(kind_of(name) is NameKind.METRIC for name in written)
    if not metrics and not (len(written) >= 4 and kind_of(written[0]) is NameKind.COORDINATE and form == "blanks"):
        return None
    short = sum(kind_of(name) is NameKind.UNKNOWN and len(name) <= 2 for name in written)
    if form == "blanks" and short and (metrics < 2 or short * 3 > len(written)):
        return None
    return Table(names, starts, ends, form)


def _has_value(cell: str) -> bool:
    """Return whether a cell contains a value, as `loss 2.85` and `epoch 1/10` do. `AP 50` may be a name."""
    name, _, last = cell.rpartition(" ")
    if not name or not _NUMBER.match(last.partition("/")[0]):
        return False
    return not last.isdigit() or kind_of(name) is NameKind.COORDINATE


def _cells(line: str, table: Table) -> list[str] | None:
    if table.form == "bars":
        cells = cells_of(line)
        return cells if cells is not None and len(cells) == len(table.names) else None
    if table.form == "commas":
        cells = [cell.strip() for cell in line.split(",")]
        return cells if len(cells) == len(table.names) else None
    wide = [match[0] for match in _WIDE.finditer(line)]
    words = [match[0] for match in _WORD.finditer(line)]
    return next((cells for cells in (wide, words) if len(cells) == len(table.names)), None) or _aligned(line, table)


def _aligned(line: str, table: Table) -> list[str] | None:
    """Assign each cell of a line to the column that it overlaps. There may be a label to the left of all columns."""
    cells = [""] * len(table.names)
    label = ""
    for match in _WIDE.finditer(line):
        if match.end() < table.starts[0] or (
            not label and not _NUMBER.match(match[0]) and match.start() < table.starts[0]
        ):
            label = match[0]
            continue
        touched = [
            i for i in range(len(cells)) if match.start() < table.ends[i] + 2 and match.end() > table.starts[i] - 2
        ]
        if len(touched) != 1 or cells[touched[0]]:
            return None
        cells[touched[0]] = match[0]
    return [*cells, label] if label else cells


def _bare(cells: list[str] | None) -> list[str] | None:
    """Remove the brackets of cells that consist of a list with a single number."""
    return cells and [cell.strip("[ ]") if _NUMBER.match(cell.strip("[ ]")) else cell for cell in cells]


def read_row(line: str, table: Table, findings: LineFindings) -> bool:
    """Add the values of a row to the findings. Return False if the line is not a row of this table."""
    cells = _bare(_cells(line, table))
    if cells is None or not any(_NUMBER.match(cell) for cell in cells):
        return False
    label = cells.pop() if len(cells) > len(table.names) else ""
    if not label and cells and cells[0] and not number_of(cells[0].split()[0].split("/")[0]) and cells[0][:1].isalpha():
        label = cells[0]
    if label and not _RESULT_ROWS.intersection(name_words(label)):
        return True
    _add_row(table, cells, label if name_words(label) and name_words(label)[0] != "all" else "", findings)
    return True


def _add_row(table: Table, cells: list[str], label: str, findings: LineFindings) -> None:
    for name, cell in zip(table.names, cells, strict=True):
        value = number_of(cell) if _NUMBER.match(cell) else None
        first = number_of(cell.split()[0].split("/")[0]) if cell else None
        if kind_of(name) is NameKind.COORDINATE or name in ("#", "E") or name.lower().startswith("step"):
            if first is not None:
                findings.coordinate(name if kind_of(name) is NameKind.COORDINATE else "step", first)
        elif value is not None and name:
            full_name = label if label.lower() == "accuracy" else f"{label} {name}" if label else name
            findings.named.append(NamedNumber(full_name, value, True, cell.isdigit(), None, "%" * cell.endswith("%")))


MOST_ROWS = 200


def is_box_row(line: str) -> bool:
    cells = cells_of(line)
    return cells is not None and len(cells) == 2 and bool(cells[0])


def read_boxed(line: str, table: Table | None, findings: LineFindings) -> str | None:
    """Read a row of a boxed table with two columns: a name and its value.

    Return the heading that applies to the rows below, or None if the line is not a row. `findings` are the findings of
    the whole box, because the step may come last.
    """
    cells = cells_of(line)
    group = table.group if table is not None else ""
    if cells is None or not is_box_row(line):
        return None
    if not cells[1]:
        return cells[0] if cells[0].endswith("/") else group
    findings.structured = findings.structured or bool(group)
    value = number_of(cells[1]) if _NUMBER.match(cells[1]) else None
    if value is not None:
        indented = group and line.partition(cells[0])[0].endswith("  ")
        if kind_of(cells[0]) is NameKind.COORDINATE:
            findings.coordinate(cells[0], value)
        else:
            findings.named.append(
                NamedNumber(f"{group}{cells[0]}" if indented else cells[0], value, True, cells[1].isdigit(), None)
            )
    return group


def is_model_summary(line: str) -> bool:
    if any(sign.isdigit() for sign in line) or ":" in line:
        return False
    return len(cells_of(f"|{line}|") or ()) > 2 and bool(_MODEL_WORDS.intersection(name_words(line)))


# Tables whose rows are results


FORM = "rows"
_NAMING = frozenset({"metric", "metrics", "measure", "name", "quantity"})
_VALUES = frozenset({"value", "values", "score", "result", "mean"})


def _row_cells(line: str) -> list[str] | None:
    """Return the cells of a row. The bars at both ends may be missing."""
    return cells_of(line) or (cells_of(f"|{line}|") if "|" in line else None)


def header_of_rows(line: str) -> Table | None:
    cells = _row_cells(line)
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
    words = name_words(cell)
    if len(words) == 1 and words[0] in _NAMING:
        return "name"
    if len(words) == 1 and words[0] in _VALUES:
        return "value"
    return "phase" if kind_of(cell) is NameKind.PHASE else ""


def read_named_row(line: str, table: Table, findings: LineFindings) -> bool:
    """Add the results of a row to the findings. A text in the first column also applies to the rows below."""
    cells = _row_cells(line)
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
