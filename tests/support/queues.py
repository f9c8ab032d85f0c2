"""Jobs of every kind without a session, for tests of what is made of them; and chance that changes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from gputui.core.events import Mode, Settings
from gputui.core.job import (
    Attempt,
    Blocked,
    Crashed,
    Delayed,
    Ended,
    Failed,
    Held,
    Job,
    JobId,
    JobSpec,
    Killed,
    Lost,
    Placed,
    Purpose,
    Queued,
    Refused,
    Running,
    Skipped,
    Starting,
    State,
    Stopping,
    Succeeded,
    Suspended,
    TimedOut,
)
from gputui.core.snapshot import Snapshot
from gputui.core.structures import Vector

NOW = 1_000_000.0
PLACED = Placed(1, (0,), ("0",), NOW - 100, "")
STATES: tuple[State, ...] = (
    Queued(NOW), Held(), Blocked(), Delayed(NOW + 5000, "backs off"), Starting(PLACED), Running(PLACED, 7),
    Suspended(PLACED, 7, NOW - 50), Stopping(PLACED, 7, Purpose.KILL, NOW + 9), Succeeded(), Failed(1), Crashed(11),
    Killed(), TimedOut(60.0), Lost("the machine was off"), Refused("no such folder"), Skipped(0),
)  # fmt: skip


def job(id: JobId, state: State | None = None, *, priority: int = 30, archived: bool = False, **spec: Any) -> Job:
    state = state if state is not None else Queued(NOW)
    fields: dict[str, Any] = {"command": f"python train.py --seed {id}", "cwd": "/", "environment": "", **spec}
    made = Job(id, JobSpec(**fields), NOW - 1000, priority, float(id), state, archived=archived)
    return ended(made) if isinstance(state, Ended) else made


def ended(made: Job) -> Job:
    """With the attempt that ended so."""
    end: Any = made.state
    attempt = Attempt(1, ("0",), NOW - 200, NOW - 100 + made.id, end, 1, "ValueError: no", "")
    return replace(made, attempts=(attempt,), issued=1)


def snapshot(jobs: list[Job], first_id: JobId = 0) -> Snapshot:
    vector: Vector[Job] = Vector(jobs)
    return Snapshot(
        version=0, changed=frozenset(), first_id=first_id, jobs=vector, counts={}, active=frozenset(),
        mode=Mode.RUNNING, cause=None, settings=Settings(), lanes=(), leaving=(), holders={},
    )  # fmt: skip


@dataclass
class Queue:
    """Jobs that change, and the snapshot of them."""

    jobs: list[Job] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        return snapshot(self.jobs)

    def change(self, id: JobId, **changes: Any) -> None:
        self.jobs[id] = replace(self.jobs[id], **changes)


TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", "日本語の名前", "e\u0301\u0302", "👩‍👩‍👧", "ｗｉｄｅ" * 20, "x" * 300]),
    st.sampled_from(["\x1b[31mred\x1b[0m", "[/nope]", "a\tb\nc", "\u202eevil", "\x9b2J", "\ud800"]),
)
PARAMETERS = st.dictionaries(
    st.sampled_from(["lr", "bs", "name", "id", "ｗ"]), st.sampled_from(["0.1", "1e-3", "32", "nan", "inf", "x", ""])
)


@st.composite
def jobs(draw: st.DrawFn, id: JobId) -> Job:
    """Any job at all."""
    return job(
        id,
        draw(st.sampled_from(STATES)),
        priority=draw(st.integers(0, 99)),
        archived=draw(st.sampled_from([False, False, False, True])),
        command=draw(TEXTS) or "true",
        name=draw(st.none() | TEXTS),
        params=draw(PARAMETERS),
        group=draw(st.sampled_from(["", "a", "b"])),
    )
