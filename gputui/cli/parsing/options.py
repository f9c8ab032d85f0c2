"""How GPUs and times stand on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from gputui.gpus.wanted import looks_like_gpus, parse_gpus
from gputui.sources.values import duration, probe_wait, time_limit

from .parser import checked


def gathered(words: Sequence[str]) -> list[str]:
    """Joins `--gpus 0 1 2` to one word: those that follow belong to it only while they look like GPUs."""
    joined: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word not in ("--gpus", "--gpu") or not rest:
            joined.append(word)
            continue
        gpus = [rest.pop(0)]
        while rest and looks_like_gpus(rest[0]):
            gpus.append(rest.pop(0))
        joined.append("--gpus=" + " ".join(gpus))
    return joined


seconds = checked(duration)
probe = checked(probe_wait)
gpus = checked(parse_gpus)
time = checked(time_limit)
