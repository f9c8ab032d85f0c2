"""Verbs about who is next: priority and move."""

from __future__ import annotations

from gputui.cli.calling import carry_out, session
from gputui.cli.output.states import WAITING
from gputui.cli.output.words import refuse
from gputui.cli.parsing.selection import confirm, picked, report, seen
from gputui.cli.parsing.syntax import SELECTION, SESSION, YES, Flag, Options, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gputui.cli.parsing.selection import Picked

LOWEST, HIGHEST = 0, 99
COMMON = (*SELECTION, YES, SESSION)

VERBS = {
    verb.name: verb
    for verb in (
        Verb(
            "priority",
            "priority N|+N|-N JOBS …",
            "Sets the priority of jobs (0 to 99, higher first, 30 unless said), or changes it. --all: all that wait.",
            "gputui priority 50 12\ngputui priority +5 3-9\ngputui priority -5 baseline",
            COMMON,
            words=(1, None),
            signed=True,
        ),
        Verb(
            "move",
            "move JOBS … --up | --down | --top | --bottom | --before ID",
            "Moves waiting jobs within the queue, among jobs of the same priority.",
            "gputui move 12 --top\ngputui move 3-5 --before 2",
            (
                Flag("--up", help="one place"),
                Flag("--down", help="one place"),
                Flag("--top", help="to the front"),
                Flag("--bottom", help="to the end"),
                Flag("--before", value="ID", help="right before this job"),
                YES,
                SESSION,
            ),
        ),
    )
}


def main(verb: str, words: list[str]) -> int:
    return carry_out(VERBS[verb], words, {"priority": set_priority, "move": move}[verb])


def set_priority(options: Options) -> int:
    wanted = options.words.pop(0)
    if not wanted.lstrip("+-").isdecimal():
        refuse(f"{wanted!r} is no priority; write 50, +5 or -5")
    client = session(options)
    jobs = picked(client, options, options.words, WAITING)
    confirm(client, options, jobs, "change the priority of")
    events = [{"type": "priority", "job": job["id"], "priority": new_priority(wanted, job["priority"])} for job in jobs]
    outcomes = client.ask("commands", events=events)
    new = {event["priority"] for event in events}
    return report(outcomes, jobs, f"priority {new.pop()}" if len(new) == 1 else f"priority {wanted}")


def new_priority(wanted: str, now: int) -> int:
    """A change stops at the ends of the scale; a value beyond them is refused by the owner."""
    if wanted[0] in "+-":
        return min(HIGHEST, max(LOWEST, now + int(wanted)))
    return int(wanted)


def move(options: Options) -> int:
    ways = [way for way in ("up", "down", "top", "bottom", "before") if getattr(options, way) not in (None, False)]
    if len(ways) != 1:
        refuse("move where? Give one of --up, --down, --top, --bottom or --before ID")
    client = session(options)
    jobs = picked(client, options, options.words, WAITING)
    confirm(client, options, jobs, "move")
    before: list[Picked] = []
    if options.before is not None:
        before = picked(client, options, [options.before], None)
        if len(before) != 1:
            refuse(f"--before {options.before}: name one job")
    ordered = jobs[::-1] if ways[0] in ("down", "top") else jobs
    outcomes = client.ask("commands", events=[move_event(job, ways[0], before) for job in ordered])
    return report(outcomes, ordered, "moved")


def move_event(job: Picked, way: str, before: list[Picked]) -> dict[str, Any]:
    event = {"type": "move", "job": job["id"], "seen": seen(job), "where": way}
    return event | ({"before": before[0]["id"]} if before else {})
