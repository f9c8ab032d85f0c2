"""What one line after the other says: remembers header, step and settings of the lines before. Knows no bytes."""

from __future__ import annotations

import re

from msgspec import Struct, field
from msgspec.structs import replace

from .course import Course
from .drawn_bars import count_drawn
from .found import Counter, LineFindings, NamedNumber
from .lines import read_line
from .mappings import mapping_in, read_mapping
from .names import eval_phase
from .prefixes import peeled
from .reading import MetricReading
from .row_tables import header_of_rows, read_named_row
from .tables import Table, cells_of, header_of, is_border, is_model_summary, read_boxed, read_row
from .tokens import number_of

__all__ = ["Context", "read"]

MOST_PENDING = 64
LONGEST_TABLE = 2000
LONGEST_HEADING = 300
FEWEST_COLUMNS = 3
"""Of a table whose header may have several lines."""
_TELLING = re.compile(r"\d|\bnan\b|\binf\b", re.IGNORECASE)
_BAR = re.compile(
    r"(?P<desc>.*?)\s*(?P<percent>\d{1,3})%\|[^|]*\|\s*(?P<done>[\d.]+)(?P<unit>[kKMGT]?)/(?P<total>[\d.]+)[kKMGT]?B?\s*\[(?P<inside>.*)\]\s*$"
)
_CODE = re.compile(
    r"^\s*(?:File \"|Traceback|warnings\.warn|usage:|\^+$|Step \d+/\d+ : )|(?:^|\s)--[a-z][\w-]+[= ]"
    r"|\[HYDRA\]|Namespace\(|^\s*\w+ \($"
)
_SENTENCE_OF_CHANGE = re.compile(
    r"['\"]?(?P<name>[A-Za-z][\w/ @.-]*?)['\"]?\s+(?:has\s+)?(?:improved|decreased|increased|reduced)\s*(?:from|\()\s*"
    r"[-+\w.]+\s*(?:to|-+>|→)\s*(?P<value>[-+]?\d[\d.]*(?:e[-+]?\d+)?)",
    re.IGNORECASE,
)
_PART_DONE = re.compile(
    r"\s*(?:(?:step\s*)?[\d,]{1,12} \(|progress\s*[:=]?\s*)(?P<percent>\d{1,3}(?:\.\d+)?)%", re.IGNORECASE
)
_PART_OF_EPOCH = re.compile(r".{0,40}\bepoch\W{0,3}\d{1,9}\W{1,4}(?P<percent>\d{1,3}(?:\.\d+)?)%", re.IGNORECASE)
_PAIRS = re.compile(r"[\w/@.-]{1,60}[:=]\s{0,4}[-+\d.e]+%?")
_SHORT = {"ev": "eval", "va": "val", "te": "test", "tr": "train"}
_HEADING = re.compile(
    r"\W*(?:running |begin(?:ning)? |start(?:ing)? )?(?P<phase>eval\w*|valid\w*|test\w*|train\w*)\b"
    r"[^=|]*(?:\.\.\.|:|\*{3,}|-{3,}|={3,})\s*$",
    re.IGNORECASE,
)
_COCO = re.compile(
    r"\s*Average (?:Precision|Recall)\s+\((?P<name>A[PR])\) @\[ (?P<what>[^\]]*)\] = (?P<value>-?[\d.]+)"
)


class Context(Struct):
    """What lines before this one said that holds for it."""

    table: Table | None = None
    rows: int = 0
    heading: list[str] = field(default_factory=list)
    """The cells of the lines just above, if they are words: a header may have several lines."""
    step: float | None = None
    rank: int = 0
    traceback: bool = False
    settings: bool = False
    phase: str | None = None
    """Of a heading above: `Evaluating …`."""
    bare: list[str] = field(default_factory=list)
    """Names that were printed under no heading."""
    pending: list[MetricReading] = field(default_factory=list)
    course: Course = field(default_factory=Course)


def read(line: str, context: Context) -> list[MetricReading]:
    if context.traceback or "Traceback (most" in line:
        context.traceback = line[:1] in (" ", "\t") or "Traceback (most" in line
        return []
    if not line.strip() or is_border(line):
        return []
    body, phase = peeled(line)
    if _CODE.search(body) is not None or _CODE.search(line) is not None:
        context.settings = body.rstrip().endswith("(")
        return []
    if context.settings:
        context.settings = body[:1] != ")"
        return []
    findings = LineFindings(phase=phase)
    _read_body(body, context, findings)
    if not findings.named and len(body) <= LONGEST_HEADING and (heading := _HEADING.match(body)) is not None:
        context.phase = _SHORT[heading["phase"].lower()[:2]]
    elif _tells_where(findings):
        context.phase = None
    if not eval_phase(context.phase):
        count_drawn(body, findings)
        context.course.take(findings)
    if (part := _PART_DONE.match(body)) is not None and not eval_phase(findings.phase):
        context.course.job = min(1.0, float(part["percent"]) / 100)
    elif "%" in body and (part := _PART_OF_EPOCH.match(body)) is not None and not eval_phase(findings.phase):
        context.course.part = min(1.0, float(part["percent"]) / 100)
    return _placed(findings, context)


def _tells_where(findings: LineFindings) -> bool:
    """Its own phase or epoch: what a heading above it said is over."""
    return findings.phase is not None or any(rank == 1 for rank, _ in findings.coordinates)


def _placed(findings: LineFindings, context: Context) -> list[MetricReading]:
    step = findings.step()
    if step is not None:
        context.step = step
    return _under_heading(
        findings.judged(context.step, goes_on=context.step is not None or bool(context.bare)), context
    )


def _under_heading(readings: list[MetricReading], context: Context) -> list[MetricReading]:
    """Below `Evaluating …` a name that was printed before means something else than it did."""
    if eval_phase(context.phase):
        return [
            replace(reading, name=f"{context.phase}_{reading.name}") if reading.name in context.bare else reading
            for reading in readings
        ]
    context.bare += [reading.name for reading in readings if reading.name not in context.bare][
        : MOST_PENDING - len(context.bare)
    ]
    return readings


def _read_body(body: str, context: Context, findings: LineFindings) -> None:
    if (bar := _BAR.match(body)) is not None:
        _read_bar(bar, context, findings)
    elif (place := mapping_in(body)) is not None:
        read_line(body[: place[0]], findings)
        read_mapping(body, *place, findings)
    elif (coco := _COCO.match(body)) is not None:
        _read_coco(coco, findings)
    elif (change := _SENTENCE_OF_CHANGE.search(body)) is not None:
        read_line(f"{body[: change.start()]}, {change['name']}: {change['value']}", findings)
    elif not _read_table(body, context, findings) and _TELLING.search(body) is not None:
        read_line(body, findings)


def _read_coco(coco: re.Match[str], findings: LineFindings) -> None:
    value = number_of(coco["value"])
    if value is not None:
        what = " ".join(coco["what"].split()).replace("= ", "=")
        findings.named.append(NamedNumber(f"{coco['name']} @[ {what} ]", value))


def _read_table(body: str, context: Context, findings: LineFindings) -> bool:
    if is_model_summary(body):
        context.table = Table([], [], [], "model")
        return True
    if context.table is not None and context.table.form == "model":
        if "|" in body:
            return True
        context.table = None
    if context.table is not None and context.table.names and _read_row(body, context.table, findings):
        return True
    body = _with_heading(body, context)
    group = read_boxed(body, context.table, findings)
    if group is not None:
        context.table = Table([], [], [], "box", group)
        return True
    header = header_of_rows(body)
    if header is None and (not _TELLING.search(body) or "," in body or "  " in body or "|" in body):
        header = header_of(body)
    if header is not None:
        context.table = header
    return header is not None


def _read_row(body: str, table: Table, findings: LineFindings) -> bool:
    return read_named_row(body, table, findings) if table.form == "rows" else read_row(body, table, findings)


def _with_heading(body: str, context: Context) -> str:
    """The line with the words that stand above its own in the same columns."""
    cells = cells_of(body)
    if cells is None or len(cells) < FEWEST_COLUMNS or _TELLING.search(body) is not None:
        context.heading = []
        return body
    if len(context.heading) == len(cells) and context.table is None:
        cells = [f"{above} {cell}".strip() for above, cell in zip(context.heading, cells, strict=True)]
    context.heading = cells
    return f"|{'|'.join(cells)}|"


def _read_bar(bar: re.Match[str], context: Context, findings: LineFindings) -> None:
    desc = bar["desc"]
    if (header := header_of(desc.rstrip(" :"))) is not None and len(header.names) >= 3:
        context.table = header  # some draw a bar behind the names of their columns
        return
    if not (context.table is not None and context.table.names and read_row(desc, context.table, findings)):
        read_line(desc, findings)
        words = _PAIRS.sub("", desc).strip(" |,")
    else:
        words = ""
        first = re.match(r"\s*(\d+)/(\d+)\s", desc)
        if first is not None:
            findings.counters.append(Counter("epoch ", float(first[1]), float(first[2])))
            findings.coordinate("epoch", float(first[1]))
    inside, phase = bar["inside"], findings.phase
    postfix = inside.split(", ", 1)[1] if ", " in inside else ""
    rate, _, rest = postfix.partition(", ")
    if "/s" in rate or "s/" in rate or "?" in rate:
        postfix = rest
    read_line(postfix, findings)
    total = number_of(bar["total"]) or 0.0
    done = number_of(bar["done"]) or 0.0
    if total > 0 and not bar["unit"] and "B/s" not in inside:
        findings.counters.append(
            Counter(words.rstrip(" :"), done, total, bar=True, opens=not words.strip(), phase=phase)
        )
        if not any(rank == 1 for rank, _ in findings.coordinates) and not eval_phase(findings.phase):
            findings.coordinates.append((0, done))
