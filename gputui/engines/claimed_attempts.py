"""What all engines do alike whose attempts are claimed: tokens, and claims that are asked, listed and removed."""

from __future__ import annotations

from gputui.core.job import JobId, Purpose

from .claims import Claims


class ClaimedAttempts:
    """`private` is the descriptor of the session's private folder, which holds the claims; `session` names the session
    for all its owners, now and later."""

    def __init__(self, private: int, session: str) -> None:
        self._session = session
        self._claims = Claims.of(private)
        self._claims.make_folder()
        self._revoked: set[tuple[JobId, int]] = set()

    def token(self, job: JobId, attempt: int) -> str:
        return f"{self._session}.{job}.{attempt}"

    def write_down(self, job: JobId, attempt: int, purpose: Purpose) -> None:
        """Beside the attempt, for the next owner: an order that cannot be made durable in the store."""
        self._claims.ask(job, attempt, purpose)

    def claimed(self) -> list[tuple[JobId, int]]:
        return self._claims.all()

    def forget(self, job: JobId, attempt: int) -> None:
        # A revocation stays: what was to run it may start late, and must find it.
        if (job, attempt) not in self._revoked:
            self._claims.remove(job, attempt)
