"""The results of a session, as the owner stores and shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec.structs import replace

from gputui.core.job import Job, JobId
from gputui.core.result_book import AttemptSeries, ResultBook
from gputui.core.results import UNNAMED, Curve, JobResults, MainMetric, direction_of
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.session.store.store import ResultRow, Store

from .job_directories import Directories
from .results_reader import ResultsReader, decoded, parsed_metric
from .session_dir import Journal

MOST_UNREAD = 1000
"""Maximum number of jobs without stored results whose logs are read again. The newest jobs are chosen."""


class SessionResults:
    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        directories: Directories,
        journal: Journal,
        on_read: Callable[[], None],
    ) -> None:
        """Load the stored results and watch active attempts. `on_read` is called in another thread when there is
        something to `take_in`.
        """
        self._store, self._scheduler = store, scheduler
        self.reader = ResultsReader(directories, journal, on_read)
        book = scheduler.book
        self._chosen = scheduler.settings.metric
        self.book = ResultBook(book.first_id, main_metric(self._chosen))
        self._next_id = book.first_id
        """The first job whose settings have not been searched for a metric yet."""
        self._note_metrics()
        stored = store.load_results()
        self.book.load({job: packed for job, packed in stored.items() if job in book}, book.__getitem__)
        newest = range(max(book.first_id, book.next_id - MOST_UNREAD), book.next_id)
        self.book.note_paces(book[job_id] for job_id in newest)
        self._changed: set[JobId] = set()
        self._watched: dict[JobId, int] = {}
        """The attempt of each job whose logs are being read."""
        for job_id, attempt in store.unfinished_results():
            if job_id in book:
                self.reader.watch(book[job_id], attempt, self._stored(job_id, attempt))
                self._watched[job_id] = attempt
                self._watch(book[job_id])
        for job_id in book.active:
            self._watch(book[job_id])

    def read_unread(self) -> None:
        """Read the logs of ended jobs without stored results. These exist if an owner was killed too soon or the store
        was rebuilt.
        """
        book = self._scheduler.book
        unread = (job for job in reversed(list(book)) if job.attempts and job.id not in self.book.results)
        self.reader.read_later([(job, job.attempts[-1].number) for job in islice(unread, MOST_UNREAD)])

    def _stored(self, job: JobId, attempt: int) -> ResultRow | None:
        return next((row for row in self._store.results_of(job) if row.attempt == attempt), None)

    # In a turn

    def take_in(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """Take in what was read since the last turn. Results to be stored are added to `rows`."""
        book = self._scheduler.book
        for read in self.reader.take():
            news = {job: results for job, results in read.news.items() if job in book and self._is_newest(job, results)}
            self._follow(lambda news=news: self.book.put(news, book.__getitem__), news)  # type: ignore[misc]
            rows.update({(row.job, row.attempt): row for row in read.rows})

    def _is_newest(self, job: JobId, results: JobResults) -> bool:
        """Return whether the results belong to the newest attempt. The logs of an earlier attempt may be read late."""
        newest = self.book.results.get(job)
        return newest is None or newest.attempt <= results.attempt

    def update(self, snapshot: Snapshot) -> Snapshot:
        """Watch the attempts that have started and stop watching those that have ended. Return the snapshot with the
        results.
        """
        book = self._scheduler.book
        ran = [job_id for job_id in snapshot.changed if book[job_id].issued]  # new ones may be very many
        for job_id in ran:
            self._watch(book[job_id])
        self._note_metrics()
        if self._scheduler.settings.metric != self._chosen:
            self._chosen = self._scheduler.settings.metric
            self._follow(lambda: self.book.choose(main_metric(self._chosen), book.__getitem__), ())
        self._follow(lambda: self.book.refresh(ran, book.__getitem__), ())
        return self.add_to(snapshot)

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the current results."""
        changed, self._changed = snapshot.changed | self._changed, set()
        book, paces = self.book, self.book.paces.usual()
        return replace(snapshot, changed=changed, results=book.results, paces=paces, metric=book.metric, best=book.best)

    def _watch(self, job: Job) -> None:
        """Start reading the job's active attempt, and end the reading of the previous one."""
        before, now = self._watched.get(job.id), job.active.attempt if job.active is not None else None
        if before == now:
            return
        if before is not None:
            self.reader.end(job.id, before)
            del self._watched[job.id]
        if now is not None:
            self.reader.watch(job, now)
            self._watched[job.id] = now

    def _note_metrics(self) -> None:
        """Note the metrics that new jobs name in their settings."""
        book, metrics = self._scheduler.book, []
        for job_id in range(self._next_id, book.next_id):
            wanted = parsed_metric(book[job_id].spec.metric)
            if wanted is not None:
                name = wanted.name or UNNAMED
                metrics.append(MainMetric(name, wanted.direction or direction_of(name), is_chosen=True))
        self._next_id = book.next_id
        if metrics:
            self.book.ask(metrics, book.__getitem__)

    def _follow(self, change: Callable[[], None], jobs: Iterable[JobId]) -> None:
        """Call `change`, and note these jobs and all others whose rows in the job table are affected by it."""
        metric, best = self.book.metric, self.book.best
        change()
        self._changed.update(jobs)
        if self.book.metric != metric:
            self._changed.update(self.book.results)
        elif self.book.best != best:
            self._changed.update(job for job in (best, self.book.best) if job is not None)

    # Queries

    def curves(self, job: JobId, attempt: int | None = None) -> tuple[Curve, ...]:
        """Return the curves of an attempt. The default is the newest attempt that printed results."""
        newest = self.book.results.get(job)
        number = attempt if attempt is not None else newest.attempt if newest is not None else 0
        live = self.reader.curves(job, number)
        if live is not None:
            return live
        stored = self._stored(job, number)
        series = decoded(stored.series, AttemptSeries) if stored is not None else None
        return series.curves() if series is not None else ()

    def attempts(self, job: JobId) -> dict[int, JobResults]:
        """Return the results of each attempt that printed any."""
        stored = {row.attempt: decoded(row.results, JobResults) for row in self._store.results_of(job)}
        stored |= {newest.attempt: newest} if (newest := self.book.results.get(job)) is not None else {}
        return {attempt: results for attempt, results in stored.items() if results is not None}

    def close(self, rows: dict[tuple[JobId, int], ResultRow]) -> None:
        """Read the logs of ended attempts to the end. Results to be stored are added to `rows`."""
        self.reader.close()
        self.take_in(rows)


def main_metric(written: str) -> MainMetric | None:
    """Parse the metric that the user chose, such as `val_acc max`. Return None if the text is empty or invalid or names
    no metric.
    """
    wanted = parsed_metric(written)
    if wanted is None or wanted.name is None:
        return None
    return MainMetric(wanted.name, wanted.direction or direction_of(wanted.name), is_chosen=True)
