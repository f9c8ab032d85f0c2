"""The log pane: which job, attempt and stream, searching, and what stands in place of a log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from textual.message import Message
from textual.worker import Worker

from gputui.core.amounts import counted, duration_words
from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import ClusterSample, node_of
from gputui.logs.document import Document, Finding, Needle, all_known, all_matches, find_above, find_below, find_nearest
from gputui.logs.line_index import FileChange
from gputui.logs.plain import plain
from gputui.views.format import submission_facts

from .view import TURN, MovableView, in_turns

# ---- What the log pane is told of a job ----


SAME_TIME = 5.0
"""Seconds within which two streams count as written together."""


class Stream(Enum):
    """In the order in which the key goes through them."""

    OUT = "OUT"
    ERR = "ERR"
    BOTH = "OUT and ERR"

    @property
    def next(self) -> Stream:
        order = list(Stream)
        return order[(order.index(self) + 1) % len(order)]


@dataclass(frozen=True)
class AttemptLog:
    """The files of one attempt."""

    number: int
    out: Path
    err: Path | None
    """None: both streams are in the one file."""
    live: bool
    failed: bool = False
    """It ended, and not well: what it said last on ERR is wanted first."""

    def files(self, stream: Stream) -> list[tuple[str, Path]]:
        if self.err is None or stream is Stream.OUT:
            return [(Stream.OUT.value, self.out)]
        err = (Stream.ERR.value, self.err)
        return [err] if stream is Stream.ERR else [(Stream.OUT.value, self.out), err]


@dataclass(frozen=True)
class JobLog:
    """A job under the cursor."""

    job: int
    title: str
    attempts: tuple[AttemptLog, ...]
    """Newest last; empty: it has not run yet."""


def stream_to_show(attempt: AttemptLog) -> Stream:
    """What a user who has not chosen wants to see: progress bars go to ERR, and so do last words."""
    if attempt.err is None:
        return Stream.OUT
    out_size, out_time = size_and_time(attempt.out)
    err_size, err_time = size_and_time(attempt.err)
    if not err_size or not out_size:
        return Stream.ERR if err_size else Stream.OUT
    if attempt.live:
        return Stream.ERR if err_time > out_time + SAME_TIME else Stream.OUT
    return Stream.ERR if attempt.failed else Stream.OUT


def size_and_time(path: Path) -> tuple[int, float]:
    """Of a file that is not there, nothing was written, ever."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return 0, 0.0
    return status.st_size, status.st_mtime


# ---- Which job, attempt and stream are read at present ----


class LogReading:
    """What the user chose is kept: an attempt for its job, a stream for every job that wrote to it."""

    def __init__(self) -> None:
        self.log: JobLog | None = None
        self.attempt: AttemptLog | None = None
        self.stream = Stream.OUT
        self.document: Document | None = None
        self._attempt_number: int | None = None
        """None: the newest, whichever it comes to be."""
        self._wish: Stream | None = None
        self._insists = False
        """The wish was made for the job that is shown: an empty stream is shown as such."""

    def show(self, log: JobLog | None, *, may_turn: bool) -> bool:
        """True: other lines than before. `may_turn`: another stream may be shown when the attempt has ended."""
        before = self.log
        self.log = log
        if log is None or before is None or log.job != before.job:
            self._attempt_number = None
            self._insists = False
            return self._open()
        was, now = self.attempt, self._wanted_attempt()
        if was is None or now is None or (was.out, was.err) != (now.out, now.err):
            return self._open()
        self.attempt = now
        ended = was.live and not now.live
        return ended and may_turn and self._turn()

    def look(self, *, at_end: bool) -> FileChange:
        if self.document is None:
            return FileChange.NOTHING
        if self.document.empty and self.attempt is not None and self._turn():
            return FileChange.ANEW
        return self.document.look(at_end=at_end)

    def cycle_stream(self) -> bool:
        """False: there is but one file."""
        if self.attempt is None or self.attempt.err is None:
            return False
        self._wish, self._insists = self.stream.next, True
        return self._open()

    def turn_to(self, stream: Stream) -> bool:
        """The newest attempt's; False: that is what is shown, or there is but one file."""
        if self.attempt is None or self.attempt.err is None or (self.stream is stream and not self._attempt_number):
            return False
        self._attempt_number, self._wish, self._insists = None, stream, True
        return self._open()

    def step_attempt(self, by: int) -> bool:
        """To an earlier or a later attempt; False when there is none."""
        attempts = self.log.attempts if self.log is not None else ()
        if self.attempt is None or self.attempt not in attempts:
            return False
        place = attempts.index(self.attempt) + by
        if not 0 <= place < len(attempts):
            return False
        self._attempt_number = attempts[place].number if place < len(attempts) - 1 else None
        return self._open()

    def close(self) -> None:
        if self.document is not None:
            self.document.close()
            self.document = None

    @property
    def live(self) -> bool:
        return self.attempt is not None and self.attempt.live

    @property
    def head(self) -> str:
        """The job."""
        return f"#{self.log.job} {plain(self.log.title)}".rstrip() if self.log is not None else ""

    @property
    def facts(self) -> list[str]:
        """Which stream of which attempt."""
        if self.log is None or self.attempt is None:
            return []
        stream = self.stream.value if self.attempt.err is not None else "OUT+ERR"
        if len(self.log.attempts) == 1:
            return [stream]
        return [stream, f"attempt {self.log.attempts.index(self.attempt) + 1}/{len(self.log.attempts)}"]

    def elsewhere(self, metric: str, log: int) -> str:
        """`loss from ERR`, where the metric is read from another stream than the one in sight."""
        if not metric or self.attempt is None or self.attempt.err is None or self.stream is Stream.BOTH:
            return ""
        source = Stream.ERR if log else Stream.OUT
        return f"{plain(metric)} from {source.value}" if source is not self.stream else ""

    def nothing(self) -> str:
        """Why there is nothing to read in files that are there or are about to be."""
        if self.attempt is None:
            return ""
        if self.attempt.err is None or self.stream is Stream.BOTH:
            return "nothing written yet" if self.live else "nothing was written"
        said = f"nothing on {self.stream.value} yet" if self.live else f"nothing was written to {self.stream.value}"
        other, path = ("OUT", self.attempt.out) if self.stream is Stream.ERR else ("ERR", self.attempt.err)
        return f"{said}; {other} has something" if size_and_time(path)[0] else said

    def _turn(self) -> bool:
        """To another stream, if that is what would be shown were the job shown only now."""
        return self.attempt is not None and self._wanted_stream(self.attempt) is not self.stream and self._open()

    def _open(self) -> bool:
        self.close()
        self.attempt = self._wanted_attempt()
        if self.attempt is not None:
            self.stream = self._wanted_stream(self.attempt)
            self.document = Document(self.attempt.files(self.stream))
            self.document.look(at_end=True)
        return True

    def _wanted_attempt(self) -> AttemptLog | None:
        if self.log is None or not self.log.attempts:
            return None
        chosen = [attempt for attempt in self.log.attempts if attempt.number == self._attempt_number]
        return chosen[0] if chosen else self.log.attempts[-1]

    def _wanted_stream(self, attempt: AttemptLog) -> Stream:
        if attempt.err is None or self._wish is None:
            return stream_to_show(attempt)
        if self._insists or any(size_and_time(path)[0] for _, path in attempt.files(self._wish)):
            return self._wish
        return stream_to_show(attempt)


# ---- The log of the job under the cursor ----


Result = TypeVar("Result")
MOST_COUNTED = 999
"""Matches; nobody goes through more."""


class LogPane(MovableView):
    """Follows the end of the log until the user scrolls up, and again once the end is reached."""

    class TitleChanged(Message):
        """What is shown, and whether it follows."""

        def __init__(self, title: str) -> None:
            super().__init__()
            self.title = title

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogPane.TitleChanged)

    class Noticed(Message):
        """A sentence for the user."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._reading = LogReading()
        self._note = ""
        self._busy = ""
        """What a worker does at present, in words."""
        self._hit: int | None = None
        self._matches: list[int] | None = None
        """The lines with what is searched for; None: not counted."""
        self._title = ""
        self.heading = ("", "")
        """The job, and what is read of it and how."""
        self.metric_source = ("", 0)
        """The metric that the queue shows of this job, and from which of its files it is read."""

    @property
    def title(self) -> str:
        """As in the last message about it."""
        return self._title

    def show(self, log: JobLog | None) -> None:
        """Turns to a job at the end of its log; the same job again stays where it is."""
        if self._reading.show(log, may_turn=self.following):
            self._turn_to_other_lines()
        self._tell()

    def note(self, text: str) -> None:
        """Shown while the job has not run: why it waits."""
        self._note = text
        self._tell()

    def tick(self) -> None:
        """Looks at the files; reads what is new, and a little of what is not known yet."""
        document = self._reading.document
        if document is None:
            return
        unsettled = document.unsettled()
        change = self._reading.look(at_end=self.following)
        if change is FileChange.ANEW:
            self._turn_to_other_lines()
        elif not document.complete and not self._busy:
            document.extend(TURN)
            self.take_in(unsettled)
        elif change is FileChange.GREW:
            self.take_in(unsettled)
        self._tell()

    def toggle_follow(self) -> None:
        self.follow(not self.following)

    def toggle_wrap(self) -> None:
        self.wrap(not self.wrapped)

    def cycle_stream(self) -> None:
        if self._reading.cycle_stream():
            self._turn_to_other_lines()
        elif self._reading.attempt is not None:
            self.post_message(self.Noticed("both streams of this job are in one file"))
        self._tell()

    def turn_to(self, stream: Stream) -> None:
        if self._reading.turn_to(stream):
            self._turn_to_other_lines()
        self._tell()

    def attempt_earlier(self) -> None:
        self._step_attempt(-1, "there is no earlier attempt")

    def attempt_later(self) -> None:
        self._step_attempt(1, "there is no later attempt")

    def search(self, text: str) -> None:
        """The nearest match: on the screen or below it, else above it. An empty text ends the search."""
        self._stop_working()
        self._hit = self._matches = None
        self.mark(Needle(text) if text else None)
        if text and self._document is not None and self._visible:
            self._find(find_nearest(self._document, Needle(text), self._visible[0][0]), "no match")
        self._tell()

    def search_next(self) -> None:
        if (place := self._search_place()) is not None:
            document, needle, key = place
            self._find(find_below(document, needle, key + 1 if key == self._hit else key), "no further match")

    def search_previous(self) -> None:
        if (place := self._search_place()) is not None:
            self._find(find_above(*place), "no earlier match")

    def _search_place(self) -> tuple[Document, Needle, int] | None:
        """What is searched, for what, and from where; without any of it a sentence says so: no key is silent."""
        key = self._search_from()
        if self._needle is None:
            self.post_message(self.Noticed("nothing is searched for: 3 goes to the log, / searches there"))
        elif self._document is None or key is None:
            self.post_message(self.Noticed("there is nothing to search in"))
        else:
            return self._document, self._needle, key
        return None

    def action_scroll_home(self) -> None:
        if self._document is None or self._document.complete:
            super().action_scroll_home()
        else:
            self._work(all_known(self._document), lambda _: self.move_home(), "reading")

    def followed(self) -> None:
        self._tell()

    def on_unmount(self) -> None:
        self._reading.close()

    def _step_attempt(self, by: int, otherwise: str) -> None:
        if self._reading.step_attempt(by):
            self._turn_to_other_lines()
        else:
            self.post_message(self.Noticed(otherwise))
        self._tell()

    def _turn_to_other_lines(self) -> None:
        self._stop_working()
        self._hit = self._matches = None
        self.open(self._reading.document)

    def _tell(self) -> None:
        document = self._reading.document
        self.say_instead(self._reading.nothing() if document is not None else self._note)
        state = self._busy or (("following" if self.following else "paused") if self._reading.live else "")
        facts = [self._reading.elsewhere(*self.metric_source), *self._reading.facts, self._match(), state]
        self.heading = self._reading.head, " · ".join(filter(None, facts))
        title = " · ".join(part for part in (f"Log  {self.heading[0]}".rstrip(), self.heading[1]) if part)
        if title != self._title:
            self._title = title
            self.post_message(self.TitleChanged(title))

    def _search_from(self) -> int | None:
        """The last match while it can be seen, else the first line on the screen."""
        keys = [key for key, _ in self._visible]
        return self._hit if self._hit in keys else keys[0] if keys else None

    def _find(self, finding: Finding, otherwise: str) -> None:
        sought = self._needle.text if self._needle is not None else ""

        def found(key: int | None) -> None:
            if key is None:
                self.post_message(self.Noticed(f"{otherwise} for '{plain(sought)}'"))
            else:
                self._hit = key
                self.go_to(key)
                self._count_matches()

        self._work(finding, found, f"searching '{plain(sought)}'")

    def _count_matches(self) -> None:
        """Beside whatever else is done: the match itself is on the screen already."""
        document, needle = self._document, self._needle
        if document is None or needle is None or self._matches is not None:
            return

        async def until_counted() -> None:
            self._matches = await in_turns(all_matches(document, needle, MOST_COUNTED))
            self._tell()

        _: Worker[None] = self.run_worker(until_counted, group="count", exclusive=True)

    def _match(self) -> str:
        """Which one of how many."""
        if self._hit is None or self._matches is None or self._hit not in self._matches:
            return ""
        more = "+" if len(self._matches) == MOST_COUNTED else ""
        return f"match {self._matches.index(self._hit) + 1}/{len(self._matches)}{more}"

    def _work(self, work: Generator[None, None, Result], then: Callable[[Result], None], what: str) -> None:
        async def until_done() -> None:
            result = await in_turns(work)
            self._busy = ""
            then(result)
            self._tell()

        self._busy = what
        _: Worker[None] = self.run_worker(until_done, group="log", exclusive=True)
        self._tell()

    def _stop_working(self) -> None:
        self._busy = ""
        if self.is_mounted:
            self.workers.cancel_group(self, "log")
            self.workers.cancel_group(self, "count")


# ---- What stands in place of a log while a job waits in a cluster's queue ----


ADVICE = (
    "h holds it and B requeues it: both take it back from Slurm. [ ] and + - act only on what is not submitted yet."
)


def submission_note(job: Job, snapshot: Snapshot, picture: DevicesPicture, now: float) -> str:
    submitted = snapshot.submitted.get(job.id)
    reason = submitted.why if submitted is not None and submitted.why else "Slurm has not said why it waits"
    lines = [
        submission_facts(job, submitted, snapshot.settings, now),
        f"{reason[0].upper()}{reason[1:]}.",
        *_taken(picture),
        *(("When Slurm expects it to start is Slurm's guess; it often comes earlier.",) if "expects" in reason else ()),
        "",
        ADVICE,
        *_asked(picture, now),
    ]
    return "\n".join(plain(line) for line in lines)


def _taken(picture: DevicesPicture) -> list[str]:
    """`Of 9 GPUs in service 6 are yours, 3 chen's, 0 free; n3 is draining.`"""
    cluster = _cluster(picture)
    if cluster is None or not cluster.nodes:
        return []
    closed = [node for node in cluster.nodes if node.standing.closed]
    names = {node.name for node in closed}
    open_gpus = [gpu for gpu in picture.devices if node_of(gpu.sample.key) not in names]
    ours = sum(bool(gpu.jobs) for gpu in open_gpus)
    not_ours = [gpu.sample.processes[0] for gpu in open_gpus if gpu.sample.processes and not gpu.jobs]
    others = Counter(process.user or "others" for process in not_ours)
    untold = sum(node.unplaced for node in cluster.nodes if node.name not in names)
    parts = [f"{ours} run your jobs", *(f"{count} of {user}" for user, count in others.most_common(3))]
    free = len(open_gpus) - ours - others.total() - untold
    shares = ", ".join([*parts, f"{max(0, free)} free"])
    shut = f"; {', '.join(f'{node.name} is {node.standing}' for node in closed[:3])}" if closed else ""
    return [f"Of {counted(len(open_gpus), 'GPU', 'GPUs')} in service {shares}{shut}."]


def _asked(picture: DevicesPicture, now: float) -> list[str]:
    cluster = _cluster(picture)
    if cluster is None or cluster.asked is None:
        return []
    silent = f"; {cluster.silent}" if cluster.silent else ""
    return [f"Slurm was asked for its nodes {duration_words(now - cluster.asked)} ago{silent}"]


def _cluster(picture: DevicesPicture) -> ClusterSample | None:
    return picture.sample.cluster if picture.sample is not None else None
