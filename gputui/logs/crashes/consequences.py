"""Tells causes from consequences: which of several exceptions is the one that the others follow from."""

from __future__ import annotations

import re

from msgspec import Struct

from .cleaning import CleanLine, mentioned
from .noise import is_work
from .traces import Trace

__all__ = ["CrashReading", "judged"]

# Only says that another process failed.
_WRAPPER = re.compile(
    r"ChildFailedError|ProcessExitedException|ProcessRaisedException|CalledProcessError|exited unexpectedly|SystemExit|"
    r"RemoteTraceback|BrokenProcessPool|TerminatedWorkerError|Exit(?:ed)? with (?:exit )?code|returned non-zero exit|"
    r"\b[Ss]ee (?:the )?(?:root cause|error\w*|traceback|stack ?trace|logs?) above"
)
# What those are left with whose fellow went away.
_VICTIM = re.compile(
    r"DistBackendError|\bNCCL\b|BrokenPipeError|ConnectionResetError|Connection (?:closed|reset) by peer|gloo/"
    r"|process group|remote process exited|Broken pipe|DistStoreError|Socket closed|exception on one of the ranks"
)
_FARTHEST_WORK = 200
_ROOT_CAUSE = "Root Cause (first observed failure)"
_LAUNCHERS = ("ChildFailedError", _ROOT_CAUSE, "failed (exitcode")
_ROOT_RANK = re.compile(r"\s*rank\s*: (\d{1,6})\b")
_ROOT_SIGNAL = re.compile(r"\s*traceback\s*: (Signal (\d{1,2}) \(\w+\) received by PID \d+)")
_LOST_RANK = re.compile(r".{0,300}?(failed \(exitcode: -(\d{1,2})\) local_rank: .*)")


class CrashReading(Struct):
    """What the traces of one log amount to."""

    cause: Trace | None = None
    victim: Trace | None = None
    """Something went wrong between processes, and no trace says what went wrong in one of them."""
    wrapper: Trace | None = None
    signal: int | None = None
    """Which one ended the rank that the launcher calls the first to fail."""
    signal_line: str = ""
    claimed: frozenset[int] = frozenset()
    """The lines of all traces, those that were survived too: nobody is to look for a cause in them."""

    @property
    def consequences_only(self) -> bool:
        """The cause may stand above what was read."""
        return self.cause is None and (self.victim is not None or self.wrapper is not None)


def judged(lines: list[CleanLine], traces: list[Trace]) -> CrashReading:
    verdict = CrashReading(claimed=_claimed(traces))
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


def _claimed(traces: list[Trace]) -> frozenset[int]:
    return frozenset(i for t in traces for i in range(t.first, t.last + 1 + len(t.block)))


def _unsurvived(lines: list[CleanLine], traces: list[Trace]) -> list[Trace]:
    """Without those after which the work went on: whoever printed them had caught them."""
    if not traces:
        return traces
    worked: dict[str, int] = {}
    for index in range(len(lines) - 1, max(traces[0].last, len(lines) - _FARTHEST_WORK), -1):
        line = lines[index]
        if line.source not in worked and is_work(line):
            worked[line.source] = index
    return [trace for trace in traces if trace.last > worked.get(trace.source, -1)]


def _telling(causes: list[Trace], root: str | None) -> Trace | None:
    """The last one, or that of the rank which failed first; one that says nothing gives way to what caused it."""
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
