"""Figures as text of a fixed width, so that nothing shifts when they change. Pure; `–` is what nobody can say."""

from __future__ import annotations

UNKNOWN = "–"
_GIB = 1024**3


def percent(value: float | None) -> str:
    return f"{UNKNOWN if value is None else f'{value:.0f}%':>4}"


def memory(used: int | None, total: int | None, *, brief: bool = False) -> str:
    """`28.1/40G`, briefly `28/40G`; in terabytes for the largest machines."""
    unit, letter = (_GIB * 1024, "T") if (total or 0) >= 1000 * _GIB else (_GIB, "G")
    if used is None and total is None:
        return UNKNOWN
    coarse = brief and used is not None and total is not None and total >= 9.95 * unit
    amount = f"{(used or 0) / unit:.0f}" if coarse else _amount(used, unit)
    return f"{amount}/{_total(total, unit)}{letter}"


def memory_width(total: int | None, *, brief: bool = False) -> int:
    """Of the widest text for a device of this size."""
    if total is None:
        return 1
    unit = _GIB * 1024 if total >= 1000 * _GIB else _GIB
    whole = _total(total, unit)
    used = "9.9" if total < 9.95 * unit else whole if brief else "99.9"
    return len(f"{used}/{whole}G")


def _amount(count: int | None, unit: int) -> str:
    if count is None:
        return UNKNOWN
    return f"{count / unit:.1f}" if count < 99.95 * unit else f"{count / unit:.0f}"


def _total(count: int | None, unit: int) -> str:
    if count is None:
        return UNKNOWN
    return f"{count / unit:.0f}" if count >= 9.95 * unit else f"{count / unit:.1f}"


def temperature(degrees: int | None, *, brief: bool = False, hot: bool = False) -> str:
    """`61°C`, briefly `61°`; too hot is `88°!` and `88!`, no wider."""
    if degrees is None:
        return UNKNOWN
    return f"{degrees}{'' if brief and hot else '°'}{'!' if hot else '' if brief else 'C'}"


def watts(used: float | None, limit: float | None) -> str:
    """Below a heading that tells the unit."""
    if used is None:
        return UNKNOWN
    return f"{used:.0f}" if limit is None else f"{used:.0f}/{limit:.0f}"


def power(used: float | None, limit: float | None) -> str:
    return UNKNOWN if used is None else f"{watts(used, limit)}W"
