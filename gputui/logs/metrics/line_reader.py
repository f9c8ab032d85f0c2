"""Read metrics and progress from a log line by line."""

from __future__ import annotations

import re

from msgspec import Struct, field
from msgspec.structs import replace

from gputui.core.regex import lazy_regex

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

# Prefixes of loggers


_PREFIX = lazy_regex(
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
_LOGGER_PHASE = lazy_regex(r"\s*\|?\s*(?P<phase>train|valid|test)(?:_inner)?\s*\|")


def peeled(line: str) -> tuple[str, str | None]:
    """Return a line without its prefixes, and the phase if the logger is named after a phase."""
    at = 0
    while (prefix := _PREFIX.match(line, at)) is not None and prefix.end() > at:
        at = prefix.end()
    phase = _LOGGER_PHASE.match(line, at) if at else None
    return (line[phase.end() :], phase["phase"]) if phase is not None else (line[at:] if at else line, None)


# Progress


_ASIDE = lazy_regex(
    r"patience|fold\b|download|loading|shards|map\b|tokeniz|sanity|valid|eval|test|infer|predict|examples|extract|fetch|"
    r"generat(?!ion\b)|resolv|cv\b|collect|preproc|filter|sampling|build|copy|upload|unpack|linking|compil|install|early",
    re.IGNORECASE,
)
"""Words that identify loops other than the training loop."""
_THINGS = lazy_regex(
    r"channel|cache|hits|page|correct|counter|rank|worker|gpu|mem|[KMG]i?B\b|B/s|tok/s|images|saved|layers|accuracy|model|"
    r"files|PerSec|\w[:=]\|",
    re.IGNORECASE,
)
"""Words that identify counters of something other than a loop.

A counter with such a word is still a loop if it also names a loop, as in `worker-3: iteration 3400/10000`.
"""
_EPOCH = lazy_regex(r"(?:epochs?|epoche|époque|[ée]poca|эпоха|轮|エポック|에포크|\bep)\W{0,6}$", re.IGNORECASE)
_STEP = lazy_regex(
    r"(?:steps?|\bitr?|iter\w*|updates?|episodes?|round|timesteps?|trials?|generation|\btotal|\boverall)(?:\(train\))?\W{0,6}$",
    re.IGNORECASE,
)
_NOUN = lazy_regex(r"\s*(?:steps?|iter(?:ation)?s?|updates?|episodes?|rounds?|timesteps?)$", re.IGNORECASE)
"""A noun after a counter of steps, as in `4200 of 10000 steps`."""
_EPOCH_NOUN = lazy_regex(r"\s*ep(?:och)?s?$", re.IGNORECASE)
"""A noun after a counter of epochs, as in `2/20epoch`."""
_TRAINS = lazy_regex(r"(?:.*\bINFO\b)?\W*train\w*\W*$", re.IGNORECASE)
_BATCH = lazy_regex(r"\bbatch\s?[:=]\s?$", re.IGNORECASE)
_RANK = lazy_regex(r"\s*\(\|")
_PART = lazy_regex(r"(?:batch\w*|(?:epoch|train)\W*\d+\W*|\][\s\[(]*)$|\A\W*\|\W*batch", re.IGNORECASE)
_SLACK = 0.02
"""How far a counter may be ahead of the epochs and still be the progress of the whole job (a fraction of the job)."""


class Loop(Struct):
    """The latest values of a counter."""

    done: float
    total: float

    @property
    def fraction(self) -> float:
        return self.done / self.total

    @property
    def is_under_way(self) -> bool:
        return 0 < self.done < self.total


class Course(Struct):
    """The progress of a job according to the counters that it prints."""

    epoch: float | None = None
    epochs: float | None = None
    from_zero: bool = False
    job: float | None = None
    """Completed fraction of the job, according to a counter of the job's steps."""
    bar: Loop | None = None
    """A counter that may count either the whole job or one epoch."""
    part: Loop | None = None
    """A counter of the current epoch."""
    before_epoch: float | None = None
    """Total of a loop that ends before its epoch is printed. When the loop starts again, the next epoch has begun."""

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

    def update(self, findings: LineFindings) -> None:
        known_epoch = any(rank == 1 for rank, _ in findings.coordinates)
        counters = [counter for counter in findings.counters if _is_progress(counter, known_epoch)]
        for number, counter in enumerate(counters):
            before = counter.words.rpartition("|")[0] if not counter.bar else counter.words
            if _counts_epochs(counter, before) or (number == 0 and _is_doubled(counters, before)):
                self._count_epochs(counter)
                known_epoch = True
            else:
                self._count(counter, before, known_epoch)

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
        """Set the epochs from a bar that counts completed epochs. A bar below it may count the current epoch."""
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
        """Count a loop without a name.

        The loop counts the current epoch if an epoch was known when the loop was first printed, or if the loop has
        started again.
        """
        if counter.bar and loop.total == self.epochs and self.part is not None and self.part.total != loop.total:
            self._count_ended_epochs(counter)
        elif self._is_part(loop):
            if self.part is None or loop.done >= self.part.done or loop.total == self.before_epoch:
                self._set_part(loop)  # after a restart, the loop counts once its epoch was printed
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
        # The bar was first printed without an epoch, but it counts the current epoch.
        if self.bar is not None and self.bar.total == loop.total:
            self.bar = None
        self.part = loop

    def _is_part(self, loop: Loop) -> bool:
        return (self.part is not None and self.part.total == loop.total) or self.before_epoch == loop.total

    def _may_be_job(self, fraction: float, later: int = 0) -> bool:
        """Return whether a completed fraction of the whole job fits the epochs printed so far.

        Up to `later` more epochs may have begun that have not been printed yet.
        """
        if not self.epochs or self.epoch is None:
            return True
        return fraction <= (self.epoch + (1 if self.from_zero else 0) + later) / self.epochs + _SLACK


def _counts_epochs(counter: Counter, before: str) -> bool:
    return (_EPOCH.search(before) is not None and not counter.percent) or (
        not counter.bar and _EPOCH_NOUN.match(counter.words.rpartition("|")[2]) is not None
    )


def _is_doubled(counters: list[Counter], before: str) -> bool:
    """Return whether the first of two counters counts epochs.

    Examples are `[12/300][120/1251]` and `Train: 1/3 (33%) [49/323]`.
    """
    if len(counters) == 1 or _STEP.search(before) is not None:
        return False
    if any(_counts_epochs(counter, counter.words.rpartition("|")[0]) for counter in counters[1:]):
        return False
    return counters[0].opens or _TRAINS.match(before) is not None


def _is_progress(counter: Counter, known_epoch: bool) -> bool:
    # The counter in `(0/4) Epoch 3` is a rank.
    is_rank = counter.opens and known_epoch and _RANK.match(counter.words) is not None
    if is_rank or eval_phase(counter.phase) or _ASIDE.search(counter.words) is not None:
        return False
    before = counter.words.rpartition("|")[0]
    names_loop = _EPOCH.search(before) or _STEP.search(before) or _BATCH.search(before)
    return names_loop is not None or _THINGS.search(counter.words) is None


# Other progress bars


_DRAWN = lazy_regex(
    r"(?P<words>[^\[|━█\d]{0,60})(?:[\[|](?=[█=#>*.-])[█▓▒░▏▎▍▌▋▊▉=#>*.\s-]{5,200}[\]|]|[━╸╺─]{5,200})"
    r"\s{0,4}(?:(?P<percent>\d{1,3})(?:\.\d{1,4})?\s?%)?"
)


_DRAWN_LATER = lazy_regex(r"(?P<words>)[━╸╺─]{5,200}\s{0,4}(?P<percent>\d{1,3})(?:\.\d{1,4})?\s?%")
"""A bar that follows other text, as in `epoch 5/10 loss 1.9 ━━━━╸━━━ 50%`."""


def count_drawn(line: str, findings: LineFindings) -> None:
    """Add the progress from a line with a bar: its last counter or, if it has none, the percentage after the bar."""
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


# Lines


MOST_BARE_NAMES = 64
LONGEST_HEADING = 300
FEWEST_COLUMNS = 3
"""Minimum number of columns of a table with a header that may have several lines."""
_TELLING = lazy_regex(r"\d|\bnan\b|\binf\b", re.IGNORECASE)
_BAR = lazy_regex(
    r"(?P<desc>.*?)\s*(?P<percent>\d{1,3})%(?:\|[^|]*\||\s?[━╸╺─]{5,60})\s*"
    r"(?P<done>[\d.]+)(?P<unit>[kKMGT]?)/(?P<total>[\d.]+)[kKMGT]?B?"
    r"(?:\s*\[(?P<inside>.*)\]|(?: +[\d.]{1,9}(?:\w{1,9}/s|s/\w{1,9}))?(?: +[\d:.]{1,12}s?(?:<[\d:.]{1,12}s?)?)?)\s*$"
)
"""A bar as drawn by tqdm, or like `67% ━━━━──── 6/9 6.1it/s 1.1s<0.5s`."""
_CODE = lazy_regex(
    r"^\s*(?:File \"|Traceback|warnings\.warn|usage:|\^+$|Step \d+/\d+ : )|(?:^|\s)--[a-z][\w-]+[= ]"
    r"|\[HYDRA\]|Namespace\(|^\s*\w+ \($"
)
_SENTENCE_OF_CHANGE = lazy_regex(
    r"['\"]?(?P<name>[A-Za-z][\w/ @.-]*?)['\"]?\s+(?:has\s+)?(?:improved|decreased|increased|reduced)\s*(?:from|\()\s*"
    r"[-+\w.]+\s*(?:to|-+>|→)\s*(?P<value>[-+]?\d[\d.]*(?:e[-+]?\d+)?)",
    re.IGNORECASE,
)
_PART_DONE = lazy_regex(
    r"\s*(?:(?:step\s*)?[\d,]{1,12} \(|progress\s*[:=]?\s*|(?=[\s\[(\d.]{1,12}%[\s)\]]*$)[\[(]?\s*)"
    r"(?P<percent>(?:100|\d{1,2})(?:\.\d+)?)%",
    re.IGNORECASE,
)
_PART_OF_EPOCH = lazy_regex(
    r".{0,40}\bepoch\W{0,3}\d{1,9}\W{1,4}(?P<percent>(?:100|\d{1,2})(?:\.\d+)?)%", re.IGNORECASE
)
_PAIRS = lazy_regex(r"[\w/@.-]{1,60}[:=]\s{0,4}[-+\d.e]+%?")
_SHORT = {"ev": "eval", "va": "val", "te": "test", "tr": "train"}
_HEADING = lazy_regex(
    r"\W*(?:running |begin(?:ning)? |start(?:ing)? )?(?P<phase>eval\w*|valid\w*|test\w*|train\w*)\b"
    r"[^=|]*(?:\.\.\.|:|\*{3,}|-{3,}|={3,})\s*$",
    re.IGNORECASE,
)
_COCO = lazy_regex(
    r"\s*Average (?:Precision|Recall)\s+\((?P<name>A[PR])\) @\[ (?P<what>[^\]]*)\] = (?P<value>-?[\d.]+)"
)


class Context(Struct):
    """Information from earlier lines that is needed to read the next line."""

    table: Table | None = None
    rows: int = 0
    box: LineFindings | None = None
    """The rows read so far of a table of names and values."""
    heading: list[str] = field(default_factory=list)
    """The cells of the lines directly above, if they are words. A header may consist of several lines."""
    step: float | None = None
    traceback: bool = False
    settings: bool = False
    phase: str | None = None
    """The phase named by a heading above, such as `Evaluating …`."""
    bare: list[str] = field(default_factory=list)
    """Names of numbers that were printed without a heading."""
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
    elif findings.phase is not None or any(rank == 1 for rank, _ in findings.coordinates):
        context.phase = None  # a phase or epoch in the line ends the heading's phase
    if not eval_phase(context.phase):
        count_drawn(body, findings)
        context.course.update(findings)
    if "%" in body and not eval_phase(findings.phase):
        if (part := _PART_DONE.match(body)) is not None:
            context.course.job = float(part["percent"]) / 100
        elif (part := _PART_OF_EPOCH.match(body)) is not None:
            context.course.part = Loop(float(part["percent"]), 100)
    return _placed(findings, context)


def _placed(findings: LineFindings, context: Context) -> list[MetricReading]:
    step = findings.step()
    if step is not None:
        context.step = step
    readings = findings.judged(context.step, continues=context.step is not None or bool(context.bare))
    # Below `Evaluating …`, a name that was also printed above means another metric.
    if eval_phase(context.phase):
        return [
            replace(reading, name=f"{context.phase}_{reading.name}") if reading.name in context.bare else reading
            for reading in readings
        ]
    context.bare += [reading.name for reading in readings if reading.name not in context.bare][
        : MOST_BARE_NAMES - len(context.bare)
    ]
    return readings


def _read_body(body: str, context: Context, findings: LineFindings) -> None:
    if "%" in body and (bar := _BAR.match(body)) is not None:
        _read_bar(bar, context, findings)
    elif (place := mapping_in(body)) is not None:
        read_line(body[: place[0]], findings)
        read_mapping(body, *place, findings)
    elif (coco := _COCO.match(body)) is not None and (value := number_of(coco["value"])) is not None:
        what = " ".join(coco["what"].split()).replace("= ", "=")
        findings.named.append(NamedNumber(f"{coco['name']} @[ {what} ]", value))
    elif (change := _SENTENCE_OF_CHANGE.search(body)) is not None:
        read_line(f"{body[: change.start()]}, {change['name']}: {change['value']}", findings)
    elif not _read_table(body, context, findings) and _TELLING.search(body) is not None:
        read_line(body, findings)


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
    """Return a header line in which each cell is combined with the words above it in the same column."""
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
        context.table = header  # some programs draw a bar after the column names
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
