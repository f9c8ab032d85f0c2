"""Finds the exceptions in a log: where each trace ends, what its message says, how it hangs together with others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from .cleaning import CleanLine

__all__ = ["Trace", "traces_in"]

_HEADER = "Traceback (most recent call last)"
_FRAME = re.compile(r"[\s>│]*+File \"[^\"]{1,400}\", line \d{1,9}")
_NAME = r"(?:[A-Za-z_<][\w<>]*+\.)*+[A-Za-z_]\w*+"
_EXCEPTION = re.compile(rf"({_NAME})(?:\([\w.]*+\))?(?::(?=\s|$)|$)")
_SURE_ENDS = ("Error", "Exception", "ExceptionGroup", "KeyboardInterrupt", "SystemExit", "StopIteration")

# What Python prints of these comes after the crash, or beside it.
_BESIDE = ("Exception ignored", "Error in atexit", "--- Logging error", "Error in sys.")
_LINKS = ("The above exception was the direct cause", "During handling of the above exception")

# Where a message is over although no new trace begins.
_BOUNDARY = re.compile(
    r"wandb: |[EWI]\d{4} |\[[EWI] ?\d|\d{4}-\d\d-\d\d[ T]|srun: |slurmstepd: |make(?:\[\d+\])?: |-- Process |[-=]{10,}$"
    r"|--- |Process \S{1,60}:$|\S{1,200}: line \d+: |ERROR\b|Error executing job|Set the environment variable HYDRA"
    r"|terminate called|/\S{1,300}:\d+: \w*Warning|\[\w+\]"
)
_LONGEST_BLOCK = 40


class Trace(Struct):
    first: int
    """The index of its first line."""
    last: int
    """The index of the line that names the exception."""
    text: str
    source: str = ""
    """The rank that printed it."""
    block: list[str] = field(default_factory=list)
    """The lines of the message below the first."""
    statement: str = ""
    """The source line of the innermost frame."""
    beside: bool = False
    """It was printed after the crash or in passing: in a destructor, at exit, with a warning."""
    linked: bool = False
    """It was raised because of the one before, or while that was handled."""

    @property
    def said(self) -> str:
        return self.text.partition(":")[2].strip()


class _Open(Struct):
    first: int
    beside: bool = False
    linked: bool = False
    base: int = 0
    statement: str = ""
    resumes: Trace | None = None
    """Frames without a header, which may be part of this one's message."""
    headless: bool = False


def traces_in(lines: list[CleanLine]) -> list[Trace]:
    """All of them in the order in which they ended, those of interleaved ranks too."""
    rows: dict[str, list[tuple[int, str]]] = {}
    for index, line in enumerate(lines):
        rows.setdefault(line.source, []).append((index, line.text))
    traces = [trace for source, own in rows.items() for trace in _Reader(source).traces(own)]
    return sorted(traces, key=lambda trace: trace.last)


class _Reader:
    """Reads the lines of one process."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.open: _Open | None = None
        self.done: Trace | None = None
        """The trace whose message may go on."""
        self.beside = self.linked = False

    def traces(self, rows: list[tuple[int, str]]) -> Iterator[Trace]:
        above = ""
        for index, text in rows:
            if text and (trace := self._read(index, text, above)):
                yield trace
            above = text or above

    def _read(self, index: int, text: str, above: str) -> Trace | None:
        if _HEADER in text:
            self._begin(index, text)
        elif 'File "' in text and _FRAME.match(text):
            self._frame(index, text)
        elif text.startswith(_BESIDE):
            self.beside, self.done = True, None
        elif text.startswith(_LINKS):
            self.linked, self.done = True, None
        elif self._ends(text):
            return self._end(index, text)
        else:
            self._inside(text, above)
        return None

    def _begin(self, index: int, text: str) -> None:
        box = text.find("╭")
        self.open = _Open(index, self.beside, self.linked, max(box, 0))
        self.beside = self.linked = False
        self.done = None

    def _frame(self, index: int, text: str) -> None:
        if self.open is None:
            self.open = _Open(index, resumes=self.done, headless=True)
            self.done = None
        self.open.base = max(0, text.index('File "') - 2)
        self.open.statement = ""

    def _ends(self, text: str) -> bool:
        """Outside a trace only a name that says so counts; within one, any that could be a class."""
        if self.open is None:
            if self.done is not None or text[0] == " ":
                return False
            match = _EXCEPTION.match(text)
            return match is not None and match[1].endswith(_SURE_ENDS)
        indent = len(text) - len(text.lstrip())
        if indent not in (0, self.open.base):
            return False
        match = _EXCEPTION.match(text, indent)
        if match is None or self.open.headless:
            return match is not None and match[1].endswith(_SURE_ENDS)
        return match[1].endswith(_SURE_ENDS) or "." in match[1] or match[1][0].isupper()

    def _end(self, index: int, text: str) -> Trace:
        opened = self.open or _Open(index, self.beside, self.linked)
        trace = Trace(opened.first, index, text.strip(), self.source)
        trace.beside, trace.linked, trace.statement = opened.beside, opened.linked, opened.statement
        self.open, self.beside, self.linked = None, False, False
        self.done = trace
        return trace

    def _inside(self, text: str, above: str) -> None:
        if self.open is not None and self.open.headless and not text.startswith((" ", "~", "^")):
            self.done, self.open = self.open.resumes, None
        if self.open is not None:
            if not self.open.statement and 'File "' in above:
                self.open.statement = text.strip()
        elif self.done is not None:
            if _BOUNDARY.match(text) or len(self.done.block) >= _LONGEST_BLOCK:
                self.done = None
            else:
                self.done.block.append(text.strip())
