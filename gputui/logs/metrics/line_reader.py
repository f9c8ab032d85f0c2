"""What one line after the other says, and how far the job is."""

from __future__ import annotations

import re

from msgspec import Struct, field
from msgspec.structs import replace

from .findings import Counter, LineFindings, MetricReading, NamedNumber, eval_phase, number_of
from .named_numbers import mapping_in, read_line, read_mapping
from .tables import (
    MOST_ROWS,
    Table,
    cells_of,
    header_of,
    header_of_rows,
    is_border,
    is_box_row,
    is_model_summary,
    read_boxed,
    read_named_row,
    read_row,
)

# ---- What loggers put before a line ----


_PREFIX = re.compile(
    r"""\s*(?:
    \[?\d{4}[-/]\d\d[-/]\d\d[T ,]*\d\d:\d\d(?::\d\d)?(?:[.,:]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?:[ ](?:INFO|DEBUG|WARNING))?\]?
  | \[?\d\d[/-]\d\d(?:[/-]\d\d(?:\d\d)?)?[ ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:[ ][\w.]+)?\]?
  | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?
  | [IWEF]\d{4}[ ][\d:.]+[ ]+\d+[ ][\w./-]+:\d+\]
  | \[(?:INFO|DEBUG|WARNING|WARN|ERROR)(?:\|[^\]]*)?\](?:[ ][\w.]+:\d+)?
  | (?:INFO|DEBUG|WARNING|WARN)\b(?::\w+(?=:))?
  | \[[^\[\]\d]{0,20}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\[\]]{0,60}:\d+\]
  | wandb(?=:)
  | \(\w+[ ]pid=[^)]*\)(?:\x20)?
  | \[rank:?[ ]?\d+\] | \[Rank[ ]\d+\] | \[node\w*\]
  | \[[\w./-]+\.(?:py|cpp|cc|cu):\d+(?::\w+)?\]
  | [\w./<>-]+:[\w<>.]+:\d+(?=[ ]-)
  | \(\w+:\d+\)
  | (?:mmengine|mmdet|mmseg|root|ppdet\.engine|[a-z_]+(?:\.[a-z_]+)+)(?=[ ]?(?:-|:|INFO|\||\[))
  | [A-Za-z]{1,20}(?=[ ](?:INFO|DEBUG|WARNING)\b)
    )\s*(?:[:|-](?=\s|\|)|>>|:)?""",
    re.VERBOSE,
)
_LOGGER_PHASE = re.compile(r"\s*\|?\s*(?P<phase>train|valid|test)(?:_inner)?\s*\|")


def peeled(line: str) -> tuple[str, str | None]:
    """The line without its prefixes, and the phase if the logger is named after one."""
    at = 0
    while (prefix := _PREFIX.match(line, at)) is not None and prefix.end() > at:
        at = prefix.end()
    phase = _LOGGER_PHASE.match(line, at) if at else None
    return (line[phase.end() :], phase["phase"]) if phase is not None else (line[at:] if at else line, None)


# ---- How far the job is ----


_ASIDE = re.compile(
    r"patience|fold\b|download|loading|shards|map\b|tokeniz|sanity|valid|eval|test|infer|predict|examples|extract|fetch|"
    r"generat(?!ion\b)|resolv|cv\b|collect|preproc|filter|sampling|build|copy|upload|unpack|linking|compil|install|early",
    re.IGNORECASE,
)
"""Loops that are not the training."""
_THINGS = re.compile(
    r"channel|cache|hits|page|correct|counter|rank|worker|gpu|mem|[KMG]i?B\b|B/s|tok/s|images|saved|layers|accuracy|model|"
    r"files|PerSec|\w[:=]\|",
    re.IGNORECASE,
)
"""What is counted is not a loop, unless the counter's own noun says so: `worker-3: iteration 3400/10000`."""
_EPOCH = re.compile(r"(?:epochs?|epoche|époque|[ée]poca|эпоха|轮|エポック|에포크|\bep)\W{0,6}$", re.IGNORECASE)
_STEP = re.compile(
    r"(?:steps?|\bitr?|iter\w*|updates?|episodes?|round|timesteps?|trials?|generation|\btotal|\boverall)(?:\(train\))?\W{0,6}$",
    re.IGNORECASE,
)
_NOUN = re.compile(r"\s*(?:steps?|iter(?:ation)?s?|updates?|episodes?|rounds?|timesteps?)$", re.IGNORECASE)
"""`4200 of 10000 steps`"""
_EPOCH_NOUN = re.compile(r"\s*ep(?:och)?s?$", re.IGNORECASE)
"""`2/20epoch`"""
_TRAINS = re.compile(r"(?:.*\bINFO\b)?\W*train\w*\W*$", re.IGNORECASE)
_BATCH = re.compile(r"\bbatch\s?[:=]\s?$", re.IGNORECASE)
_RANK = re.compile(r"\s*\(\|")
_PART = re.compile(r"(?:batch\w*|(?:epoch|train)\W*\d+\W*|\][\s\[(]*)$|\A\W*\|\W*batch", re.IGNORECASE)
_SLACK = 0.02
"""How much further than its epochs a counter of the whole job may be."""


class Loop(Struct):
    """A counter as it was last printed."""

    done: float
    total: float

    @property
    def fraction(self) -> float:
        return self.done / self.total

    @property
    def is_under_way(self) -> bool:
        return 0 < self.done < self.total


class Course(Struct):
    """How far a job is, from the counters that it prints."""

    epoch: float | None = None
    epochs: float | None = None
    from_zero: bool = False
    job: float | None = None
    """By a counter that names what it counts: steps of the whole job."""
    bar: Loop | None = None
    """A counter that does not say what it counts: the whole job, or one epoch."""
    part: Loop | None = None
    """Of the present epoch."""
    before_epoch: float | None = None
    """The total of a loop that ended before its epoch was printed: when it starts again, the next epoch has begun."""

    @property
    def progress(self) -> float | None:
        if self.job is not None:
            return self.job
        if self.bar is not None and self.bar.is_under_way and self._may_be_job(self.bar.fraction, later=1):
            return self.bar.fraction
        if self.epochs and self.epoch is not None:
            part = 1.0 if self.part is None else self.part.fraction
            ended = self.epoch - (0 if self.from_zero else 1)
            if self.part is not None and self.part.total == self.before_epoch:
                ended += 1
            return min(1.0, max(0.0, (ended + part) / self.epochs))
        loop = self.part or self.bar
        return loop.fraction if loop is not None else None

    def take(self, findings: LineFindings) -> None:
        known_epoch = any(rank == 1 for rank, _ in findings.coordinates)
        counters = [counter for counter in findings.counters if _is_progress(counter, known_epoch)]
        for number, counter in enumerate(counters):
            before = counter.words.rpartition("|")[0] if not counter.bar else counter.words
            if _counts_epochs(counter, before) or (number == 0 and _is_doubled(counters, before)):
                self._count_epochs(counter)
                known_epoch = True
            else:
                self._count(counter, before, known_epoch)

    def tell_part(self, fraction: float) -> None:
        """Of the present epoch, as a percentage."""
        self.part = Loop(fraction * 100, 100)

    def _count_epochs(self, counter: Counter) -> None:
        if counter.bar:
            self._count_ended_epochs(counter)
            return
        if self.epoch is None and self.bar is not None and self.bar.done == self.bar.total:
            self.before_epoch = self.bar.total
        if counter.done != self.epoch:
            self.part = None
        self.from_zero = self.from_zero or counter.done == 0
        self.epoch, self.epochs = counter.done, counter.total

    def _count_ended_epochs(self, counter: Counter) -> None:
        """A bar of epochs counts those that have ended; a bar below it may tell how far the next one is."""
        if counter.done + 1 != self.epoch:
            self.part = Loop(0, 1)
        self.epoch, self.epochs = counter.done + 1, counter.total

    def _count(self, counter: Counter, before: str, known_epoch: bool) -> None:
        loop = Loop(counter.done, counter.total)
        if known_epoch or (counter.percent and _EPOCH.search(before)):
            self._set_part(loop)
        elif _STEP.search(before) or _NOUN.match(counter.words.rpartition("|")[2]):
            if self._may_be_job(loop.fraction) and not self._is_part(loop):
                self.job = loop.fraction
            else:
                self._set_part(loop)
        elif counter.closes or _BATCH.search(before):
            self._set_part(loop)
        elif counter.opens or counter.bar or _TRAINS.match(before):
            self._count_unnamed(loop, counter)
        elif counter.words.rpartition("|")[0].rstrip().endswith(("[", "(")) and _PART.search(before):
            self._set_part(loop)

    def _count_unnamed(self, loop: Loop, counter: Counter) -> None:
        """Of the epoch if that was named when the loop was first seen, or if it started again."""
        if counter.bar and loop.total == self.epochs and self.part is not None and self.part.total != loop.total:
            self._count_ended_epochs(counter)
        elif self._is_part(loop):
            if self.part is None or loop.done >= self.part.done or loop.total == self.before_epoch:
                self._set_part(loop)  # one that starts again is named by a later frame: until then the last one counts
        elif self.bar is not None and self.bar.total == loop.total:
            if loop.done < self.bar.done and self.epochs:
                self._set_part(loop)
            else:
                self.bar = loop
        elif self.epochs:
            self._set_part(loop)
        elif self.bar is None or not self.bar.is_under_way or loop.done:
            self.bar = loop

    def _set_part(self, loop: Loop) -> None:
        """A bar that named no epoch at first, and now does, counted a part of one."""
        if self.bar is not None and self.bar.total == loop.total:
            self.bar = None
        self.part = loop

    def _is_part(self, loop: Loop) -> bool:
        return (self.part is not None and self.part.total == loop.total) or self.before_epoch == loop.total

    def _may_be_job(self, fraction: float, later: int = 0) -> bool:
        """The whole job is not further than its epochs; `later`: epochs that may have begun and were not printed."""
        if not self.epochs or self.epoch is None:
            return True
        return fraction <= (self.epoch + (1 if self.from_zero else 0) + later) / self.epochs + _SLACK


def _counts_epochs(counter: Counter, before: str) -> bool:
    return (_EPOCH.search(before) is not None and not counter.percent) or (
        not counter.bar and _EPOCH_NOUN.match(counter.words.rpartition("|")[2]) is not None
    )


def _is_doubled(counters: list[Counter], before: str) -> bool:
    """`[12/300][120/1251]`, `Train: 1/3 (33%) [49/323 (15%)]`: the first of two counts epochs."""
    if len(counters) == 1 or _STEP.search(before) is not None:
        return False
    if any(_counts_epochs(counter, counter.words.rpartition("|")[0]) for counter in counters[1:]):
        return False
    return counters[0].opens or _TRAINS.match(before) is not None


def _is_progress(counter: Counter, known_epoch: bool) -> bool:
    """`(0/4) Epoch 3` is a rank."""
    is_rank = counter.opens and known_epoch and _RANK.match(counter.words) is not None
    if is_rank or eval_phase(counter.phase) or _ASIDE.search(counter.words) is not None:
        return False
    before = counter.words.rpartition("|")[0]
    names_loop = _EPOCH.search(before) or _STEP.search(before) or _BATCH.search(before)
    return names_loop is not None or _THINGS.search(counter.words) is None


# ---- Bars that programs draw themselves ----


_DRAWN = re.compile(
    r"(?P<words>[^\[|━█\d]{0,60})(?:[\[|](?=[█=#>*.-])[█▓▒░▏▎▍▌▋▊▉=#>*.\s-]{5,200}[\]|]|[━╸╺─]{5,200})"
    r"\s{0,4}(?:(?P<percent>\d{1,3})(?:\.\d{1,4})?\s?%)?"
)


_DRAWN_LATER = re.compile(r"(?P<words>)[━╸╺─]{5,200}\s{0,4}(?P<percent>\d{1,3})(?:\.\d{1,4})?\s?%")
"""`epoch 5/10  loss 1.9  ━━━━╸━━━ 50%`"""


def count_drawn(line: str, findings: LineFindings) -> None:
    """A line that begins with a bar counts with its last counter, or else with the percentage behind the bar."""
    drawn = _DRAWN.match(line)
    if drawn is not None and findings.counters:
        last = findings.counters[-1]
        last.opens, last.words = True, f"{drawn['words']}{last.words}"
        return
    if drawn is None and "━" in line:
        drawn = _DRAWN_LATER.search(line)
    if drawn is not None and drawn["percent"] and (percent := int(drawn["percent"])) <= 100:
        words = f"{drawn['words']}|"
        findings.counters.append(Counter(words, percent, 100, opens=True, percent=True, phase=findings.phase))


# ---- What one line after the other says ----


MOST_PENDING = 64
LONGEST_TABLE = 2000
LONGEST_HEADING = 300
FEWEST_COLUMNS = 3
"""Of a table whose header may have several lines."""
_TELLING = re.compile(r"\d|\bnan\b|\binf\b", re.IGNORECASE)
_BAR = re.compile(
    r"(?P<desc>.*?)\s*(?P<percent>\d{1,3})%(?:\|[^|]*\||\s?[━╸╺─]{5,60})\s*"
    r"(?P<done>[\d.]+)(?P<unit>[kKMGT]?)/(?P<total>[\d.]+)[kKMGT]?B?"
    r"(?:\s*\[(?P<inside>.*)\]|(?: +[\d.]{1,9}(?:\w{1,9}/s|s/\w{1,9}))?(?: +[\d:.]{1,12}s?(?:<[\d:.]{1,12}s?)?)?)\s*$"
)
"""As tqdm draws it, or `67% ━━━━──── 6/9 6.1it/s 1.1s<0.5s`"""
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
    r"\s*(?:(?:step\s*)?[\d,]{1,12} \(|progress\s*[:=]?\s*|(?=[\s\[(\d.]{1,12}%[\s)\]]*$)[\[(]?\s*)"
    r"(?P<percent>(?:100|\d{1,2})(?:\.\d+)?)%",
    re.IGNORECASE,
)
_PART_OF_EPOCH = re.compile(
    r".{0,40}\bepoch\W{0,3}\d{1,9}\W{1,4}(?P<percent>(?:100|\d{1,2})(?:\.\d+)?)%", re.IGNORECASE
)
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
    box: LineFindings | None = None
    """The rows so far of a table of names and values."""
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
    if context.box is None or (is_box_row(line) and len(context.box.named) < MOST_ROWS):
        return _read(line, context)
    return close_box(context) + _read(line, context)


def close_box(context: Context) -> list[MetricReading]:
    box, context.box = context.box, None
    return _placed(box, context) if box is not None else []


def _read(line: str, context: Context) -> list[MetricReading]:
    if context.traceback or "Traceback (most" in line:
        context.traceback = line[:1] in (" ", "\t") or "Traceback (most" in line
        return []
    if not line.strip() or is_border(line):
        return []
    body, phase = peeled(line)
    if _CODE.search(body) is not None or (body is not line and _CODE.search(line) is not None):
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
    if "%" in body and not eval_phase(findings.phase):
        if (part := _PART_DONE.match(body)) is not None:
            context.course.job = float(part["percent"]) / 100
        elif (part := _PART_OF_EPOCH.match(body)) is not None:
            context.course.tell_part(float(part["percent"]) / 100)
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
    if "%" in body and (bar := _BAR.match(body)) is not None:
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
    box = context.box or LineFindings(phase=findings.phase)
    group = read_boxed(body, context.table, box)
    if group is not None:
        context.box = box
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
            findings.counters.append(Counter("epoch |", float(first[1]), float(first[2])))
            findings.coordinate("epoch", float(first[1]))
    inside, phase = bar["inside"] or "", findings.phase
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
