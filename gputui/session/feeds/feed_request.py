"""What a source gave, taken in: its jobs and how far it was read become durable together."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.core.events import Refusal
from gputui.core.job import JobId, JobSpec
from gputui.session.errors import CommitFailed
from gputui.session.files.outfiles import check_outfiles
from gputui.session.owner.load_plan import plan
from gputui.session.owner.ticket import Act, OwnerGone
from gputui.session.store.source_record import SourceRecord


class Given(msgspec.Struct, frozen=True):
    """What became of it."""

    source: SourceRecord
    """As it is remembered now."""
    jobs: list[JobId]
    refused: list[str]


class Fed(msgspec.Struct, frozen=True):
    """Jobs of a source and how far it was read, in one turn. A job that is refused does not cost its neighbours."""

    before: SourceRecord
    specs: tuple[JobSpec, ...]
    changes: dict[str, Any]
    """Of what is remembered of the source."""

    def __call__(self, act: Act) -> Given:
        source = act.sources.get(self.before.key)
        if source is None or source.reading != self.before.reading:
            raise OwnerGone("the source was forgotten, or is read by another")
        first = act.scheduler.book.next_id
        known_jobs, refused = self._taken(act)
        source = act.sources[source.key] = replace(source, **self.changes)
        return Given(source, [*known_jobs, *range(first, act.scheduler.book.next_id)], refused)

    def _taken(self, act: Act) -> tuple[list[JobId], list[str]]:
        """An add is refused before it changes anything; then each job is taken for itself."""
        try:
            return self._take(act, self.specs), []
        except CommitFailed:
            raise
        except Refusal:
            pass
        job_ids: list[JobId] = []
        refused: list[str] = []
        for spec in self.specs:
            try:
                job_ids += self._take(act, (spec,))
            except Refusal as refusal:
                refused.append(f"{spec.command}: {refusal}")
        return job_ids, refused

    def _take(self, act: Act, wanted: tuple[JobSpec, ...]) -> list[JobId]:
        planned = plan(act.scheduler.book, wanted, self.before.again, now=act.now)
        check_outfiles(act.scheduler.book, planned.new)
        for event in planned.events():
            act.handle(event)
        return list(planned.jobs)
