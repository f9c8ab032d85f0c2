"""`gputui events` and `gputui wait`: print what happens in a session, and wait for jobs to end."""

from __future__ import annotations

import select
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gputui.cli.command import find_session, parse_job_words, suggest
from gputui.cli.output import (
    JSON,
    NOT_FOUND,
    REFUSED,
    SCHEMA,
    TIMED_OUT,
    UNREACHABLE,
    Exit,
    StatusLine,
    format_counts,
    out,
    print_json,
    refuse,
    say,
    writing_output,
)
from gputui.cli.parser import Options, Parser, argument_type
from gputui.core.amounts import counted
from gputui.core.job import ACTIVE, ENDS, FAILURES, JobId, StateName
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import (
    NOW,
    CannotStart,
    EventKind,
    Events,
    JobsPaused,
    ListedJob,
    Listing,
    LoggedEvent,
    PickedJob,
    PickedJobs,
    PickJobs,
    SessionStatus,
    Show,
    StatusQuestion,
)
from gputui.sources.values import duration


def parser(subcommand: str) -> Parser:
    if subcommand == "wait":
        return _wait_parser()
    parser = Parser(
        subcommand,
        "Print what happened in the session as one JSON object per line, oldest first: jobs added, started and ended, "
        "pauses, probes, changes of slots and alerts. Each has a cursor, from which --since continues, also after the "
        "scheduler has changed. About 10,000 events are kept; a gap event says that some are no longer known.",
        usage="events [--follow] [--since CURSOR]",
        examples="gputui events\ngputui events --follow --since now\n"
        "gputui events --since 9b5a08dd-17 | jq -c 'select(.event == \"ended\")'",
    )
    parser.switch("--follow", help="keep printing events as they happen")
    parser.add_argument("--since", metavar="CURSOR", help="only events after this cursor; now: only new ones")
    parser.add_common("json", "session")
    return parser


def _wait_parser() -> Parser:
    parser = Parser(
        "wait",
        "Wait until the given jobs have ended, by default all jobs of the session. With --json, print the ended jobs "
        "with their results, errors and last lines of output, and what is still running. The wait ends at once, with "
        "status 1, if none of the jobs can ever start, for example because a budget is used up (cannot_start). With "
        "--json it also ends when a pause keeps all of them from starting (paused: the error, the group and when the "
        "probe starts); gputui resume continues. Exit status: 0 if all succeeded, 1 if not, 4 if the time is over, "
        "5 if no scheduler is running.",
        usage="wait [JOBS …] [--group NAME] [--any | --next [--since CURSOR]] [--timeout TIME] [--json]",
        examples="gputui wait && echo all good\ngputui wait 12 13\ngputui wait --any 3-9\n"
        "gputui wait --group sweep --timeout 2h --json\ngputui wait --next --since 9b5a08dd-17 --json",
    )
    parser.add_jobs()
    parser.add_argument("--group", metavar="NAME", help="wait for the jobs of this group")
    parser.switch("--any", help="wait for any one of them and return its status")
    parser.switch("--next", help="wait until one more job ends, and print the cursor for the next call")
    parser.add_argument("--since", metavar="CURSOR", help="with --next: also count jobs that ended after this cursor")
    parser.add_argument(
        "--timeout", type=argument_type(duration), metavar="TIME", help="give up after this time: 90, 10m, 2h"
    )
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    client = find_session(options)
    return wait(client, options) if options.subcommand == "wait" else events(client, options)


# events


def events(client: Client, options: Options) -> int:
    import json  # slow to import, and `wait` needs it only at its end

    page = client.ask(Events(options.since))
    JSON.answered = True
    while True:
        with writing_output():
            for event in page.events:
                sys.stdout.write(json.dumps({"schema": SCHEMA, **msgspec.to_builtins(event)}) + "\n")
            sys.stdout.flush()
        if not page.events and not options.follow:
            return 0
        if page.events:
            page = client.ask(Events(page.cursor))
        else:
            _check_reader()
            page = client.next_events(page.cursor)


def _check_reader() -> None:
    """Raise BrokenPipeError if nobody reads the output any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(found & select.POLLERR for _, found in poll.poll(0)):
        raise BrokenPipeError


# wait


LINES, LONGEST_LINE = 20, 300
MOST_IN_FULL = 100
"""Number of ended jobs that are printed with the kind of their error and the end of their output. Failed jobs come
first.
"""


class Result(Struct, frozen=True):
    name: str
    last: float | None
    best: float | None


class EndedJob(Struct, frozen=True, kw_only=True):
    id: JobId
    name: str
    key: str | None
    group: str
    state: StateName
    exit_code: int | None
    signal: int | None
    kind: str | None = None
    message: str | None
    result: Result | None
    """The value of the metric by which the session's jobs are compared."""
    seconds: float | None
    gpu_hours: float | None
    lines: list[str] = []
    """The end of the job's output."""


class Waited(Struct, frozen=True):
    """The answer of `wait --json`."""

    ended: list[EndedJob]
    running: list[JobId]
    waiting: int
    timed_out: bool
    cursor: str
    gap: bool = False
    """Whether some events after the given cursor are no longer known, so that more jobs may have ended."""
    cannot_start: CannotStart | None = None
    """The unfinished jobs, if the wait ended because none of them can ever start."""
    paused: JobsPaused | None = None
    """The pause, if the wait ended because it keeps all unfinished jobs from starting."""


ANSWERS = {"wait": Waited, "events": LoggedEvent}


class Waiter:
    """One `gputui wait`: the jobs it waits for, and its position in the log of events."""

    def __init__(self, client: Client, options: Options) -> None:
        if options.since is not None and not options.next:
            refuse("--since needs --next")
        if options.any and options.next:
            refuse("use either --any or --next")
        self._client, self._options = client, options
        ids, names = parse_job_words(options.words)
        groups = [options.group] if options.group is not None else []
        self._query = PickJobs(ids, names, groups, all=not options.words and not groups, obstacle=True)
        self._deadline = time.monotonic() + options.timeout if options.timeout is not None else None
        # Before the jobs are looked at, so that no end is missed in between.
        self._page = client.ask(Events(NOW if options.since is None else options.since))
        self._pause_reported = False
        self.gap = False
        self.cannot_start: CannotStart | None = None
        self.paused: JobsPaused | None = None

    @property
    def cursor(self) -> str:
        return self._page.cursor

    @property
    def _timed_out(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def wait(self, line: StatusLine) -> tuple[list[JobId], bool]:
        """Wait, then return the jobs that have ended, and whether the wait has timed out."""
        while True:
            answer = self._pick()
            jobs = answer.jobs
            ended = [job.id for job in jobs if job.state in ENDS]
            if self._options.next:
                self.gap = self.gap or any(event.event is EventKind.GAP for event in self._page.events)
                known = {job.id for job in jobs}
                ended = [job for job in self._ended() if job in known]
            if ended and (self._options.any or self._options.next or len(ended) == len(jobs)):
                return ended, False
            if self._options.next and all(job.state in ENDS for job in jobs):
                # The last job may have ended after the events were read.
                self._page = self._client.ask(Events(self.cursor))
                if not self._page.events:
                    raise Exit(NOT_FOUND, "no unfinished jobs to wait for")
                continue
            if answer.cannot_start is not None or (answer.paused is not None and JSON.on):
                self.cannot_start, self.paused = answer.cannot_start, answer.paused
                return ended, False
            if self._timed_out:
                return ended, True
            self._check_scheduler(jobs, line)
            words = format_counts(Counter(job.state for job in jobs))
            line.show(f"{sum(job.state in ENDS for job in jobs)}/{len(jobs)} ended · {words}")
            self._await_change({job.id for job in jobs if job.state not in ENDS}, line)

    def _await_change(self, unfinished: set[JobId], line: StatusLine) -> None:
        """Wait until all jobs must be looked at again. Most events do not require this, which would be slow for very
        many jobs.
        """
        while True:
            self._page = self._client.next_events(self._page.cursor, self._deadline)
            ended = set(self._ended())
            enough = ended if self._options.next else ended & unfinished if self._options.any else unfinished <= ended
            kinds = {event.event for event in self._page.events}
            if enough or not kinds or kinds & {EventKind.PAUSED, EventKind.SLOTS, EventKind.GAP}:
                return
            unfinished -= ended
            if EventKind.ENDED in kinds and unfinished.isdisjoint(self._client.ask(StatusQuestion()).active):
                return
            line.show(f"{counted(len(unfinished), 'job', 'jobs')} not ended yet")

    def _ended(self) -> list[JobId]:
        """Return the jobs that have ended according to the newest events."""
        ended = (event.job for event in self._page.events if event.event is EventKind.ENDED and event.final)
        return list(dict.fromkeys(job for job in ended if job is not None))

    def _pick(self) -> PickedJobs:
        answer = self._client.ask(self._query)
        if answer.missing:
            raise Exit(NOT_FOUND, f"no job {', '.join(answer.missing)} in {self._client.root}")
        if not answer.jobs and not self._options.next:
            raise Exit(NOT_FOUND, f"no jobs in {self._client.root}")
        return answer

    def _check_scheduler(self, jobs: Sequence[PickedJob], line: StatusLine) -> None:
        """Exit if no job can end because no scheduler runs. Report a pause once."""
        status = self._client.ask(StatusQuestion())
        if any(job.state in ACTIVE for job in jobs):
            return
        if status.process is None and not self._page.events:
            count = sum(job.state not in ENDS for job in jobs)
            waiting, resume = counted(count, "job waiting", "jobs waiting"), suggest(self._options, "gputui resume")
            raise Exit(UNREACHABLE, f"{waiting}, but no scheduler is running; start one with: {resume}")
        cause = status.scheduler.cause
        if cause is not None and not self._pause_reported:
            self._pause_reported = True
            line.clear()
            say(f"scheduler paused ({cause.message}); waiting until it is resumed")


def wait(client: Client, options: Options) -> int:
    waiter = Waiter(client, options)
    with StatusLine() as line:
        ended, timed_out = waiter.wait(line)
    listing = client.ask(Listing(jobs=ended, read_logs=JSON.on))
    bad = [job for job in listing.jobs if job.state is not StateName.SUCCEEDED]
    if JSON.on:
        status = client.ask(StatusQuestion())
        metric = listing.metric.name if listing.metric is not None else None
        jobs = list(_in_full(client, listing.jobs, metric))
        stopped = (waiter.cannot_start, waiter.paused)
        print_json(Waited(jobs, status.active, status.waiting, timed_out, waiter.cursor, waiter.gap, *stopped))
    elif options.next and ended:
        for job in listing.jobs:
            out(plain(f"#{job.id} {job.name}: {job.state}{f': {job.end}' if job.end else ''}"))
        out(f"cursor {waiter.cursor}")
    elif bad:
        counts = format_counts(Counter(job.state for job in bad))
        say(f"{len(ended) - len(bad)} of {len(ended)} succeeded; {counts}")
    if waiter.cannot_start is not None and not JSON.on:
        count = counted(len(waiter.cannot_start.jobs), "job", "jobs")
        say(f"{count} cannot start: {waiter.cannot_start.reason}")
    if timed_out:
        if not JSON.on:
            say(f"timed out; {_unfinished(client.ask(StatusQuestion()))}")
        return TIMED_OUT
    return REFUSED if bad or waiter.cannot_start is not None or waiter.paused is not None else 0


def _unfinished(status: SessionStatus) -> str:
    return f"{len(status.active)} running, {status.waiting} waiting"


def _in_full(client: Client, jobs: Sequence[ListedJob], metric: str | None) -> Iterator[EndedJob]:
    failed_first = sorted(jobs, key=lambda job: (job.state not in FAILURES, -job.id))
    in_full = {job.id for job in failed_first[:MOST_IN_FULL]}
    for job in jobs:
        details: dict[str, Any] = {}
        if job.id in in_full:
            attempts = client.ask(Show(job.id)).attempts
            details = {"kind": attempts[-1].kind if attempts else None, "lines": _last_lines(job)}
        seconds = job.ended - job.started if job.ended is not None and job.started is not None else None
        found = job.results.get(metric) if metric is not None else None
        yield EndedJob(
            id=job.id,
            name=job.name,
            key=job.key,
            group=job.group,
            state=job.state,
            exit_code=job.exit_code,
            signal=job.signal,
            message=job.end,
            result=Result(metric, found.last, found.best) if metric is not None and found is not None else None,
            seconds=seconds,
            gpu_hours=seconds * len(job.gpus) / 3600 if seconds is not None else None,
            **details,
        )


def _last_lines(job: ListedJob) -> list[str]:
    """Return the end of the error output of a failed job, or of the output if there is none."""
    from gputui.logs.line_index import read_tail  # slow to import

    files = (job.err, job.out) if job.state in FAILURES else (job.out, job.err)
    for file in files:
        text = read_tail(file, LINES * LONGEST_LINE).decode("utf-8", "replace") if file is not None else ""
        if text.strip():
            return [plain(line)[:LONGEST_LINE] for line in text.splitlines()[-LINES:]]
    return []
