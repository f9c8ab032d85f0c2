"""What the banner says when jobs crashed: the cause, what the jobs share, which one is tried when, and the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from gputui.core.job import Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.core.states import FAILURES
from gputui.core.views.amounts import counted, duration_exact, moment
from gputui.core.views.arguments import FLAG
from gputui.core.views.caution import Caution, crashed_alike, telling
from gputui.core.views.in_common import devices_of, place_of, places_told
from gputui.core.views.parameter_columns import parameters_of, short_names
from gputui.logs.plain import plain
from gputui.tui.looks.palette import Palette
from gputui.tui.model.words import cut

NARROW = 100
SHOWN_JOBS = 8
MOST_PARAMETERS = 3
BAR = 26
LONGEST_NAME = 24
BOLD = Style(bold=True)
NameOf = Callable[[JobId], str]
Parts = list[tuple[str, Style]]


def crash_rows(snapshot: Snapshot, width: int, palette: Palette, now: float, name_of: NameOf) -> list[Text]:
    """Four rows for each scope in which jobs do not just start, three where it is narrow."""
    rows: list[Parts] = []
    for caution in snapshot.cautions:
        story = _Story(snapshot, caution, palette, now, name_of)
        rows += story.narrow() if width < NARROW else story.wide()
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

    def __init__(self, snapshot: Snapshot, caution: Caution, palette: Palette, now: float, name_of: NameOf) -> None:
        self._snapshot, self._caution, self._now, self._name_of = snapshot, caution, now, name_of
        self._text, self._past, self._warning = palette.text, palette.past, palette.warning
        self._bold, self._loud = palette.text + BOLD, palette.warning + BOLD
        self._failure, self._line = palette.failure + BOLD, palette.line
        self._jobs = [snapshot[job] for job in caution.cause.jobs if job in snapshot]
        self._alike = crashed_alike(snapshot, caution)

    def wide(self) -> list[Parts]:
        message = [("  ", self._text), (self._message(), self._failure)]
        return [[(self._crashed(), self._loud), *message], self._facts(), self._next(), self._keys()]

    def narrow(self) -> list[Parts]:
        shared = self._shared()
        told: Parts = [(self._crashed().replace(" jobs crashed", " crashed"), self._loud)]
        if shared:
            told += [(", all ", self._text), (shared, self._bold)]
        told += [(" · ", self._past), *self._next_briefly()]
        return [told, [(self._message(), self._failure)], self._keys(brief=True)]

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
        more = cause.count - len(ids[:SHOWN_JOBS])
        return " ".join(f"#{job}" for job in ids[:SHOWN_JOBS]) + (f" +{more:,}" if more > 0 else "")

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

    def _next(self) -> Parts:
        caution = self._caution
        who = self._who()
        if caution.tries:
            lived = max(0.0, caution.life - (caution.at - self._now)) if caution.at is not None else 0.0
            bar = self._bar(lived / caution.life)
            told: Parts = [("tries ", self._text), (who, self._bold), (" alone  ", self._text), *bar]
            return [*told, (f"  {self._outcome()}", self._text)]
        if not caution.goes_on:
            return [(self._why_not(), self._text)]
        if caution.due or caution.at is None or caution.at <= self._now:
            return [
                ("tries ", self._text),
                (who, self._bold),
                (f" alone as soon as it fits; {self._outcome()}", self._text),
            ]
        left = caution.at - self._now
        bar = self._bar(1 - left / caution.wait) if caution.wait else []
        told = [("next try in ", self._text), (duration_exact(left), self._loud), (" ", self._text), *bar]
        unlike = ", unlike the crashed" if self._is_unlike() else ""
        return [*told, ("  ", self._text), (who, self._bold), (f" alone{unlike}; {self._outcome()}", self._text)]

    def _next_briefly(self) -> Parts:
        caution = self._caution
        if caution.tries:
            return [("tries ", self._text), (self._who(), self._bold), (" alone", self._text)]
        if not caution.goes_on:
            return [(self._why_not(), self._text)]
        left = duration_exact(max(0.0, caution.at - self._now)) if caution.at is not None else "now"
        told: Parts = [("next try ", self._text), (left, self._loud), (": ", self._text)]
        return [*told, (self._who(), self._bold), (" alone", self._text)]

    def _who(self) -> str:
        """By what tells it from the crashed, where something does: its whole name may be long."""
        job = self._caution.job
        if job is None:
            return ""
        named = parameters_of(self._snapshot[job].spec)
        values = [named[name] for name in telling(self._snapshot, self._caution) if name in named]
        return cut(f"#{job} {plain(' '.join(values) or self._name_of(job))}".strip(), LONGEST_NAME)

    def _outcome(self) -> str:
        return f"if it lives {duration_exact(self._caution.life)}, all go on"

    def _why_not(self) -> str:
        waits = any(True for job in self._snapshot if job.state.name == "queued" and self._caution.covers(job))
        return "nothing is tried by itself" if waits else "nothing is left to try"

    def _is_unlike(self) -> bool:
        job = self._caution.job
        if job is None:
            return False
        groups = {one.spec.group for one in self._jobs}
        candidate = self._snapshot[job]
        common = telling(self._snapshot, self._caution)
        return candidate.spec.group not in groups or (bool(common) and not has_all(candidate, common))

    def _bar(self, share: float) -> Parts:
        filled = round(BAR * min(1.0, max(0.0, share)))
        return [("━" * filled, self._warning), ("─" * (BAR - filled), self._line)]

    def _keys(self, *, brief: bool = False) -> Parts:
        """Those that were rerun meanwhile are not offered again."""
        count = sum(job.state.name in FAILURES for job in self._jobs) + self._caution.cause.more
        first = ", one first" if count > 1 else ""
        words = {"R": f"Rerun {count:,}{first}", "p": "Resume", "!": "Crash", "F": "Fails: edit, rerun"}
        if not brief:
            rerun = f"Rerun the {count:,}{first}" if count > 1 else "Rerun it"
            words = {"R": rerun, "p": "Resume now", "!": "Go to the crash", "F": "Failures: edit and rerun"}
        if not count:
            del words["R"]
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


def _joined(parts: list[Parts], style: Style) -> Parts:
    joined: Parts = []
    for number, part in enumerate(parts):
        joined += [("  ·  ", style)] * bool(number) + part
    return joined
