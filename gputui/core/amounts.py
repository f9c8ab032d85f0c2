"""Times, sizes and numbers as people read them: the one place that knows their forms, for every view.

Cells of a table never jump: a time is at most five cells for ever. Reads no clock; moments are told in local time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

MINUTE, HOUR, DAY = 60, 3600, 86400
MIB, GIB = 1024**2, 1024**3
UNKNOWN = "–"
DURATION_CELLS = 5


def duration_cell(seconds: float) -> str:
    """`0:41`, `59:59`, `2h41`, `31h07`, `4d03h`, `12d`: at most five cells, never ambiguous."""
    whole = max(0, int(seconds))
    if whole < HOUR:
        return f"{whole // MINUTE}:{whole % MINUTE:02d}"
    if whole < 2 * DAY:
        return f"{whole // HOUR}h{whole // MINUTE % 60:02d}"
    days, hours = whole // DAY, whole // HOUR % 24
    return f"{days}d{hours:02d}h" if days < 10 else f"{days}d"


def duration_exact(seconds: float) -> str:
    """Where seconds matter: `2:41:07`, `0:41`, `3d 02:41:07`."""
    whole = max(0, int(seconds))
    if whole < HOUR:
        return duration_cell(whole)
    minutes = f"{whole // MINUTE % 60:02d}:{whole % MINUTE:02d}"
    if whole < DAY:
        return f"{whole // HOUR}:{minutes}"
    return f"{whole // DAY}d {whole // HOUR % 24:02d}:{minutes}"


def duration_words(seconds: float, *, tenths: bool = False) -> str:
    """In a sentence: `12 s`, `34 m`, `1 h 12 m`, `5 h`, `3 d 4 h`; `tenths`: `0.4 s` for what took no ten seconds."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{max(0.0, seconds):.1f} s" if tenths and whole < 10 else f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} m"
    if whole < 2 * DAY:
        return _joined((whole // HOUR, "h"), (whole // MINUTE % 60, "m"))
    return _joined((whole // DAY, "d"), (whole // HOUR % 24, "h"))


def gpu_time(seconds: float) -> str:
    """What GPUs were worked for, together: `12.4 GPU-h`, `34 GPU-min`, `12 GPU-s`; never a rounded nothing."""
    if seconds < MINUTE:
        return f"{max(1, round(seconds))} GPU-s"
    return f"{seconds / MINUTE:.0f} GPU-min" if seconds < HOUR else f"{seconds / HOUR:.1f} GPU-h"


def _joined(large: tuple[int, str], small: tuple[int, str]) -> str:
    return " ".join(f"{number} {unit}" for number, unit in (large, small) if number)


def moment(at: float, now: float, *, seconds: bool = False) -> str:
    """`23:45` today, `Sun 04:10` within a week, then with the date."""
    then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    days_apart = abs(then.date() - today.date())
    day = "" if not days_apart else "%a " if days_apart < timedelta(days=7) else "%Y-%m-%d "
    return then.strftime(f"{day}%H:%M{':%S' if seconds else ''}")


def memory(count: int | None) -> str:
    """`28.1G`, `300M`, `192G`; `–`: nobody can say."""
    if count is None:
        return UNKNOWN
    if count < GIB:
        return f"{count / MIB:.0f}M"
    return f"{count / GIB:.1f}G" if count < 99.95 * GIB else f"{count / GIB:.0f}G"


def memory_words(count: int) -> str:
    """In a sentence: `38.0 GB`."""
    return f"{count / GIB:.1f} GB"


def memory_of(used: int | None, total: int | None, *, brief: bool = False) -> str:
    """`28.1/40G`, briefly `28/40G`; in terabytes for the largest machines."""
    if used is None and total is None:
        return UNKNOWN
    unit, letter = _unit(total or 0)
    coarse = brief and used is not None and total is not None and total >= 9.95 * unit
    amount = f"{(used or 0) / unit:.0f}" if coarse else _scaled(used, unit, 99.95)
    return f"{amount}/{_scaled(total, unit, 9.95)}{letter}"


def _unit(total: int) -> tuple[int, str]:
    return (1024 * GIB, "T") if total >= 1000 * GIB else (GIB, "G")


def _scaled(count: int | None, unit: int, whole_from: float) -> str:
    """With one decimal below so many units, without from there on."""
    if count is None:
        return UNKNOWN
    return f"{count / unit:.{0 if count >= whole_from * unit else 1}f}"


def counted(number: int, single: str, many: str) -> str:
    """`1 job`, `12,200 jobs`."""
    return f"{number:,} {single if number == 1 else many}"
