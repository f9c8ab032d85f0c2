"""Which job, attempt and stream are read at present. Knows the files, not the screen."""

from __future__ import annotations

from gputui.logs.document import Document
from gputui.logs.line_index import FileChange
from gputui.logs.plain import plain

from .job_log import AttemptLog, JobLog, Stream, size_and_time, stream_to_show

__all__ = ["LogReading"]


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
