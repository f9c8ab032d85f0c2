"""How far a job is, read off the end of what it printed."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from gputui.logs.metrics.line_reader import peeled

from .line_index import read_tail
from .plain import without_escapes

# ---- How far a job is, read off the end of what it printed ----


SHORTEST_TOTAL = 2
LONGEST_LINE = 1000


@dataclass(frozen=True, slots=True)
class Progress:
    """Of the whole job where the job tells that, else of what it does at present."""

    fraction: float
    text: str
    """Short, for a column: `61%`, `epoch 12/90`, `step 610/1000`."""
    whole: bool = False
    """It counts epochs, so it is not one of many small bars."""


_PAIR = r"(?P<done>\d{1,9})(?:[ ]{0,4}/[ ]{0,4}|[ ]of[ ])(?P<total>\d{1,9})(?!\d|/|\.\d|\s{0,4}(?:[GMKk]i?)?B\b)"
_EPOCH = re.compile(rf"\b(?:epochs?|ep)\b[ :#=\[(|]{{0,6}}{_PAIR}", re.IGNORECASE)
_EPOCH_NUMBER = re.compile(r"\bepoch\b[ :#=\[(]{0,4}(?P<number>\d{1,7})", re.IGNORECASE)
_UNITS = r"steps?|iter(?:ation)?s?|batch(?:es)?|rounds?|trials?|folds?|episodes?|generations?|samples?|chunks?"
_EPOCH_BAR = re.compile(r"\s{0,9}epochs?:", re.IGNORECASE)
"""It has ended as many epochs as it counts; what prints `epoch 12/90` itself is in its twelfth."""
_COUNTED = re.compile(rf"\b(?P<what>{_UNITS})\b[ :#=\[(|]{{0,6}}{_PAIR}", re.IGNORECASE)
_BAR = re.compile(rf"(?P<percent>\d{{1,3}})%\|[^|]{{0,400}}\|\s{{0,9}}(?:{_PAIR})?")
_LEADING_PAIR = re.compile(rf"\s{{0,20}}\[?{_PAIR}\]?(?:\s|$|[:,;\]])")
_BRACKETED_PAIR = re.compile(rf"[\[(]\s{{0,9}}{_PAIR}\s{{0,9}}[\])]")
_PERCENT = r"(?P<percent>\d{1,3})(?:\.\d{1,4})?[ ]?%"
_DRAWN_BAR = re.compile(rf".{{0,300}}?[█▏▎▍▌▋▊▉━╸╺=#>\-.]{{3}}\s{{0,40}}[\])|]?\s?{_PERCENT}")
_PERCENTS = (
    re.compile(rf"\s{{0,20}}[\[(]?\s{{0,9}}{_PERCENT}(?:[\s\])|:,]|$)"),
    re.compile(rf".{{0,300}}?\b(?:progress|completed?|done|finished)\b[ :=\[(]{{0,4}}{_PERCENT}", re.IGNORECASE),
    re.compile(rf".{{0,300}}?{_PERCENT}\s(?:completed?|done|finished)\b", re.IGNORECASE),
    _DRAWN_BAR,
)

_EVALUATES = ("valid", "test")
_ASIDE = re.compile(
    r"[\s\[(*|]{0,20}(?:valid|val\b|eval|test|sanity|infer|predict|download|loading|fetch|map\b|tokeniz|filter"
    r"|receiving|resolving|extract|unpack|upload|copying|epoch\((?:val|test)\)|step \d{1,4}/\d{1,4} : "
    r"|\d{1,4}/\d{1,4}\) epoch)",
    re.IGNORECASE,
)
"""What is no part of the work that the job is there for, at the beginning of its line; `(0/4) Epoch 3` tells a rank."""


def progress_of(tail: bytes) -> Progress | None:
    """From the last lines of a log; a bar redrawn with carriage returns counts as lines."""
    text = without_escapes(tail.decode("utf-8", "replace")).replace("\b", "")
    present: Progress | None = None
    for line in reversed(re.split(r"[\r\n]+", text)):
        beginning, phase = peeled(line[:LONGEST_LINE])
        if (epoch := _epoch(beginning, present)) is not None:
            return epoch
        if present is None and phase not in _EVALUATES and _ASIDE.match(beginning) is None:
            present = _present(beginning)
    return present


def _epoch(line: str, later: Progress | None) -> Progress | None:
    """Whole epochs, with the part of the present one that the same line or a later one tells."""
    bar = _BAR.search(line)
    if bar is not None and _EPOCH_BAR.match(line) is not None:
        return _epochs(bar, later.fraction if later is not None else 0.0) if bar["total"] else None
    # Some print a table whose first column counts epochs and whose last is the bar of the present one.
    match = _EPOCH.search(line) or (_LEADING_PAIR.match(line, 0, bar.start()) if bar is not None else None)
    if match is None or not _sensible(match):
        return None
    inner = bar or _DRAWN_BAR.match(line)
    part = int(inner["percent"]) / 100 if inner is not None else later.fraction if later is not None else 1.0
    return _epochs(match, part - 1)


def _epochs(match: re.Match[str], more: float) -> Progress:
    done, total = int(match["done"]), int(match["total"])
    return Progress(_within((done + more) / max(1, total)), f"epoch {done}/{total}", whole=True)


def _present(line: str) -> Progress | None:
    if (bar := _BAR.search(line)) is not None:
        return _percent(int(bar["percent"]), line)
    if (counted := _COUNTED.search(line)) is not None and _sensible(counted):
        return _pair(counted, f"{_singular(counted['what'])} ")
    for pattern in (_LEADING_PAIR.match, _BRACKETED_PAIR.search):
        if (pair := pattern(line)) is not None and _sensible(pair):
            return _pair(pair, "")
    return next(
        (_percent(int(match["percent"]), line) for pattern in _PERCENTS if (match := pattern.match(line))), None
    )


def _sensible(pair: re.Match[str]) -> bool:
    """Not a date, a score or a part of a path."""
    done, total = int(pair["done"]), int(pair["total"])
    return total >= SHORTEST_TOTAL and done <= total and pair.string[pair.start("done") - 1 : pair.start("done")] != "/"


def _pair(match: re.Match[str], what: str) -> Progress:
    done, total = int(match["done"]), int(match["total"])
    return Progress(_within(done / total), f"{what}{done}/{total}")


def _percent(percent: int, line: str) -> Progress | None:
    if percent > 100:
        return None
    epoch = _EPOCH_NUMBER.search(line)
    of_epoch = f"epoch {epoch['number']} " if epoch is not None else ""
    return Progress(percent / 100, f"{of_epoch}{percent}%")


def _singular(what: str) -> str:
    word = what.lower()
    return {"batches": "batch", "iterations": "iter", "iteration": "iter"}.get(word, word.removesuffix("s"))


def _within(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))


# ---- How far each running job is, read again only when the job has written something ----


TAIL = 8192
MOST_FILES = 512


@dataclass(frozen=True, slots=True)
class _Seen:
    size: int
    modified: int
    inode: int
    progress: Progress | None


class ProgressReader:
    """Looks at the last few KiB of a job's two files."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Path, _Seen] = OrderedDict()

    def read(self, out: Path, err: Path | None) -> Progress | None:
        """What counts epochs is about the whole job; otherwise the file that was written last knows best."""
        looks = [look for path in (out, err) if path is not None and (look := self._look(path)) is not None]
        progresses = [
            (look.progress.whole, look.modified, look.progress) for look in looks if look.progress is not None
        ]
        return max(progresses, key=lambda entry: entry[:2])[2] if progresses else None

    def _look(self, path: Path) -> _Seen | None:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        looked_at = self._seen.get(path)
        now = (status.st_size, status.st_mtime_ns, status.st_ino)
        if looked_at is None or (looked_at.size, looked_at.modified, looked_at.inode) != now:
            looked_at = _Seen(*now, progress_of(read_tail(os.fspath(path), TAIL)))
            self._seen[path] = looked_at
        self._seen.move_to_end(path)
        if len(self._seen) > MOST_FILES:
            self._seen.popitem(last=False)
        return looked_at
