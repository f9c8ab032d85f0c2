"""The banner and what it says when jobs crashed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten, wrap

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from gputui.core.amounts import counted, duration_exact, moment
from gputui.core.events import Mode, PauseKind
from gputui.core.job import FAILURES, Job, JobId
from gputui.core.parameter_columns import parameters_of, short_names
from gputui.core.parameters import FLAG
from gputui.core.snapshot import (
    AT_A_SUCCESS,
    Caution,
    Snapshot,
    crashed_alike,
    rerun_manner,
    rule,
    still_running,
    telling,
)
from gputui.logs.plain import plain
from gputui.views.failures import devices_of, place_of, places_told
from gputui.views.format import cut

from .theme import Palette

# ---- The banner ----


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
    return [f" {line}" for line in (*first, *([INDENT + way_out] if way_out else []))]


def notices(
    snapshot: Snapshot, device_trouble: str | None = None, unseen: str | None = None, *, read_only: bool = False
) -> list[Notice]:
    """Pure: what the session's state asks to be said; `unseen`: why that is not known any more.

    `read_only`: without the keys that such a screen refuses.
    """
    shown_notices: list[Notice] = []
    if unseen is not None:
        shown_notices.append(Notice("! LAST SEEN", unseen, "goes on by itself when an owner answers"))
    if snapshot.trouble is not None:
        way_out = UNAVAILABLE_WAY_OUT if snapshot.is_saved else TROUBLE_WAY_OUT
        shown_notices.append(Notice("! TROUBLE", snapshot.trouble, way_out, grave=True))
    if snapshot.mode is Mode.DRAINING:
        runs = counted(snapshot.running, "running job goes on to its end", "running jobs go on to their end")
        what = f"nothing new starts; {runs}"
        shown_notices.append(Notice("▽ DRAINING", what, "" if read_only else "p resumes"))
    elif snapshot.mode is Mode.PAUSED and snapshot.cause is not None and not _told_by_rows(snapshot):
        shown_notices.append(_paused(snapshot, read_only=read_only))
    if device_trouble is not None:
        shown_notices.append(Notice("! GPUS", device_trouble, "jobs that run go on; gputui doctor tells more"))
    return shown_notices


def _told_by_rows(snapshot: Snapshot) -> bool:
    """Crashes have rows of their own."""
    return any(caution.group is None for caution in snapshot.cautions)


def _paused(snapshot: Snapshot, *, read_only: bool) -> Notice:
    cause = snapshot.cause
    assert cause is not None
    if cause.kind is not PauseKind.CRASHES:
        waits = f"{snapshot.waiting:,} waiting" if snapshot.waiting else ""
        ways = [waits, "" if read_only else "p resumes"]
        return Notice("‖ PAUSED", cause.message.removeprefix("paused "), " · ".join(filter(None, ways)))
    keys = [] if read_only else ["R reruns them and resumes", "p resumes without"]
    return Notice("‖ PAUSED", cause.message, " · ".join([_named(cause.jobs), *keys, "l opens the log"]), grave=True)


def _named(jobs: tuple[JobId, ...]) -> str:
    shown = " ".join(f"#{job}" for job in jobs[:SHOWN_JOBS])
    return shown + (f" +{len(jobs) - SHOWN_JOBS}" if len(jobs) > SHOWN_JOBS else "")


# ---- What the banner says when jobs crashed ----


NARROW = 100
MOST_CRASHED_JOBS = 8
MOST_PARAMETERS = 3
BAR = 26
SHORTEST_BAR = 8
LONGEST_NAME = 24
EDGES = 3
"""Columns of a row that are not for words."""
BOLD = Style(bold=True)
NameOf = Callable[[JobId], str]
Parts = list[tuple[str, Style]]


def crash_rows(
    snapshot: Snapshot, width: int, palette: Palette, now: float, name_of: NameOf, *, read_only: bool = False
) -> list[Text]:
    """Four rows for each scope in which jobs do not just start, three where it is narrow."""
    rows: list[Parts] = []
    for caution in snapshot.cautions:
        story = _Story(snapshot, caution, palette, now, name_of, read_only=read_only)
        rows += story.narrow(width - EDGES) if width < NARROW else story.wide(width - EDGES)
    return [_row(parts, width, palette) for parts in rows]


def _row(parts: Parts, width: int, palette: Palette) -> Text:
    text = Text("▌", palette.warning + palette.pause, no_wrap=True, overflow="crop")
    room = width - 2
    for words, style in [(" ", palette.text), *parts]:
        is_cut = cell_len(words) > room
        shown = cut(words, room) if is_cut else words
        room -= cell_len(shown)
        text.append(shown, style + palette.pause)
        if is_cut:
            break
    return text.append(" " * (room + 1), palette.text + palette.pause)


class _Story:
    """One scope, in pieces."""

    def __init__(
        self, snapshot: Snapshot, caution: Caution, palette: Palette, now: float, name_of: NameOf, *, read_only: bool
    ) -> None:
        self._read_only = read_only
        self._snapshot, self._caution, self._now, self._name_of = snapshot, caution, now, name_of
        self._text, self._past, self._warning = palette.text, palette.past, palette.warning
        self._bold, self._loud = palette.text + BOLD, palette.warning + BOLD
        self._failure, self._line = palette.failure + BOLD, palette.line
        self._jobs = [snapshot[job] for job in caution.cause.jobs if job in snapshot]
        self._alike = crashed_alike(snapshot, caution)

    def wide(self, room: int) -> list[Parts]:
        message = [("  ", self._text), (self._message(), self._failure)]
        return [[(self._crashed(), self._loud), *message], self._facts(), self._next(room), self._keys()]

    def narrow(self, room: int) -> list[Parts]:
        crashed: Parts = [(self._crashed().replace(" jobs crashed", " crashed"), self._loud)]
        shared = self._shared()
        all_are: Parts = [(", all ", self._text), (shared, self._bold)] if shared else []
        dot, ways = (" · ", self._past), self._ways_to_tell_briefly()
        sentences = [[*crashed, *all_are, dot, *way] for way in ways] + [[*crashed, dot, *way] for way in ways]
        return [_fitting(sentences, room), [(self._message(), self._failure)], self._keys(brief=True)]

    # What happened

    def _crashed(self) -> str:
        cause, group = self._caution.cause, self._caution.group
        if cause.count == 1:
            crashed = f"#{cause.jobs[0]} crashed"
        elif cause.signature is None:
            crashed = f"{counted(cause.count, 'job', 'jobs')} crashed in a row"
        else:
            others = cause.count - len(self._alike) - cause.more
            otherwise = f" +{others} otherwise" if others else ""
            crashed = f"{len(self._alike) + cause.more:,} jobs crashed alike{otherwise}"
        return crashed if group is None else f"{plain(group) or 'the group without a name'} paused: {crashed}"

    def _message(self) -> str:
        """A true one, of the newest."""
        newest = self._alike[-1] if self._alike else self._jobs[-1] if self._jobs else None
        said = newest.attempts[-1].said if newest is not None and newest.attempts else None
        return plain(said or self._caution.cause.message)

    def _facts(self) -> Parts:
        parts: list[Parts] = [[(self._named(), self._text)]]
        shared = self._shared()
        if shared:
            parts.append([("all are ", self._text), (shared, self._bold)])
        where = self._where()
        if where:
            parts.append([(where, self._bold if where.startswith("only") else self._past)])
        parts.append([(f"since {moment(self._caution.cause.since, self._now)}", self._past)])
        variants = _variants(self._alike)
        if variants:
            parts.append([(variants, self._past)])
        return _joined(parts, self._past)

    def _named(self) -> str:
        cause = self._caution.cause
        ids = sorted(cause.jobs)
        more = cause.count - len(ids[:MOST_CRASHED_JOBS])
        return " ".join(f"#{job}" for job in ids[:MOST_CRASHED_JOBS]) + (f" +{more:,}" if more > 0 else "")

    def _shared(self) -> str:
        """The parameters that all crashed jobs have, and that tell them from others."""
        common = telling(self._snapshot, self._caution) if self._caution.cause.count > 1 else {}
        titles = short_names(common)
        named = [titles[name] if value == FLAG else f"{titles[name]}={value}" for name, value in common.items()]
        return plain(" ".join(named[:MOST_PARAMETERS]))

    def _where(self) -> str:
        gpus = tuple(sorted({gpu for job in self._jobs for gpu in place_of(job)}))
        only = len(self._jobs) > 1 and len(gpus) == 1 < devices_of(self._snapshot)
        return plain(f"only on {places_told(gpus)}" if only else places_told(gpus))

    # What is done about it

    def _next(self, room: int) -> Parts:
        caution, who = self._caution, (self._who(), self._bold)
        if caution.tries:
            lived = max(0.0, caution.life - (caution.at - self._now)) if caution.at is not None else 0.0
            attempt_parts: Parts = [("tries ", self._text), who, (" alone", self._text)]
            return self._with_bar(attempt_parts, lived / caution.life, [(self._outcome(), self._text)], room)
        if not caution.goes_on:
            return [(self._why_not(), self._text)]
        if self._is_due():
            return [("tries ", self._text), who, (f" alone as soon as it fits; {self._outcome()}", self._text)]
        assert caution.at is not None
        remaining = caution.at - self._now
        clock: Parts = [("next try in ", self._text), (duration_exact(remaining), self._loud)]
        unlike = ", unlike the crashed" if self._is_unlike() else ""
        ends = [f" alone{unlike}; {self._outcome()}", f" alone; {self._outcome()}", f"; {self._outcome()}", " alone"]
        share = 1 - remaining / caution.wait if caution.wait else 0.0
        ways = [
            self._with_bar([*clock, (sooner, self._text)], share, [who, (end, self._text)], room)
            for end in ends
            for sooner in (self._sooner() if end != ends[0] else self._sooner()[:1])
        ]
        return _fitting(ways, room)

    def _is_due(self) -> bool:
        return self._caution.due or self._caution.at is None or self._caution.at <= self._now

    def _sooner(self) -> list[str]:
        """What ends the wait before its time, in many and in few words."""
        running = still_running(self._snapshot, self._caution)
        if not running:
            return [""]
        which = f"#{running[0]}" if len(running) == 1 else f"one of the {len(running):,} running"
        return [f", or when {which} succeeds", AT_A_SUCCESS]

    def _ways_to_tell_briefly(self) -> list[Parts]:
        """What comes next, in many and in few words."""
        caution, who = self._caution, (self._who(), self._bold)
        if caution.tries:
            return [[("tries ", self._text), who, (" alone", self._text)]]
        if not caution.goes_on:
            return [[(self._why_not(), self._text)]]
        if self._is_due():
            return [[("next try now: ", self._text), who, (" alone", self._text)]]
        assert caution.at is not None
        clock: Parts = [("next try ", self._text), (duration_exact(caution.at - self._now), self._loud)]
        return [
            [*clock, (f"{sooner}: ", self._text), who, (alone, self._text)]
            for alone in (" alone", "")
            for sooner in self._sooner()
        ]

    def _who(self) -> str:
        """By what tells it from the crashed, where something does: its whole name may be long."""
        job = self._caution.job
        if job is None:
            return ""
        named = parameters_of(self._snapshot[job].spec)
        values = [named[name] for name in telling(self._snapshot, self._caution) if name in named]
        return cut(f"#{job} {plain(' '.join(values) or self._name_of(job))}".strip(), LONGEST_NAME)

    def _outcome(self) -> str:
        return f"if it {rule(self._caution.life)}, all go on"

    def _why_not(self) -> str:
        waits = any(True for job in self._snapshot if job.state.name == "queued" and self._caution.covers(job))
        return "nothing is tried by itself" if waits else "nothing is left to try"

    def _is_unlike(self) -> bool:
        job = self._caution.job
        if job is None:
            return False
        groups = {job_named.spec.group for job_named in self._jobs}
        candidate = self._snapshot[job]
        common = telling(self._snapshot, self._caution)
        return candidate.spec.group not in groups or (bool(common) and not has_all(candidate, common))

    def _with_bar(self, before: Parts, share: float, after: Parts, room: int) -> Parts:
        """A bar between the words, as long as they leave room for; none where that is little."""
        length = min(BAR, room - _width([*before, *after]) - 4)
        filled = round(length * min(1.0, max(0.0, share)))
        bar = [("━" * filled, self._warning), ("─" * (length - filled), self._line), ("  ", self._text)]
        return [*before, ("  ", self._text), *(bar if length >= SHORTEST_BAR else []), *after]

    def _keys(self, *, brief: bool = False) -> Parts:
        """Those that were rerun meanwhile are not offered again."""
        count = sum(job.state.name in FAILURES for job in self._jobs) + self._caution.cause.more
        manner = rerun_manner(self._snapshot, self._jobs)
        first = manner if count > 1 or self._caution.tries else ""
        words = {"R": f"Rerun {count:,}{first}", "p": "Resume", "!": "Crash", "F": "Fails: edit, rerun"}
        if not brief:
            rerun = f"Rerun the {count:,}{first}" if count > 1 else f"Rerun it{first}"
            words = {"R": rerun, "p": "Resume now", "!": "Go to the crash", "F": "Failures: edit and rerun"}
        if not count:
            del words["R"]
        if self._read_only:
            words = {"!": words["!"], "F": "Failures"}
        parts: Parts = []
        for key, label in words.items():
            parts += [(key, self._bold), (f" {label}{'  ' if brief else '   '}", self._past)]
        return parts


def has_all(job: Job, common: dict[str, str]) -> bool:
    named = parameters_of(job.spec)
    return all(named.get(name) == value for name, value in common.items())


def _variants(jobs: Sequence[Job]) -> str:
    """Other messages of the same crash; of a single one, where it differs."""
    said = [plain(job.attempts[-1].said or "") for job in jobs if job.attempts]
    others = [words for words in dict.fromkeys(reversed(said)) if said and words != said[-1]]
    if not others:
        return ""
    if len(others) > 1:
        return f"{len(others)} variants"
    mine, theirs = said[-1].split(), others[0].split()
    same = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    return f"1 variant: {' '.join(theirs[same:])}" if same else f"1 variant: {others[0]}"


def _width(parts: Parts) -> int:
    return sum(cell_len(words) for words, _ in parts)


def _fitting(ways: list[Parts], room: int) -> Parts:
    """The first that fits; the last one where none does."""
    return next((way for way in ways if _width(way) <= room), ways[-1])


def _joined(parts: list[Parts], style: Style) -> Parts:
    joined: Parts = []
    for number, part in enumerate(parts):
        joined += [("  ·  ", style)] * bool(number) + part
    return joined
