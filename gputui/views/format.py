"""Text fitted to terminal cells, result values, signs of states, and words for silent and submitted jobs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gputui.core.amounts import counted, duration_exact, duration_words, memory, moment
from gputui.core.events import Settings, Submitted
from gputui.core.job import EngineName, Job, Starting
from gputui.core.snapshot import Snapshot

# ---- How many cells of a terminal a text takes, and texts cut to so many ----


ELLIPSIS = "…"
_LONGEST_SIGN = 8
"""Characters: a family of emoji has seven."""


def width(text: str) -> int:
    """Cells on a terminal, as the screen counts them too."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # most text needs no tables

    return cell_len(text)


def fitting(text: str, cells: int, start: int = 0) -> int:
    """Up to which character the text fits in so many cells, from `start` on; no sign is cut in two."""
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
    """At most so many cells; an ellipsis tells that something was left out."""
    if fitting(text, cells) == len(text):
        return text
    return text[: fitting(text, cells - 1)] + ELLIPSIS if cells > 0 else ""


# ---- How values of a result are written ----


MOST_DECIMALS = 6
SMALL, LARGE = 1e-3, 1e9
"""Outside of them decimals tell nothing: four digits and a power."""


def decimals_of(values: Sequence[float]) -> int:
    """By the size of the best, and enough that the best two differ; the values come in their order."""
    if all(value == int(value) for value in values):
        return 0
    size = abs(values[0])
    fewest = 4 if size < 10 else 3 if size < 100 else 2 if size < 1000 else 1
    return next((places for places in range(fewest, MOST_DECIMALS) if _apart(values, places)), fewest)


def _apart(values: Sequence[float], places: int) -> bool:
    return len(values) < 2 or result_text(values[0], places) != result_text(values[1], places)


def result_text(value: float, decimals: int) -> str:
    if 0 < abs(value) < SMALL or abs(value) >= LARGE:
        return f"{value:.3e}"
    return f"{value:.{decimals}f}"


def value_text(value: float) -> str:
    """Of one that stands alone."""
    return result_text(value, decimals_of([value])) if isfinite(value) else str(value)


# ---- A sign for every state, so that colour never stands alone ----


SIGNS = {
    "queued": "·", "held": "‖", "blocked": "…", "delayed": "◷",
    "starting": "○", "running": "●", "suspended": "◐", "stopping": "◌",
    "succeeded": "✓", "failed": "✗", "crashed": "✗", "killed": "■", "timed_out": "✗",
    "lost": "?", "refused": "!", "skipped": "-",
}  # fmt: skip


# ---- A job that runs and does nothing, in the words of every view ----


def silence(snapshot: Snapshot, job: Job, now: float) -> str:
    """`silent 4:10`; empty for a job that prints as often as it should."""
    since = snapshot.silent_since(job, now)
    return f"silent {duration_exact(now - since)}" if since is not None else ""


# ---- A job that waits in a cluster's own queue ----


SIGN, WORD, SHORT_WORD = "◷", "submitted", "sub"
"""It is `starting` to everything else: nothing of it has run, and it can be taken back."""


def is_submitted(job: Job) -> bool:
    return isinstance(job.state, Starting) and job.active is not None and job.active.engine is not EngineName.LOCAL


def submission_facts(job: Job, submitted: Submitted | None, settings: Settings, now: float) -> str:
    """`Submitted at 13:41 as Slurm job 88240: partition gpu, 2 GPUs, 24.0G of memory each, at most 2 h.`"""
    assert job.active is not None
    number = f" as Slurm job {submitted.slurm_job}" if submitted is not None and submitted.slurm_job else ""
    return f"Submitted at {moment(job.active.since, now)}{number}: {', '.join(_asked(job, settings))}."


def _asked(job: Job, settings: Settings) -> list[str]:
    request, limit = job.request, job.spec.timeout or settings.time
    named = {"partition": settings.partition, "account": settings.account, "QOS": settings.qos}
    wishes = [f"{name} {value}" for name, value in named.items() if value]
    wishes.append(counted(1 if request.gpus is None else request.gpus, "GPU", "GPUs"))
    if request.memory is not None:
        wishes.append(f"{memory(request.memory)} of memory")
    if limit:
        wishes.append(f"at most {duration_words(limit)}")
    return wishes
