"""What stands beside a card that has the whole screen: its processes, who has it, and what is wrong with it. Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.views.amounts import GIB, counted, duration_exact
from gputui.gpus.history.tracks import HOST
from gputui.gpus.picture import DevicePicture
from gputui.gpus.sample import DeviceSample, ProcessSample, Status
from gputui.logs.plain import plain

from .figures import UNKNOWN
from .names import short
from .occupants import View, occupant
from .page import Ink, InkPiece, gap, left, right
from .processes import left_over
from .rows import occupant_pieces

Line = list[InkPiece]
_WITH_COMMANDS = 60
"""Cells from which a process has its whole command below it, where there are lines for that."""


class ListingFields(Struct, frozen=True, kw_only=True):
    """Widths; 0: left out."""

    width: int
    user: int
    pid: int = 7
    time: int = 0
    gpu: int = 0
    host: int = 0
    gap: int = 1

    @classmethod
    def of(cls, width: int, *, narrow: bool) -> ListingFields:
        """Dropped first: the machine's memory, then the time."""
        if narrow or width < 40:
            return cls(width=width, user=7 if narrow else 6)
        if width < 50:
            return cls(width=width, user=7, gpu=7, gap=2)
        return cls(width=width, user=7, time=9, gpu=7, host=8, gap=2)

    @property
    def before_command(self) -> int:
        return self.user + self.pid + self.time + self.gpu + self.host + self.gap

    def heading(self) -> str:
        fields = ((self.pid, "pid"), (self.time, "time"), (self.gpu, "gpu G"), (self.host, "host G"))
        text = "user".ljust(self.user) + "".join(f"{name:>{cells}}" for cells, name in fields if cells)
        return f"{text}{' ' * self.gap}command"


def listed(view: View, card: DevicePicture, fields: ListingFields, lines: int) -> list[Line]:
    """Exactly so many lines; warnings are never left out for processes."""
    if card.sample.key == HOST:
        return _filled([[InkPiece(_machine(view), Ink.PAST)]], lines)
    wrong = _warnings(card)
    if card.sample.status is Status.LOST:
        return _filled(wrong, lines)
    on_it = sorted(card.sample.processes, key=lambda each: (not each.compute, -(each.memory or 0)))
    room = max(1, lines - len(wrong))
    listed_lines: list[Line] = []
    for at, process in enumerate(on_it):
        rest = len(on_it) - at
        if rest > 1 and len(listed_lines) == room - 1:
            listed_lines.append([InkPiece(f"+{counted(rest, 'process', 'processes')}: Enter lists them", Ink.PAST)])
            break
        listed_lines.append(_process(view, card, process, fields))
        if fields.width >= _WITH_COMMANDS and len(listed_lines) + 2 * (rest - 1) + 1 <= room and process.command:
            listed_lines.append([gap(6), InkPiece(plain(process.command), Ink.PAST)])
    if not on_it:
        listed_lines = [occupant_pieces(view, _without_warnings(card))]
        time = occupant(view, card).time
        listed_lines[0] += [InkPiece(f"   {time}", Ink.PAST)] if time else []
    listed_lines += wrong
    if counters(card.sample) and len(listed_lines) < lines:
        listed_lines.append([InkPiece(counters(card.sample), Ink.PAST)])
    return _filled(listed_lines, lines)


def _machine(view: View) -> str:
    host = view.picture.host
    name = short(host.name) if host is not None else ""
    return name if view.picture.devices else f"{name}; no NVIDIA GPU was found".removeprefix("; ")


def _filled(lines: list[Line], count: int) -> list[Line]:
    return [*lines, *([[]] * count)][:count]


def _without_warnings(card: DevicePicture) -> DevicePicture:
    return replace(card, warnings=())


def _warnings(card: DevicePicture) -> list[Line]:
    warning_lines: list[Line] = []
    for warning in card.warnings:
        sign = "✗" if card.sample.status is Status.LOST else "!"
        warning_lines.append(
            [InkPiece(f"{sign} {plain(warning.words)}", Ink.FAILURE if warning.grave else Ink.WARNING, True)]
        )
        if warning.advice:
            warning_lines.append([InkPiece(plain(warning.advice[0].upper() + warning.advice[1:] + "."))])
    return warning_lines


def counters(sample: DeviceSample) -> str:
    """Errors that the card mended by itself; empty where there were none, or nobody can say."""
    parts = []
    if sample.ecc_corrected or sample.ecc_uncorrected:
        parts.append(f"ECC: {sample.ecc_corrected or 0:,} corrected, {sample.ecc_uncorrected or 0:,} not")
    if sample.pcie_replays:
        parts.append(f"PCIe: {counted(sample.pcie_replays, 'packet', 'packets')} sent again")
    return " · ".join(parts)


def _process(view: View, card: DevicePicture, process: ProcessSample, fields: ListingFields) -> Line:
    job = view.picture.pids.get(process.pid)
    strange = _is_strange(view, card, process)
    ink = Ink.STRANGER if strange else Ink.TEXT
    line = [left(plain(process.user or "?"), fields.user - 1, ink), gap(1), right(str(process.pid), fields.pid, ink)]
    if fields.time:
        age = UNKNOWN if process.started is None else duration_exact(view.now - process.started)
        line.append(right(age, fields.time, ink))
    if fields.gpu:
        line.append(right(_gigabytes(process.memory), fields.gpu, ink))
    if fields.host:
        line.append(right(_gigabytes(process.host_memory), fields.host, ink))
    line.append(gap(fields.gap))
    if job is not None:
        return [*line, InkPiece(f"#{job}", Ink.RUNNING, True), InkPiece(f" {plain(view.name_of(job))}")]
    return [*line, InkPiece(_command(card, process), ink)]


def _is_strange(view: View, card: DevicePicture, process: ProcessSample) -> bool:
    if card.state is None:
        return bool(card.share.others) and not card.share.ours
    return process.pid not in view.picture.pids and left_over(card, process) is None


def _command(card: DevicePicture, process: ProcessSample) -> str:
    left_by = left_over(card, process)
    said = plain(process.command or ("not visible here" if process.alive else "no such process here"))
    short = _short(said)
    kind = "" if process.compute else "(graphics) "
    return f"left by #{left_by}: {short}" if left_by is not None else f"{kind}{short}"


def _short(command: str) -> str:
    """What runs, not what runs it: `train.py --lr 0.1` of `/usr/bin/python3 train.py --lr 0.1`."""
    words = command.split(" ")
    if words[0].rpartition("/")[2].startswith("python") and len(words) > 1:
        module = words[1] == "-m" and len(words) > 2
        words = words[2:] if module else words[1:] if not words[1].startswith("-") else words
    return " ".join([words[0].rpartition("/")[2], *words[1:]])


def _gigabytes(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count / GIB:.1f}"
