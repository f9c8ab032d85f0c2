"""Formatting of times, sizes and numbers for all views.

All functions are pure and take the current time as an argument.

A duration in a table cell has at most five characters, so that the width of its column never changes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

MINUTE, HOUR, DAY = 60, 3600, 86400
MIB, GIB = 1024**2, 1024**3
UNKNOWN = "–"
DURATION_CELLS = 5


def duration_cell(seconds: float) -> str:
    """Format a duration for a cell: `0:41`, `59:59`, `2h41`, `31h07`, `4d03h`, `12d`."""
    whole = max(0, int(seconds))
    if whole < HOUR:
        return f"{whole // MINUTE}:{whole % MINUTE:02d}"
    if whole < 2 * DAY:
        return f"{whole // HOUR}h{whole // MINUTE % 60:02d}"
    days, hours = whole // DAY, whole // HOUR % 24
    return f"{days}d{hours:02d}h" if days < 10 else f"{days}d"


def duration_exact(seconds: float) -> str:
    """Format a duration to the second: `2:41:07`, `0:41`, `3d 02:41:07`."""
    whole = max(0, int(seconds))
    if whole < HOUR:
        return duration_cell(whole)
    minutes = f"{whole // MINUTE % 60:02d}:{whole % MINUTE:02d}"
    if whole < DAY:
        return f"{whole // HOUR}:{minutes}"
    return f"{whole // DAY}d {whole // HOUR % 24:02d}:{minutes}"


def duration_words(seconds: float, *, tenths: bool = False) -> str:
    """Format a duration for a sentence: `12 s`, `34 min`, `3 d 4 h`.

    With `tenths`, durations below 10 s get one decimal: `0.4 s`.
    """
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{max(0.0, seconds):.1f} s" if tenths and whole < 10 else f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min"
    if whole < 2 * DAY:
        units = ((whole // HOUR, "h"), (whole // MINUTE % 60, "min"))
    else:
        units = ((whole // DAY, "d"), (whole // HOUR % 24, "h"))
    return " ".join(f"{number} {unit}" for number, unit in units if number)


def gpu_time(seconds: float) -> str:
    """Format GPU-seconds: `12.4 GPU-h`, `34 GPU-min`, `12 GPU-s`. The result is at least `1 GPU-s`."""
    if seconds < MINUTE:
        return f"{max(1, round(seconds))} GPU-s"
    return f"{seconds / MINUTE:.0f} GPU-min" if seconds < HOUR else f"{seconds / HOUR:.1f} GPU-h"


def energy(kwh: float, *, is_estimated: bool = False) -> str:
    """Format an amount of energy: `21 kWh`, `2.1 kWh`, `70 Wh`, or `≈ 2.1 kWh` if it is estimated."""
    if kwh < 1:
        text = f"{kwh * 1000:.0f} Wh" if kwh >= 0.00995 else f"{kwh * 1000:.1f} Wh"
    else:
        text = f"{kwh:.0f} kWh" if kwh >= 9.95 else f"{kwh:.1f} kWh"
    return f"≈ {text}" if is_estimated else text


def moment(at: float, now: float, *, seconds: bool = False) -> str:
    """Format a point in time: `23:45` if it is today, `Sun 04:10` if it is within a week, otherwise with the date."""
    then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    days_apart = abs(then.date() - today.date())
    day = "" if not days_apart else "%a " if days_apart < timedelta(days=7) else "%Y-%m-%d "
    return then.strftime(f"{day}%H:%M{':%S' if seconds else ''}")


def memory(count: int | None) -> str:
    """Format a number of bytes for a cell: `28.1G`, `300M`, `192G`, or `–` if it is unknown."""
    if count is None:
        return UNKNOWN
    if count < GIB:
        return f"{count / MIB:.0f}M"
    return f"{count / GIB:.1f}G" if count < 99.95 * GIB else f"{count / GIB:.0f}G"


def memory_words(count: int) -> str:
    """Format a number of bytes for a sentence: `38.0 GiB`."""
    return f"{count / GIB:.1f} GiB"


def memory_of(used: int | None, total: int | None, *, brief: bool = False) -> str:
    """Format used and total bytes: `28.1/40G`, or `28/40G` if `brief`."""
    if used is None and total is None:
        return UNKNOWN
    unit, letter = (1024 * GIB, "T") if (total or 0) >= 1000 * GIB else (GIB, "G")
    coarse = brief and used is not None and total is not None and total >= 9.95 * unit
    amount = f"{(used or 0) / unit:.0f}" if coarse else _scaled(used, unit, 99.95)
    return f"{amount}/{_scaled(total, unit, 9.95)}{letter}"


def _scaled(count: int | None, unit: int, whole_from: float) -> str:
    """Format a number of bytes in the given unit, with one decimal if the result is below `whole_from`."""
    if count is None:
        return UNKNOWN
    return f"{count / unit:.{0 if count >= whole_from * unit else 1}f}"


def counted(number: int, single: str, many: str) -> str:
    """Format a number with its noun in the singular or plural: `1 job`, `12,200 jobs`."""
    return f"{number:,} {single if number == 1 else many}"
