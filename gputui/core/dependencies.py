"""Which jobs wait for which: names to ids, cycles refused, and what a job waits for now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .book import Book
from .events import Refusal
from .job import Blocked, Delayed, Ended, Job, JobId, JobSpec, Queued, Skipped, Succeeded

SHOWN = 6


def waiting_state(book: Book, job: Job, now: float) -> Queued | Blocked | Delayed | Skipped:
    """The state of a job that wants to run: what its dependencies and its start time make of it."""
    blocked = False
    for earlier_id in reversed(job.after):  # those rerun one by one come back from the front
        if not isinstance(book[earlier_id].state, Ended):
            blocked = True
        elif not satisfied(book, job, earlier_id):
            return Skipped(earlier_id)
    if blocked:
        return Blocked()
    return unblocked_state(job.spec, now)


def unblocked_state(spec: JobSpec, now: float) -> Queued | Delayed:
    if spec.not_before is not None and spec.not_before > now:
        return Delayed(spec.not_before, "its start time has not come")
    return Queued(now)


def satisfied(book: Book, job: Job, earlier: JobId) -> bool:
    """Whether a dependency that has ended lets the job go on."""
    return job.spec.after_any or isinstance(book[earlier].state, Succeeded)


def resolve(book: Book, specs: Sequence[JobSpec], first: JobId) -> list[tuple[JobId, ...]]:
    """The ids that each spec's `after` means; names may be of jobs in the same batch, before or behind."""
    names: dict[str, list[JobId]] = {}
    for offset, spec in enumerate(specs):
        if spec.name is not None:
            names.setdefault(spec.name, []).append(first + offset)
    batch = range(first, first + len(specs))
    waits = [_ids(book, names, spec, batch) for spec in specs]
    if any(waits):
        _refuse_cycles(dict(zip(batch, waits, strict=True)))
    return waits


def _ids(book: Book, names: Mapping[str, list[JobId]], spec: JobSpec, batch: range) -> tuple[JobId, ...]:
    ids: list[JobId] = []
    for wanted in spec.after:
        if isinstance(wanted, str):
            matching = names.get(wanted) or _listed(book, wanted)
            if not matching:
                raise Refusal(f"after: no job is called {wanted!r}; give the name of a job before it, or an id")
            ids += matching
        elif wanted in book or wanted in batch:
            ids.append(wanted)
        else:
            raise Refusal(f"after: there is no job #{wanted}; gputui ls lists them")
    return tuple(dict.fromkeys(ids))


def _listed(book: Book, name: str) -> list[JobId]:
    """Jobs that were removed no longer answer to their name."""
    return [id for id in book.named.get(name, ()) if not book[id].archived]


def _refuse_cycles(waits: Mapping[JobId, tuple[JobId, ...]]) -> None:
    """Only jobs of the batch can form one: nothing that is already there waits for them."""
    done: set[JobId] = set()
    for start in waits:
        path: dict[JobId, None] = {}
        stack: list[tuple[JobId, bool]] = [(start, True)]
        while stack:
            job, entering = stack.pop()
            if not entering:
                done.add(path.popitem()[0])
            elif job in path:
                raise Refusal(_circle(list(path), job))
            elif job not in done and job in waits:
                path[job] = None
                stack.append((job, False))
                stack += [(earlier, True) for earlier in waits[job]]


def _circle(path: list[JobId], job: JobId) -> str:
    circle = [f"#{id}" for id in path[path.index(job) :]]
    if len(circle) == 1:
        return f"#{job} cannot wait for itself"
    if len(circle) > SHOWN:
        circle[SHOWN - 1 : -1] = ["…"]
    return f"these jobs wait for each other: {' → '.join([*circle, circle[0]])}"
