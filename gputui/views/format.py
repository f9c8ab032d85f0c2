"""Format texts: cutting to a width, the order of device names, result values, signs of states, texts about one job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from gputui.core.amounts import counted, duration_exact, duration_words, memory_words, moment
from gputui.core.events import Settings, Submitted
from gputui.core.job import CodeSnapshot, Job
from gputui.core.snapshot import Snapshot

ELLIPSIS = "…"
_LONGEST_SIGN = 8
"""Maximum number of characters in one displayed sign. The emoji of a family consists of seven."""


def width(text: str) -> int:
    """Return the width of a text in terminal cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # imported late: most text is ASCII

    return cell_len(text)


def fitting(text: str, cells: int, start: int = 0) -> int:
    """Return the end of the longest part of the text, beginning at `start`, that fits in the given number of cells."""
    if text.isascii():
        return min(len(text), start + max(0, cells))
    from rich.cells import split_graphemes

    head = text[start : start + _LONGEST_SIGN * (max(0, cells) + 1)]
    used = 0
    for first, _, size in split_graphemes(head)[0]:
        used += size
        if used > cells:
            return start + first
    return start + len(head)


def cut(text: str, cells: int) -> str:
    """Cut a text to a number of cells. If it is cut, it ends with an ellipsis."""
    if fitting(text, cells) == len(text):
        return text
    return text[: fitting(text, cells - 1)] + ELLIPSIS if cells > 0 else ""


def natural_order(name: str) -> tuple[bool, list[tuple[str, int]]]:
    """Return a sort key for names of devices, which compares numbers by value: `2`, `10`, `n2:0`, `n10:0`."""
    parts = [("", int(part)) if part.isdecimal() else (part, 0) for part in re.split(r"(\d+)", name) if part]
    return not name.isdecimal(), parts


# Result values


MOST_DECIMALS = 6
SMALL, LARGE = 1e-3, 1e9
"""Values outside this range are written with an exponent."""


def decimals_of(values: Sequence[float]) -> int:
    """Return the number of decimals to show: enough for the size of the values and to tell the first two apart.

    `values` is sorted, best first.
    """
    if all(value == int(value) for value in values):
        return 0
    size = abs(values[0])
    fewest = 4 if size < 10 else 3 if size < 100 else 2 if size < 1000 else 1
    if len(values) < 2:
        return fewest
    enough = (n for n in range(fewest, MOST_DECIMALS) if result_text(values[0], n) != result_text(values[1], n))
    return next(enough, fewest)


def result_text(value: float, decimals: int) -> str:
    if 0 < abs(value) < SMALL or abs(value) >= LARGE:
        return f"{value:.3e}"
    return f"{value:.{decimals}f}"


def value_text(value: float) -> str:
    """Format a single value."""
    return result_text(value, decimals_of([value])) if isfinite(value) else str(value)


SIGNS = {
    "queued": "·", "held": "‖", "blocked": "…", "delayed": "◷",
    "starting": "○", "running": "●", "suspended": "◐", "stopping": "◌",
    "succeeded": "✓", "failed": "✗", "killed": "■", "timed_out": "✗",
    "lost": "?", "refused": "!", "skipped": "-",
}  # fmt: skip


def silence(snapshot: Snapshot, job: Job, now: float) -> str:
    """Return text such as `silent 4:10` if a job has printed nothing for unusually long, else an empty string."""
    since = snapshot.silent_since(job, now)
    return f"silent {duration_exact(now - since)}" if since is not None else ""


# Jobs in the queue of a cluster


SUBMITTED_SIGN, SUBMITTED_WORD, SUBMITTED_SHORT_WORD = "◷", "submitted", "sub"
"""Sign and words for a `starting` job that is waiting in a cluster's queue."""


def submission_facts(job: Job, submitted: Submitted | None, settings: Settings, now: float) -> str:
    """Describe a submission: `Submitted at 13:41 as Slurm job 88240: partition gpu, 2 GPUs, at most 2 h.`"""
    assert job.active is not None
    number = f" as Slurm job {submitted.slurm_job}" if submitted is not None and submitted.slurm_job else ""
    request, limit = job.request, job.spec.timeout or settings.time
    named = {"partition": settings.partition, "account": settings.account, "QOS": settings.qos}
    requests = [f"{name} {value}" for name, value in named.items() if value]
    requests.append(counted(1 if request.gpus is None else request.gpus, "GPU", "GPUs"))
    if request.memory is not None:
        requests.append(f"{memory_words(request.memory)} of memory")
    if limit:
        requests.append(f"at most {duration_words(limit)}")
    return f"Submitted at {moment(job.active.since, now)}{number}: {', '.join(requests)}."


# Code and environments


def code_words(code: CodeSnapshot) -> str:
    commit = f"commit {code.head[:10]}" if code.head else "no commit"
    return f"snapshot {code.tree[:10]} of {code.top} ({commit}{', with uncommitted changes' if code.changed else ''})"


SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")
MASK = "••••••"


def masked(name: str, value: str) -> str:
    """Return the value of a variable, or a mask if the variable's name suggests a secret."""
    return MASK if any(word in name.upper() for word in SECRET) else value
