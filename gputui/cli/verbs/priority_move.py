"""Verbs about who is next: priority and move."""

from __future__ import annotations

from gputui.cli.command import carry_out, confirm, picked, report, seen, session
from gputui.cli.output import refuse
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.core.events import Move, MoveTarget, SetPriority
from gputui.core.job import WAITING
from gputui.session.messages import Commands, PickedJob

LOWEST, HIGHEST = 0, 99


def parser(verb: str) -> Parser:
    return _priority_parser(verb) if verb == "priority" else _move_parser(verb)


def _priority_parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Sets the priority of jobs (0 to 99, higher first, default 30), or changes it. --all: all waiting jobs.",
        usage="priority N|+N|-N JOBS …",
        examples="gputui priority 50 12\ngputui priority +5 3-9\ngputui priority -5 baseline",
        signed=True,
    )
    verb_parser.add_argument("priority", metavar="N|+N|-N", help="0 to 99, or by how much")
    verb_parser.add_jobs()
    verb_parser.add_common(*SELECTION)
    return verb_parser


def _move_parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Moves waiting jobs within the queue, among jobs of the same priority.",
        usage="move JOBS … --up | --down | --top | --bottom | --before ID",
        examples="gputui move 12 --top\ngputui move 3-5 --before 2",
    )
    verb_parser.add_jobs()
    verb_parser.switch("--up", help="one place")
    verb_parser.switch("--down", help="one place")
    verb_parser.switch("--top", help="to the front")
    verb_parser.switch("--bottom", help="to the end")
    verb_parser.add_argument("--before", metavar="ID", help="right before this job")
    verb_parser.add_common("yes", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, {"priority": set_priority, "move": move}[verb])


def set_priority(options: Options) -> int:
    wanted = options.priority
    if not wanted.lstrip("+-").isdecimal():
        refuse(f"{wanted!r} is not a priority; write 50, +5 or -5")
    client = session(options)
    jobs = picked(client, options, options.words, WAITING)
    confirm(client, options, jobs, "change the priority of")
    events = [SetPriority(job=job.id, priority=new_priority(wanted, job.priority)) for job in jobs]
    outcomes = client.ask(Commands(tuple(events)))
    new = {event.priority for event in events}
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
    before: list[PickedJob] = []
    if options.before is not None:
        before = picked(client, options, [options.before], None)
        if len(before) != 1:
            refuse(f"--before {options.before}: name one job")
    ordered = jobs[::-1] if ways[0] in ("down", "top") else jobs
    where, target = MoveTarget(ways[0]), before[0].id if before else None
    moves = tuple(Move(job=job.id, seen=seen(job), where=where, before=target) for job in ordered)
    outcomes = client.ask(Commands(moves))
    return report(outcomes, ordered, "moved")
