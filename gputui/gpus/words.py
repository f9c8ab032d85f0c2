"""Devices and verdicts on them in words. Pure text; and the gate through which text of other programs passes."""

from __future__ import annotations

from gputui.core.views.amounts import duration_words, memory

from .sample import DeviceSample
from .strangers import Free, HeldByStrangers, Resting, Stranger, Unusable, Verdict


def why_not(device: DeviceSample, verdict: Verdict, now: float) -> str | None:
    """One sentence on why a device takes no job of ours; None: it may."""
    name = label(device)
    match verdict:
        case Free():
            return None
        case HeldByStrangers(by=by):
            more = f" and {len(by) - 1} more" if len(by) > 1 else ""
            return f"{name} is held by {_person(by[0], now)}{more}"
        case Resting(until=until, after=after):
            who = plain(after.user or f"pid {after.pid}")
            return f"{name} was just left by {who}; free in {duration_words(until - now)}"
        case Unusable(why=why):
            return f"{name}: {why}"


def label(device: DeviceSample) -> str:
    if device.mig is not None:
        return f"GPU {device.index} MIG {device.mig.gpu_instance}/{device.mig.compute_instance}"
    return f"GPU {device.index}"


def _person(stranger: Stranger, now: float) -> str:
    who = plain(stranger.user) if stranger.user else "somebody"
    return f"{who} (pid {stranger.pid}, {memory(stranger.memory)}, {duration_words(now - stranger.since)})"


def plain(text: str) -> str:
    """Without anything a terminal would act on: a process may be called what it likes."""
    return "".join(char if char.isprintable() else "�" for char in text)
