"""The results of a session as its owner keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec
from msgspec.structs import replace

from gputui.core.job import Job, JobId
from gputui.core.result_book import AttemptSeries, ResultBook
from gputui.core.results import UNNAMED, Curve, JobResults, MainMetric, direction_of, wanted_of
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.session.store.store import ResultRow, Store, load_results, results_of, unfinished_results

from .job_folders import Folders
from .results_reader import ResultsReader, wanted_by
from .session_dir import Journal

MOST_PAST = 1000
"""Jobs that ended before results were read: so many of the newest are read."""


class SessionResults:
    """What Publication shows of them, and what Saver stores."""

    def __init__(
        self, store: Store, scheduler: Scheduler, folders: Folders, journal: Journal, on_read: Callable[[], None]
    ) -> None:
        """`on_read`: called in another thread when there is something to take in."""
        self._store, self._scheduler = store, scheduler
        self.reader = ResultsReader(folders, journal, on_read)
        book = scheduler.book
        self._chosen = scheduler.settings.metric
        self.book = ResultBook(book.first_id, main_metric(self._chosen))
        self._asked_up_to = book.first_id
        self._ask()
        stored = store.of_results(load_results)
        self.book.load({job: packed for job, packed in stored.items() if job in book}, book.__getitem__)
        newest = range(max(book.first_id, book.next_id - MOST_PAST), book.next_id)
        self.book.note_paces(book[job_id] for job_id in newest)
        self._changed: set[JobId] = set()
        self._watched: dict[JobId, int] = {}
        """The attempt of each job that is read."""
        self._go_on()

    def _go_on(self) -> None:
        """With what an earlier owner left unread."""
        book = self._scheduler.book
        for job_id, attempt in self._store.of_results(unfinished_results):
            if job_id in book:
                self.reader.watch(book[job_id], attempt, self._kept(job_id, attempt))
                self._watched[job_id] = attempt
                self._look(book[job_id])
        for job_id in book.active:
            self._look(book[job_id])

    def read_past(self) -> None:
        """Of jobs that ended before anybody read results."""
        book = self._scheduler.book
        unread = (job for job in reversed(list(book)) if job.attempts and job.id not in self.book.results)
        self.reader.read_past([(job, job.attempts[-1].number) for job in islice(unread, MOST_PAST)])

    def _kept(self, job: JobId, attempt: int) -> ResultRow | None:
        return next((row for row in self._rows(job) if row.attempt == attempt), None)

    def _rows(self, job: JobId) -> list[ResultRow]:
        return self._store.of_results(partial(results_of, job=job))

    # In a turn

    def take_in(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """What was read since the last turn: to be shown, and, added to `rows`, to be stored."""
        book = self._scheduler.book
        for read in self.reader.take():
            news = {job: results for job, results in read.news.items() if job in book and self._is_newest(job, results)}
            self._follow(lambda news=news: self.book.put(news, book.__getitem__), news)  # type: ignore[misc]
            rows.update({(row.job, row.attempt): row for row in read.rows})

    def _is_newest(self, job: JobId, results: JobResults) -> bool:
        """An earlier attempt that is read late does not hide a later one that printed something."""
        newest = self.book.results.get(job)
        return newest is None or newest.attempt <= results.attempt

    def show(self, snapshot: Snapshot) -> Snapshot:
        """With the results; looks at once which attempts began and ended."""
        book = self._scheduler.book
        for job_id in snapshot.changed:
            self._look(book[job_id])
        self._ask()
        if self._scheduler.settings.metric != self._chosen:
            self._chosen = self._scheduler.settings.metric
            self._follow(lambda: self.book.choose(main_metric(self._chosen), book.__getitem__), ())
        self._follow(lambda: self.book.look_again(snapshot.changed, book.__getitem__), ())
        return self.over(snapshot)

    def over(self, snapshot: Snapshot) -> Snapshot:
        """With the results as they are."""
        changed, self._changed = snapshot.changed | self._changed, set()
        book, paces = self.book, self.book.paces.usual()
        return replace(snapshot, changed=changed, results=book.results, paces=paces, metric=book.metric, best=book.best)

    def _look(self, job: Job) -> None:
        """At the attempt that it is in, and at the one that it was in."""
        before, now = self._watched.get(job.id), job.active.attempt if job.active is not None else None
        if before == now:
            return
        if before is not None:
            self.reader.end(job.id, before)
            del self._watched[job.id]
        if now is not None:
            self.reader.watch(job, now)
            self._watched[job.id] = now

    def _ask(self) -> None:
        """What new jobs want to be compared by."""
        book = self._scheduler.book
        new = (book[job_id] for job_id in range(self._asked_up_to, book.next_id))
        self._asked_up_to = book.next_id
        metrics = [metric for job in new if job.spec.metric and (metric := _asked_by(job)) is not None]
        if metrics:
            self.book.ask(metrics, book.__getitem__)

    def _follow(self, change: Callable[[], None], jobs: Iterable[JobId]) -> None:
        """Makes the change, and notes whose row is not as it was."""
        metric, best = self.book.metric, self.book.best
        change()
        self._changed.update(jobs)
        if self.book.metric != metric:
            self._changed.update(self.book.results)
        elif self.book.best != best:
            self._changed.update(job for job in (best, self.book.best) if job is not None)

    # Questions

    def curves(self, job: JobId, attempt: int | None = None) -> tuple[Curve, ...]:
        """Of one attempt; None: of the newest that printed anything."""
        newest = self.book.results.get(job)
        number = attempt if attempt is not None else newest.attempt if newest is not None else 0
        live = self.reader.curves(job, number)
        if live is not None:
            return live
        stored = self._kept(job, number)
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.msgpack.decode(stored.series, type=AttemptSeries).curves() if stored is not None else ()
        return ()

    def attempts(self, job: JobId) -> dict[int, JobResults]:
        """What each attempt came to, as far as any printed something."""
        stored: dict[int, JobResults] = {}
        for row in self._rows(job):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                stored[row.attempt] = msgspec.msgpack.decode(row.results, type=JobResults)
        newest = self.book.results.get(job)
        return stored | ({newest.attempt: newest} if newest is not None else {})

    def close(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """Reads what has ended; it is stored by whoever closes the store."""
        self.reader.close()
        self.take_in(rows)


def main_metric(written: str) -> MainMetric | None:
    """What the user chose, `val_acc max`; empty, or what is none: nothing."""
    try:
        wanted = wanted_of(written) if written else None
    except ValueError:
        return None
    if wanted is None or wanted.name is None:
        return None
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)


def _asked_by(job: Job) -> MainMetric | None:
    wanted = wanted_by(job)
    if wanted is None:
        return None
    name = wanted.name or UNNAMED
    return MainMetric(name, wanted.direction or direction_of(name), is_chosen=True)
