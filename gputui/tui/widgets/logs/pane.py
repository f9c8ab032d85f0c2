"""The log of the job under the cursor: which job, attempt and stream, searching, and the pane's title.

It has no timer of its own: the app calls `tick()` a few times a second, and keys with letters call public methods.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from textual.message import Message
from textual.worker import Worker

from gputui.logs.document import Document
from gputui.logs.finding import Finding, all_known, all_matches, find_above, find_below, find_nearest
from gputui.logs.line_index import FileChange
from gputui.logs.plain import plain
from gputui.logs.search import Needle

from .job_log import JobLog, Stream
from .moving import MovableView
from .reading import LogReading
from .turns import TURN, in_turns

__all__ = ["LogPane"]

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
