"""What is known of the devices at this moment: who else is on them, and how much memory is left. Never stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from .job import JobId, Request


class DeviceFacts(Struct, frozen=True):
    """One device as the last sample showed it."""

    blocked: str | None = None
    """Why it takes no job of ours, in one sentence: a stranger is on it, or it does not answer."""
    memory_total: int | None = None
    memory_used: int | None = None
    """By everybody."""
    ours: dict[JobId, int] = {}
    """What of it each of our jobs uses."""
    crowded: bool = False
    """Somebody else is on it too."""


_UNKNOWN = DeviceFacts()


class Cards:
    """Admits jobs to devices. A device of which nothing is known is taken at its word: nothing is in the way."""

    def __init__(self) -> None:
        self._facts: Mapping[str, DeviceFacts] = {}
        self._declared: dict[str, dict[JobId, Request]] = {}

    def see(self, facts: Mapping[str, DeviceFacts]) -> None:
        self._facts = facts

    def declare(self, job: JobId, request: Request, devices: Iterable[str]) -> None:
        """The job counts with what it asked for from the moment it was placed, allocated or not."""
        if request.memory is not None or request.memory_share is not None:
            for device in devices:
                self._declared.setdefault(device, {})[job] = request

    def forget(self, job: JobId, devices: Iterable[str]) -> None:
        for device in devices:
            self._declared.get(device, {}).pop(job, None)

    def without(self, jobs: Collection[JobId]) -> Cards:
        """Other ones, with the memory that these jobs use given back."""
        cards = Cards()
        cards._facts = {device: _emptied(facts, jobs) for device, facts in self._facts.items()}
        cards._declared = {
            device: {job: request for job, request in declared.items() if job not in jobs}
            for device, declared in self._declared.items()
        }
        return cards

    def total(self, device: str) -> int | None:
        return self._facts.get(device, _UNKNOWN).memory_total

    def crowded(self, device: str) -> bool:
        return self._facts.get(device, _UNKNOWN).crowded

    def blocked(self, device: str) -> str | None:
        return self._facts.get(device, _UNKNOWN).blocked

    def admits(self, device: str, request: Request) -> bool:
        return self.blocked(device) is None and not self.lacks(device, request)

    def lacks(self, device: str, request: Request) -> bool:
        """The memory that the request needs is known not to be there now."""
        if request.larger_than is not None and (self.total(device) or 0) <= request.larger_than:
            return True
        needed, free = self._needed(device, request), self.left(device)
        return needed is not None and free is not None and needed > free

    def too_small(self, device: str, request: Request) -> bool:
        """The memory that the request needs can never be there."""
        needed, total = self._needed(device, request), self.total(device)
        if request.larger_than is not None and total is not None and total <= request.larger_than:
            return True
        return needed is not None and total is not None and needed > total

    def left(self, device: str) -> int | None:
        """Bytes free for us: what nobody uses, less what our jobs declared and have not allocated yet."""
        facts = self._facts.get(device, _UNKNOWN)
        if facts.memory_total is None or facts.memory_used is None:
            return None
        free = facts.memory_total - facts.memory_used
        for job, request in self._declared.get(device, {}).items():
            free -= max(0, (self._needed(device, request) or 0) - facts.ours.get(job, 0))
        return free

    def _needed(self, device: str, request: Request) -> int | None:
        if request.memory is not None:
            return request.memory
        total = self._facts.get(device, _UNKNOWN).memory_total
        if request.memory_share is None or total is None:
            return None
        return int(request.memory_share * total)


def _emptied(facts: DeviceFacts, jobs: Collection[JobId]) -> DeviceFacts:
    given_back = sum(used for job, used in facts.ours.items() if job in jobs)
    if not given_back or facts.memory_used is None:
        return facts
    ours = {job: used for job, used in facts.ours.items() if job not in jobs}
    return replace(facts, memory_used=max(0, facts.memory_used - given_back), ours=ours)
