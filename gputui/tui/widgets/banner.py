"""The banner: loud and there as long as its cause is. It names the cause and the keys that get out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten, wrap

from rich.text import Text
from textual.widgets import Static

from gputui.core.events import PauseKind
from gputui.core.job import JobId
from gputui.core.mode import Mode
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import counted
from gputui.logs.plain import plain

SHOWN_JOBS = 6
INDENT = "    "


@dataclass(frozen=True)
class Notice:
    """One thing the user must not overlook: what it is, and what to do about it."""

    sign: str
    what: str
    way_out: str
    grave: bool = False
    calm: bool = False
    """Good to know; nothing is wrong."""


MONITOR = Notice(
    "○ MONITOR",
    "there is no session here: nothing is scheduled",
    "a adds a job · A a sweep · gputui FILE loads one · gputui demo shows how it looks",
    calm=True,
)
"""For a screen without a session."""


UNAVAILABLE_WAY_OUT = "it goes on by itself when the cluster answers · what runs there runs on · gputui doctor looks"
TROUBLE_WAY_OUT = "nothing is lost, it goes on by itself · K and B end jobs meanwhile, other changes are refused"


class Banner(Static):
    """As high as what it says; no notice, no banner."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.notices: list[Notice] = []
        self.lines = 0
        self._known: tuple[object, ...] = ()
        self.display = False

    def show(self, notices: list[Notice], width: int, crashes: Sequence[Text] = ()) -> None:
        """Takes as many lines as it needs; the rest of the screen is arranged around it. `crashes`: ready rows."""
        shown = (notices, width, [row.markup for row in crashes])
        if shown == self._known:
            return
        self.notices, self._known = notices, shown
        self.display = bool(notices or crashes)
        self.set_class(all(notice.calm for notice in notices), "-calm")
        self.set_class(any(notice.grave for notice in notices), "-grave")
        lines = [*(Text(line) for notice in notices for line in notice_lines(notice, width)), *crashes]
        self.lines = len(lines)
        self.styles.height = self.lines
        self.update(Text("\n").join(lines), layout=False)


def notice_lines(notice: Notice, width: int) -> list[str]:
    """What it is, on two lines at most, and what to do about it on one that is never pushed out of sight."""
    room = max(10, width - 2)
    first = wrap(f"{notice.sign}  {plain(notice.what)}", room, subsequent_indent=INDENT, max_lines=2, placeholder=" …")
    way_out = shorten(plain(notice.way_out), room - len(INDENT), placeholder=" …")
    return [f" {line}" for line in (*first, INDENT + way_out)]


def notices(snapshot: Snapshot, device_trouble: str | None = None, unseen: str | None = None) -> list[Notice]:
    """Pure: what the session's state asks to be said; `unseen`: why that is not known any more."""
    shown_notices: list[Notice] = []
    if unseen is not None:
        shown_notices.append(Notice("! LAST SEEN", unseen, "goes on by itself when an owner answers"))
    if snapshot.trouble is not None:
        of_engine = snapshot.trouble == snapshot.unavailable
        way_out = UNAVAILABLE_WAY_OUT if of_engine else TROUBLE_WAY_OUT
        shown_notices.append(Notice("! TROUBLE", snapshot.trouble, way_out, grave=True))
    if snapshot.mode is Mode.DRAINING:
        runs = counted(snapshot.running, "running job goes on to its end", "running jobs go on to their end")
        what = f"nothing new starts; {runs}"
        shown_notices.append(Notice("▽ DRAINING", what, "p resumes"))
    elif snapshot.mode is Mode.PAUSED and snapshot.cause is not None and not _told_by_rows(snapshot):
        shown_notices.append(_paused(snapshot))
    if device_trouble is not None:
        shown_notices.append(Notice("! GPUS", device_trouble, "jobs that run go on; gputui doctor tells more"))
    return shown_notices


def _told_by_rows(snapshot: Snapshot) -> bool:
    """Crashes have rows of their own."""
    return any(caution.group is None for caution in snapshot.cautions)


def _paused(snapshot: Snapshot) -> Notice:
    cause = snapshot.cause
    assert cause is not None
    if cause.kind is not PauseKind.CRASHES:
        waits = f"{snapshot.waiting:,} wait · " if snapshot.waiting else ""
        return Notice("‖ PAUSED", cause.message.removeprefix("paused "), f"{waits}p resumes")
    way_out = f"{_named(cause.jobs)} · R reruns them and resumes · p resumes without · l opens the log"
    return Notice("‖ PAUSED", cause.message, way_out, grave=True)


def _named(jobs: tuple[JobId, ...]) -> str:
    shown = " ".join(f"#{job}" for job in jobs[:SHOWN_JOBS])
    return shown + (f" +{len(jobs) - SHOWN_JOBS}" if len(jobs) > SHOWN_JOBS else "")
