"""Reading INFO back: what a job's folder tells of its newest attempt, long after whoever wrote it is gone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import msgspec

from gputui.core.job import Crashed, End, Failed, JobId, Killed, Lost, Refused, StateName, Succeeded, TimedOut
from gputui.python.user_code.own_files import Doubtful, open_own
from gputui.python.user_code.own_files import doubt as doubt_about
from gputui.session.files.job_folder import ATTEMPTS, INFO
from gputui.session.files.paths import PRIVATE

_DEPTH = 4
_LONGEST = 1_000_000


class Note(msgspec.Struct, frozen=True):
    """What an INFO file says."""

    job: JobId
    name: str
    command: str
    cwd: str
    gpus: tuple[str, ...]
    occurrence: int | None
    attempt: int
    started: float
    end: End | None
    ended: float
    exit_code: int | None
    why: str | None
    wrap: str = ""
    task: str = ""


def read_notes(root: str, doubt: Callable[[str], None] = lambda why: None) -> list[Note]:
    """Those that nobody but this user can have written; `doubt` is told of the others, a sentence each.

    What is in a session within this one is that session's.
    """
    notes = []
    for folder, inner, files, fd in os.fwalk(root):
        if PRIVATE in inner and folder != root:
            inner.clear()
            continue
        inner[:] = [name for name in inner if name not in (PRIVATE, ATTEMPTS)]
        if folder[len(root) :].count(os.sep) >= _DEPTH:
            inner.clear()
        if INFO in files:
            try:
                notes.append(read_note(os.path.join(folder, INFO), fd))
            except Doubtful as doubtful:
                doubt(str(doubtful))
            except (OSError, ValueError, KeyError):
                pass  # another tool's, or cut off
    return notes


def read_note(path: str, folder: int) -> Note:
    """Raises KeyError or ValueError for an INFO that is not ours or was cut off."""
    why = doubt_about(os.fstat(folder), os.path.dirname(path))
    if why is not None:
        raise Doubtful(why)
    with open(open_own(path, folder), "rb") as file:
        text = file.read(_LONGEST).decode("utf-8", "replace").replace("\n    ", "\0")
    return _understood(text)


def _understood(text: str) -> Note:
    said: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition(": ")
        said.setdefault(key, value.replace("\0", "\n"))
    code = int(said["exit code"]) if "exit code" in said else None
    gpus = tuple(filter(None, said.get("ran on gpu", "").split(",")))
    return Note(
        int(said["id"]), said["job name"], said["command"], said["cwd"], gpus,
        int(said["occurrence"]) if "occurrence" in said else None, int(said["attempt"]),
        _moment(said["started"]), _end(said.get("state"), code, said.get("why", "")),
        _moment(said.get("ended", "(0)")), code, said.get("why"), said.get("wrap", ""), said.get("task", ""),
    )  # fmt: skip


def _moment(text: str) -> float:
    moment = re.search(r"\(([\d.]+)\)", text)
    return float(moment[1]) if moment else 0.0


def _end(state: str | None, code: int | None, why: str) -> End | None:
    match state:
        case None:
            return None
        case StateName.SUCCEEDED:
            return Succeeded()
        case StateName.CRASHED:
            return Crashed((code or 129) - 128)
        case StateName.KILLED:
            return Killed()
        case StateName.TIMED_OUT:
            limit = re.search(r"after ([\d.e+]+) s", why)
            return TimedOut(float(limit[1]) if limit else 0.0)
        case StateName.REFUSED:
            return Refused(why)
        case StateName.LOST:
            return Lost(why)
    return Failed(code if code is not None else 1)
