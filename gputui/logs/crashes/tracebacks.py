"""Find exceptions in a log and distinguish causes from consequences."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from gputui.core.regex import lazy_regex

from .lines import CleanLine, is_aftermath, is_noise, is_work, mentioned

_HEADER = "Traceback (most recent call last)"
_FRAME = lazy_regex(r"[\s>│]*+File \"[^\"]{1,400}\", line \d{1,9}")
_NAME = r"(?:[A-Za-z_<][\w<>]*+\.)*+[A-Za-z_]\w*+"
_EXCEPTION = lazy_regex(rf"({_NAME})(?:\([\w.]*+\))?(?::(?=\s|$)|$)")
_SURE_ENDS = ("Error", "Exception", "ExceptionGroup", "KeyboardInterrupt", "SystemExit", "StopIteration")

# Python prints these after the crash, or independently of it.
_BESIDE = ("Exception ignored", "Error in atexit", "--- Logging error", "Error in sys.")
_LINKS = ("The above exception was the direct cause", "During handling of the above exception")

# Lines that end a message without beginning a new traceback.
_BOUNDARY = lazy_regex(
    r"wandb: |[EWI]\d{4} |\[[EWI] ?\d|\d{4}-\d\d-\d\d[ T]|srun: |slurmstepd: |make(?:\[\d+\])?: |-- Process |[-=]{10,}$"
    r"|--- |Process \S{1,60}:$|\S{1,200}: line \d+: |ERROR\b|Error executing job|Set the environment variable HYDRA"
    r"|terminate called|/\S{1,300}:\d+: \w*Warning|\[\w+\]"
)
_LONGEST_BLOCK = 40


class Trace(Struct):
    first: int
    """Index of the first line of the traceback."""
    last: int
    """Index of the line that names the exception."""
    text: str
    source: str = ""
    """The process that printed the traceback."""
    block: list[str] = field(default_factory=list)
    """The lines of the message after the first one."""
    statement: str = ""
    """The source line of the innermost frame."""
    beside: bool = False
    """Whether the traceback was printed independently of the crash: in a destructor, at exit, or with a warning."""
    linked: bool = False
    """Whether the exception was raised because of the previous one, or while the previous one was being handled."""

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
    """The previous traceback, if the current frames have no header. They may be part of that traceback's message."""
    headless: bool = False


def traces_in(lines: list[CleanLine]) -> list[Trace]:
    """Return all tracebacks, including those of ranks whose output is interleaved, in the order in which they end."""
    rows: dict[str, list[tuple[int, str]]] = {}
    for index, line in enumerate(lines):
        rows.setdefault(line.source, []).append((index, line.text))
    traces = [trace for source, own in rows.items() for trace in _Reader(source).traces(own)]
    return sorted(traces, key=lambda trace: trace.last)


class _Reader:
    """Reads the tracebacks of one process."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.open: _Open | None = None
        self.done: Trace | None = None
        """The last traceback, whose message may continue on the next lines."""
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
        """Return whether a line names an exception.

        Within a traceback any class counts. Elsewhere only names such as `…Error` count.
        """
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


# Causes and consequences


# Exceptions which only say that another process failed.
_WRAPPER = lazy_regex(
    r"ChildFailedError|ProcessExitedException|ProcessRaisedException|CalledProcessError|exited unexpectedly|SystemExit|"
    r"RemoteTraceback|BrokenProcessPool|TerminatedWorkerError|Exit(?:ed)? with (?:exit )?code|returned non-zero exit|"
    r"\b(?:[Ss]ee|[Cc]heck|[Rr]ead)\b[^.]{0,40}\babove\b|DatasetGenerationError: An error occurred while generating|"
    r"background workers are no longer alive"
)
# Exceptions of processes whose peer has ended.
_VICTIM = lazy_regex(
    r"DistBackendError|\bNCCL\b|BrokenPipeError|ConnectionResetError|Connection (?:closed|reset) by peer|gloo/"
    r"|\bCancelled(?:Error)?\b"
    r"|process group|remote process exited|Broken pipe|DistStoreError|Socket closed|exception on one of the ranks"
)
_FARTHEST_WORK = 200
_ROOT_CAUSE = "Root Cause (first observed failure)"
_LAUNCHERS = ("ChildFailedError", _ROOT_CAUSE, "failed (exitcode")
_ROOT_RANK = lazy_regex(r"\s*rank\s*: (\d{1,6})\b")
_ROOT_SIGNAL = lazy_regex(r"\s*traceback\s*: (Signal (\d{1,2}) \(\w+\) received by PID \d+)")
_LOST_RANK = lazy_regex(r".{0,300}?(failed \(exitcode: -(\d{1,2})\) local_rank: .*)")


class CrashReading(Struct):
    """What the tracebacks of one log say about the cause of a failure."""

    cause: Trace | None = None
    victim: Trace | None = None
    """The first communication error between processes. An error in one of them may have caused it."""
    wrapper: Trace | None = None
    signal: int | None = None
    """The signal that ended the rank that failed first, according to the launcher."""
    signal_line: str = ""
    claimed: frozenset[int] = frozenset()
    """Indices of the lines that belong to tracebacks. These lines are not searched for other causes."""

    @property
    def consequences_only(self) -> bool:
        """Whether the cause may be further up in the log than the part that was read."""
        return self.cause is None and (self.victim is not None or self.wrapper is not None)


def judged(lines: list[CleanLine], traces: list[Trace]) -> CrashReading:
    claimed = frozenset(i for t in traces for i in range(t.first, t.last + 1 + len(t.block)))
    verdict = CrashReading(claimed=claimed)
    launched = mentioned(lines, _LAUNCHERS)
    if launched:
        verdict.signal, verdict.signal_line = _root_signal(lines)
    alive = traces if launched else _unsurvived(lines, traces)
    alive = [trace for trace in alive if not trace.beside]
    for trace in alive:
        if _WRAPPER.search(trace.text):
            verdict.wrapper = trace
        elif _VICTIM.search(trace.text):
            verdict.victim = verdict.victim or trace
    causes = [trace for trace in alive if not _WRAPPER.search(trace.text) and not _VICTIM.search(trace.text)]
    verdict.cause = _telling(causes, _root_rank(lines) if launched else None)
    return verdict


def _unsurvived(lines: list[CleanLine], traces: list[Trace]) -> list[Trace]:
    """Return the tracebacks after which the process that printed them did no more work."""
    if not traces:
        return traces
    worked: dict[str, int] = {}
    for index in range(len(lines) - 1, max(traces[0].last, len(lines) - _FARTHEST_WORK), -1):
        line = lines[index]
        if line.source not in worked and is_work(line):
            worked[line.source] = index
    return [trace for trace in traces if trace.last > worked.get(trace.source, -1)]


def _telling(causes: list[Trace], root: str | None) -> Trace | None:
    """Return the last cause of the rank `root`, which failed first, or the last of all causes if there is none.

    If that exception has no message, return the exception that led to it.
    """
    own = [trace for trace in causes if root is not None and trace.source.removeprefix("rank") == root]
    candidates = own or causes
    for index in range(len(candidates) - 1, -1, -1):
        trace = candidates[index]
        if index and trace.linked and not trace.said and not trace.block and not trace.statement.startswith("assert"):
            continue
        return trace
    return None


def _root_rank(lines: list[CleanLine]) -> str | None:
    below = _below_root_cause(lines)
    return next((match[1] for line in below if (match := _ROOT_RANK.match(line.text))), None)


def _root_signal(lines: list[CleanLine]) -> tuple[int | None, str]:
    for line in _below_root_cause(lines):
        if match := _ROOT_SIGNAL.match(line.text):
            return int(match[2]), match[1]
    if not _below_root_cause(lines):
        for line in lines:
            if "exitcode: -" in line.text and (match := _LOST_RANK.match(line.text)):
                return int(match[2]), match[1]
    return None, ""


def _below_root_cause(lines: list[CleanLine]) -> list[CleanLine]:
    for index in range(len(lines) - 1, -1, -1):
        if _ROOT_CAUSE in lines[index].text:
            return lines[index + 1 : index + 9]
    return []


# Stacks of other languages


_STACK_FRAME = lazy_regex(
    r"\s{0,40}(?:[Ss]tack ?(?:trace|traceback|backtrace)\b.{0,20}:?$|CallStack \(|Backtrace:$|Raised at )"
    r"|\s{1,40}(?:from \S{1,200}:\d{1,7}\b|at \S{1,200}[(:]|#\d{1,3} +\S|\[C\]: |[\w./<>-]{1,200}:\d{1,7}: )"
)
_FARTHEST = 200


def above_stack(lines: list[CleanLine]) -> str | None:
    """Return the line above the first frame of the last stack trace."""
    frames = [i for i in range(max(0, len(lines) - _FARTHEST), len(lines)) if _STACK_FRAME.match(lines[i].text)]
    at = frames[-1] if frames else 0
    while at > 0 and (not lines[at].text.strip() or lines[at].text[:1].isspace() or _STACK_FRAME.match(lines[at].text)):
        at -= 1
    said = lines[at] if frames else None
    if said is None or _STACK_FRAME.match(said.text) or is_noise(said) or is_aftermath(said.text):
        return None
    return said.text
