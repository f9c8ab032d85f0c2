"""The banner with messages that the user must not overlook, such as a pause after errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten, wrap

from rich.text import Text
from textual.widgets import Static

from gputui.core.amounts import counted, duration_exact, moment
from gputui.core.events import Mode, PauseKind
from gputui.core.job import FAILURES, Job, JobId
from gputui.core.parameters import FLAG, parameters_of
from gputui.core.snapshot import PausedScope, Snapshot
from gputui.logs.plain import plain
from gputui.views.failures import device_count, format_gpus, last_gpus
from gputui.views.format import cut
from gputui.views.parameters import short_names
from gputui.views.waiting import (
    AT_A_SUCCESS,
    distinguishing_parameters,
    jobs_with_same_error,
    queued_again,
    requeued_words,
    rerun_suffix,
    resume_rule,
    still_running,
)

from .text import Line, Piece, Pieces, bar, blank, fit, join, width_of
from .theme import Ground, Look, palette_of

INDENT = "    "


@dataclass(frozen=True)
class Notice:
    """A message that the user must not overlook, and what to do about it."""

    sign: str
    what: str
    way_out: str
    grave: bool = False
    calm: bool = False
    """Whether the message is only information and nothing is wrong."""


MONITOR = Notice(
    "○ MONITOR",
    "no session here: nothing is scheduled",
    "a: add a job · A: add a sweep · gputui FILE: load jobs · gputui demo: try it",
    calm=True,
)
"""The notice shown if there is no session."""


UNAVAILABLE_WAY_OUT = "resumes automatically when the cluster responds · running jobs continue · see gputui doctor"
TROUBLE_WAY_OUT = "nothing is lost; recovers automatically · until then only K and B work"


class Banner(Static):
    """The banner. It is as high as its text and is hidden if there is no text."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.notices: list[Notice] = []
        self.lines = 0
        self._shown: tuple[object, ...] = ()
        self.display = False

    def show(self, notices: list[Notice], width: int, errors: Sequence[Line] = ()) -> None:
        """Show the notices, with the rows about errors below them."""
        shown = (notices, width, errors, self.app.theme)
        if shown == self._shown:
            return
        self.notices, self._shown = notices, shown
        self.display = bool(notices or errors)
        self.set_class(all(notice.calm for notice in notices), "-calm")
        self.set_class(any(notice.grave for notice in notices), "-grave")
        palette = palette_of(self.app.theme)
        lines = [Text(line) for notice in notices for line in notice_lines(notice, width)]
        for row in errors:
            styled = [(text, palette.on(row.ground, look)) for text, look in row.pieces]
            lines.append(Text.assemble(*styled, no_wrap=True, overflow="crop"))
        self.styles.height = self.lines = len(lines)
        self.update(Text("\n").join(lines), layout=False)


def notice_lines(notice: Notice, width: int) -> list[str]:
    """Render a notice in at most three lines: two for what happened and one for what to do."""
    room = max(10, width - 2)
    first = wrap(f"{notice.sign}  {plain(notice.what)}", room, subsequent_indent=INDENT, max_lines=2, placeholder=" …")
    way_out = shorten(plain(notice.way_out), room - len(INDENT), placeholder=" …")
    return [f" {line}" for line in (*first, *([INDENT + way_out] if way_out else []))]


def notices(
    snapshot: Snapshot, device_trouble: str | None = None, unseen: str | None = None, *, read_only: bool = False
) -> list[Notice]:
    """Return the notices for a snapshot. `unseen` is the reason why the snapshot is outdated.

    If `read_only` is set, keys that a read-only screen refuses are omitted.
    """
    shown_notices: list[Notice] = []
    if unseen is not None:
        shown_notices.append(Notice("! STALE", unseen, "updates again when a scheduler responds"))
    if snapshot.trouble is not None:
        way_out = UNAVAILABLE_WAY_OUT if snapshot.is_saved else TROUBLE_WAY_OUT
        shown_notices.append(Notice("! PROBLEM", snapshot.trouble, way_out, grave=True))
    if snapshot.mode is Mode.DRAINING:
        runs = counted(snapshot.running, "running job will finish", "running jobs will finish")
        what = f"no new jobs start; {runs}"
        shown_notices.append(Notice("▽ DRAINING", what, "" if read_only else "p: resume"))
    elif snapshot.cause is not None and snapshot.cause.kind is not PauseKind.CRASHES:  # errors have rows of their own
        waiting = f"{snapshot.waiting:,} waiting" if snapshot.waiting else ""
        what = "by you" if snapshot.cause.kind is PauseKind.USER else snapshot.cause.message
        way_out = " · ".join(filter(None, [waiting, "" if read_only else "p: resume"]))
        shown_notices.append(Notice("‖ PAUSED", what, way_out))
    if device_trouble is not None:
        shown_notices.append(Notice("! GPUS", device_trouble, "running jobs continue; see gputui doctor"))
    return shown_notices


# Errors


NARROW = 100
MOST_JOBS = 8
MOST_PARAMETERS = 3
BAR = 26
SHORTEST_BAR = 8
LONGEST_NAME = 20
EDGE_CELLS = 3
"""Number of cells at the edges of a row, which contain no text."""
NameOf = Callable[[JobId], str]


def error_rows(snapshot: Snapshot, width: int, now: float, name_of: NameOf, *, read_only: bool = False) -> list[Line]:
    """Render the rows for each paused scope: four, or three on a narrow screen."""
    rows: list[Pieces] = []
    for paused in snapshot.paused_scopes:
        scope = _ScopeRows(snapshot, paused, now, name_of, read_only=read_only)
        rows += scope.narrow(width - EDGE_CELLS) if width < NARROW else scope.wide(width - EDGE_CELLS)
    edge = [("▌", Look.WARNING), blank(1)]
    return [Line([*fit([*edge, *pieces], width - 1), blank(1)], Ground.PAUSE) for pieces in rows]


class _ScopeRows:
    """The banner rows of one paused scope."""

    def __init__(
        self, snapshot: Snapshot, paused: PausedScope, now: float, name_of: NameOf, *, read_only: bool
    ) -> None:
        self._read_only = read_only
        self._snapshot, self._paused, self._now, self._name_of = snapshot, paused, now, name_of
        self._jobs = [snapshot[job] for job in paused.cause.jobs if job in snapshot]
        self._alike = jobs_with_same_error(snapshot, paused)

    def wide(self, room: int) -> list[Pieces]:
        message: Pieces = [("  ", Look.TEXT), (self._message(), Look.FAILURE_BOLD)]
        same_errors = (" failed with the same error", ", same error")
        headlines = [[(self._headline(same), Look.WARNING_BOLD), *message] for same in same_errors]
        return [_first_fitting(headlines, room), self._facts(), self._next(room), self._keys()]

    def narrow(self, room: int) -> list[Pieces]:
        headline: Pieces = [(self._headline(", same error"), Look.WARNING_BOLD)]
        parameters = self._shared()
        all_are: Pieces = [(", all ", Look.TEXT), (parameters, Look.BOLD)] if parameters else []
        dot, ways = (" · ", Look.PAST), self._brief_next()
        sentences = [[*headline, *shared, dot, *way] for shared in (all_are, []) for way in ways]
        return [_first_fitting(sentences, room), [(self._message(), Look.FAILURE_BOLD)], self._keys(brief=True)]

    def _headline(self, same_error: str) -> str:
        cause, group = self._paused.cause, self._paused.group
        if cause.count == 1:
            failed = f"#{cause.jobs[0]} failed"
        elif cause.signature is None:
            failed = f"{cause.count:,} jobs failed in a row"
        else:
            others = cause.count - len(self._alike) - cause.more
            failed = f"{len(self._alike) + cause.more:,} jobs{same_error}" + (f" +{others} others" if others else "")
        if again := requeued_words(self._snapshot, self._paused):
            failed += f", {again}"
        return failed if group is None else f"{plain(group) or 'the unnamed group'} paused: {failed}"

    def _message(self) -> str:
        """Return the message of the newest failed job. Messages of the same error may differ slightly."""
        newest = self._alike[-1] if self._alike else self._jobs[-1] if self._jobs else None
        said = newest.attempts[-1].reason if newest is not None and newest.attempts else None
        return plain(said or self._paused.cause.message)

    def _facts(self) -> Pieces:
        parts: list[Pieces] = [[(self._named(), Look.TEXT)]]
        shared = self._shared()
        if shared:
            parts.append([("all have ", Look.TEXT), (shared, Look.BOLD)])
        gpus = tuple(sorted({gpu for job in self._jobs for gpu in last_gpus(job)}))
        if where := plain(format_gpus(gpus)):
            only = len(self._jobs) > 1 and len(gpus) == 1 < device_count(self._snapshot)
            parts.append([(f"only on {where}", Look.BOLD) if only else (where, Look.PAST)])
        parts.append([(f"since {moment(self._paused.cause.since, self._now)}", Look.PAST)])
        variants = _variants(self._alike)
        if variants:
            parts.append([(variants, Look.PAST)])
        return join(parts, ("  ·  ", Look.PAST))

    def _named(self) -> str:
        """Name the failed jobs, with those that are queued again at the end."""
        cause, again = self._paused.cause, queued_again(self._snapshot, self._paused)
        others = _ids(sorted(set(cause.jobs) - set(again)), cause.more)
        return "  ·  ".join(filter(None, (others, f"queued again: {_ids(again)}" if again else "")))

    def _shared(self) -> str:
        """Return the parameters shared by all failed jobs but not by all other jobs."""
        common = distinguishing_parameters(self._snapshot, self._paused) if self._paused.cause.count > 1 else {}
        titles = short_names(common)
        named = [titles[name] if value == FLAG else f"{titles[name]}={value}" for name, value in common.items()]
        return plain(" ".join(named[:MOST_PARAMETERS]))

    # The next probe

    def _next(self, room: int) -> Pieces:
        paused, who = self._paused, (self._who(), Look.BOLD)
        if paused.probing:
            lived = max(0.0, paused.life - (paused.at - self._now)) if paused.at is not None else 0.0
            return self._with_bar(self._probe(), lived / paused.life, [(self._outcome(), Look.TEXT)], room)
        if not paused.resumes_itself:
            return [(self._why_not(), Look.TEXT)]
        if self._is_due():
            return [*self._probe(), (f" when it fits; {self._outcome()}", Look.TEXT)]
        assert paused.at is not None
        remaining = paused.at - self._now
        clock: Pieces = [("next probe in ", Look.TEXT), (duration_exact(remaining), Look.WARNING_BOLD)]
        unlike = ", unlike the failed" if self._is_unlike() else ""
        ends = [f" alone{unlike}; {self._outcome()}", f" alone; {self._outcome()}", f"; {self._outcome()}", " alone"]
        share = 1 - remaining / paused.wait if paused.wait else 0.0
        ways = [
            self._with_bar([*clock, (sooner, Look.TEXT)], share, [who, (end, Look.TEXT)], room)
            for end in ends
            for sooner in (self._early_probe_texts() if end != ends[0] else self._early_probe_texts()[:1])
        ]
        return _first_fitting(ways, room)

    def _is_due(self) -> bool:
        return self._paused.due or self._paused.at is None or self._paused.at <= self._now

    def _early_probe_texts(self) -> list[str]:
        """Return a long and a short text which say that the success of a running job would start the probe earlier."""
        running = still_running(self._snapshot, self._paused)
        if not running:
            return [""]
        which = f"#{running[0]}" if len(running) == 1 else f"one of the {len(running):,} running"
        return [f", or when {which} succeeds", AT_A_SUCCESS]

    def _brief_next(self) -> list[Pieces]:
        """Return short descriptions of what happens next, longest first."""
        paused, who = self._paused, (self._who(), Look.BOLD)
        if not paused.resumes_itself:
            return [[(self._why_not(), Look.TEXT)]]
        if paused.probing or self._is_due():
            return [self._probe()]
        assert paused.at is not None
        clock: Pieces = [("next probe ", Look.TEXT), (duration_exact(paused.at - self._now), Look.WARNING_BOLD)]
        return [
            [*clock, (f"{sooner}: ", Look.TEXT), who, (alone, Look.TEXT)]
            for alone in (" alone", "")
            for sooner in self._early_probe_texts()
        ]

    def _probe(self) -> Pieces:
        return [("probe: ", Look.TEXT), (self._who(), Look.BOLD), (" alone", Look.TEXT)]

    def _who(self) -> str:
        """Return the probe's id, followed by the parameter values that distinguish the failed jobs or, if there are
        none, by its name.
        """
        job = self._paused.job
        if job is None:
            return ""
        named = parameters_of(self._snapshot[job].spec)
        values = [named[name] for name in distinguishing_parameters(self._snapshot, self._paused) if name in named]
        return cut(f"#{job} {plain(' '.join(values) or self._name_of(job))}".strip(), LONGEST_NAME)

    def _outcome(self) -> str:
        return f"if it {resume_rule(self._paused.life)}, all continue"

    def _why_not(self) -> str:
        groups = {job.spec.group for job in self._snapshot if job.state.name == "queued"}
        return "no automatic probe" if any(map(self._paused.covers, groups)) else "nothing left to probe"

    def _is_unlike(self) -> bool:
        job = self._paused.job
        if job is None:
            return False
        groups = {failed.spec.group for failed in self._jobs}
        candidate = self._snapshot[job]
        common = distinguishing_parameters(self._snapshot, self._paused)
        return candidate.spec.group not in groups or (bool(common) and not has_all(candidate, common))

    def _with_bar(self, before: Pieces, share: float, after: Pieces, room: int) -> Pieces:
        """Insert a bar between two texts if there is room for it."""
        length = min(BAR, room - width_of([*before, *after]) - 4)
        share = min(1.0, max(0.0, share))
        drawn = [*bar(share, length, Look.WARNING), blank(2)] if length >= SHORTEST_BAR else []
        return [*before, blank(2), *drawn, *after]

    def _keys(self, *, brief: bool = False) -> Pieces:
        """Return the key hints. Jobs rerun since the pause are not counted."""
        count = sum(job.state.name in FAILURES for job in self._jobs) + self._paused.cause.more
        manner = rerun_suffix(self._snapshot, self._jobs)
        first = manner if count > 1 or self._paused.probing else ""
        words = {"R": f"Rerun {count:,}{first}", "p": "Resume", "!": "Error", "F": "Edit and rerun"}
        if not brief:
            rerun = f"Rerun the {count:,}{first}" if count > 1 else f"Rerun it{first}"
            words = {"R": rerun, "p": "Resume now", "!": "Go to error", "F": "Failures: edit and rerun"}
        if not count:
            del words["R"]
        if self._read_only:
            words = {"!": words["!"], "F": "Failures"}
        parts: list[Piece] = []
        for key, label in words.items():
            parts += [(key, Look.BOLD), (f" {label}{'  ' if brief else '   '}", Look.PAST)]
        return parts


def _ids(jobs: Sequence[JobId], more: int = 0) -> str:
    """Name the first jobs and count the others."""
    more += len(jobs[MOST_JOBS:])
    return " ".join(f"#{job}" for job in jobs[:MOST_JOBS]) + (f" +{more:,}" if more else "")


def has_all(job: Job, common: dict[str, str]) -> bool:
    named = parameters_of(job.spec)
    return all(named.get(name) == value for name, value in common.items())


def _variants(jobs: Sequence[Job]) -> str:
    """Describe the other messages of the same error. If there is only one, return only the text that differs."""
    said = [plain(job.attempts[-1].reason or "") for job in jobs if job.attempts]
    others = [words for words in dict.fromkeys(reversed(said)) if said and words != said[-1]]
    if not others:
        return ""
    if len(others) > 1:
        return f"{len(others)} variants"
    mine, theirs = said[-1].split(), others[0].split()
    same = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    return f"1 variant: {' '.join(theirs[same:])}" if same else f"1 variant: {others[0]}"


def _first_fitting(ways: Sequence[Pieces], room: int) -> Pieces:
    """Return the first variant that fits, or the last one if none fits."""
    return next((way for way in ways if width_of(way) <= room), ways[-1])
