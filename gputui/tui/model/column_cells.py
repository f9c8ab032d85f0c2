"""What the cells of the queue say, and in which look: one function for each column. Pure."""

from __future__ import annotations

from collections.abc import Callable

from gputui.core.job import Ended
from gputui.core.views.amounts import GIB, duration_cell, moment
from gputui.logs.plain import plain

from .columns import BLANK, Piece, look_of
from .result_cells import trend_glyph, trend_line
from .row_facts import RowFacts
from .words import seconds_of, sign_of, state_word

BAR = 10
PERCENT = 5
"""Cells of a percentage behind its bar."""

Cell = Callable[[RowFacts], str]

# Looks


def state_look(facts: RowFacts) -> str:
    look = look_of(facts)
    return "past" if look == "text" else look


def what_look(facts: RowFacts) -> str:
    if facts.best:
        return "best"
    look = look_of(facts)
    return "text" if look in ("running", "warning") else look


def value_look(facts: RowFacts) -> str:
    if facts.best:
        return "best"
    look = look_of(facts)
    return "text" if look == "past" else look


def trend_look(facts: RowFacts) -> str:
    return "running" if look_of(facts) == "running" else "past"


# Who


def sign(facts: RowFacts) -> str:
    return sign_of(facts.job)


def state(*, short: bool) -> Cell:
    return lambda facts: f"{sign_of(facts.job)} {state_word(facts.job, short=short)}"


def pid(facts: RowFacts) -> str:
    """The command's own, by which it can be signalled."""
    return str(facts.told.pids.get(facts.job.id, ""))


# What


def parameter(name: str) -> Cell:
    return lambda facts: facts.parameter(name)


def name_beside_parameters(facts: RowFacts) -> str:
    """A name, or words without one; of a job that differs in nothing, its command."""
    parameters, job = facts.told.parameters, facts.job
    return plain(job.spec.name or parameters.rest(job) or ("" if parameters.told(job) else parameters.of(job)))


def name_alone(facts: RowFacts) -> str:
    return plain(facts.told.parameters.of(facts.job))


# When


def time(facts: RowFacts) -> str:
    if facts.waits:
        return ""
    seconds = seconds_of(facts.job, facts.told.now)
    return duration_cell(seconds) if seconds is not None else ""


def percent(facts: RowFacts) -> str:
    fraction = facts.progress
    return f"{int(fraction * 100)}%" if fraction is not None else ""


def bar(facts: RowFacts) -> list[Piece]:
    fraction = facts.progress
    if fraction is None:
        return [(" " * (BAR + PERCENT), BLANK)]
    used = min(BAR, round(fraction * BAR))
    look = look_of(facts)
    return [("━" * used, look), ("─" * (BAR - used), "line"), (f"{percent(facts):>{PERCENT}}", look)]


def end(facts: RowFacts) -> str:
    ends = facts.ends
    if ends is None:
        return ""
    at, estimated = ends
    return f"{'≈' if estimated else ''}{moment(at, facts.told.now)}"


# Results


def main(facts: RowFacts) -> str:
    result = facts.main
    if result is None:
        return ""
    text = facts.told.shape.main_number.text(result.best)
    return f"★ {text}" if facts.best else text


def last(facts: RowFacts) -> str:
    result = facts.main
    return facts.told.shape.main_number.text(result.last) if result is not None else ""


def glyph(facts: RowFacts) -> str:
    result = facts.main
    return trend_glyph(result.trend) if result is not None else ""


def trend(facts: RowFacts) -> str:
    result = facts.main
    return trend_line(result.trend) if result is not None else ""


def second(facts: RowFacts) -> str:
    value = facts.second
    return facts.told.shape.second_number.text(value) if value is not None else ""


def peak(facts: RowFacts) -> str:
    job = facts.job
    usage = job.attempts[-1].usage if job.attempts and isinstance(job.state, Ended) else None
    used = usage.gpu_peak_memory if usage is not None else None
    return f"{used / GIB:.1f}" if used is not None else ""
