"""`gputui hosts`: the GPUs and sessions of several machines, as a table, as JSON, or live."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import msgspec

from gputui.cli.command import carry_out
from gputui.cli.output import out, refuse, say
from gputui.cli.parser import Options, Parser, checked
from gputui.cli.tables import Column, Paper, table
from gputui.core.amounts import memory_of
from gputui.hosts.machine import CardLook, MachineLook, look_here
from gputui.hosts.ssh import BadHost, HostPlace, listed
from gputui.hosts.survey import Answer, ask_all
from gputui.session.config import Config, load, user_file

COLUMNS = (
    Column("host"), Column("gpu", least=12), Column("load", right=True), Column("memory", right=True),
    Column("whose", least=8), Column("sessions", least=12),
)  # fmt: skip
FASTEST = 0.5


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows the GPUs of several machines, whose they are and what is free, and your sessions there. It asks each by "
        'your own ssh; ~/.ssh/config counts. Which: hosts = ["lab7", "lab8"] in your settings, or --host.',
        usage="hosts [--host LIST] [--live | --json]",
        examples="gputui hosts\ngputui hosts --host lab7,lab8 --live\ngputui --host lab7\n"
        "gputui --host lab7:runs/sweep ls\ngputui add --host any --memory 20G -- python train.py",
    )
    verb_parser.add_argument("--host", metavar="LIST", help="these instead of those of the settings: lab7,lab8")
    verb_parser.switch("--live", help="a screen that stays; enter opens a host's session")
    verb_parser.switch("--here", help="this machine alone, without ssh")
    verb_parser.add_argument(
        "--every", type=checked(_pause), metavar="SECONDS", help="with --here --json: again and again"
    )
    verb_parser.add_common("json")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def _pause(written: str) -> float:
    try:
        seconds = float(written)
    except ValueError:
        raise ValueError(f"{written!r} is not a number of seconds") from None
    if not seconds >= FASTEST:
        raise ValueError(f"{written} is too often: from {FASTEST:g} s on")
    return seconds


def work(options: Options) -> int:
    if options.every is not None and not (options.here and options.json):
        refuse("--every goes with --here --json")
    if options.here and options.json:
        return _told_here(options.every)
    config = load()
    places = _places(options, config)
    if options.live:
        return _live(options, places, config)
    ssh = str(config.get("ssh")[0])
    answers = ask_all(places, ssh) if places else [_own_answer()]
    if options.json:
        out(msgspec.json.encode({"hosts": [_json(answer) for answer in answers]}).decode())
    else:
        out("\n".join(drawn(answers, Paper())))
        if not places and not options.here:
            say(f'this is this machine alone: write hosts = ["lab7", "lab8"] into {user_file()}, or give --host')
    return 0 if any(answer.look is not None for answer in answers) else 1


def _places(options: Options, config: Config) -> list[HostPlace]:
    if options.here:
        if options.host is not None:
            refuse("--here is this machine, --host another: give one of them")
        return []
    try:
        return listed(options.host, config)
    except BadHost as error:
        refuse(str(error))


def _told_here(every: float | None) -> int:
    """One line for each look; ends when nobody reads."""
    while True:
        sys.stdout.write(msgspec.json.encode(look_here()).decode() + "\n")
        sys.stdout.flush()
        if every is None:
            return 0
        time.sleep(every)


def _own_answer() -> Answer:
    look = look_here()
    return Answer(HostPlace(look.host), look, at=time.time())


def _json(answer: Answer) -> dict[str, object]:
    return {"host": answer.place.alias, "trouble": answer.trouble or None, "look": answer.look}


def drawn(answers: Iterable[Answer], paper: Paper) -> list[str]:
    rows, colours = [], []
    troubles = []
    for answer in answers:
        if answer.look is None:
            troubles.append(f"{answer.place.alias}: {answer.trouble}")
            continue
        for row, free in _rows(answer.place.alias, answer.look):
            rows.append(row)
            colours.append("32" if free else "")
    lines = table(COLUMNS, rows, paper, colours) if rows else []
    return [*lines, *(paper.painted(paper.cut(trouble), "31") for trouble in troubles)]


def _rows(alias: str, look: MachineLook) -> Iterable[tuple[list[str], bool]]:
    """A card a line, and the sessions beside them from the top."""
    sessions = [f"{session.name}: {session.told or session.standing or 'nobody owns it'}" for session in look.sessions]
    count = max(len(look.cards), len(sessions), 1)
    for line in range(count):
        card = look.cards[line] if line < len(look.cards) else None
        session = sessions[line] if line < len(sessions) else ""
        yield [alias if line == 0 else "", *_card_cells(card, look), session], card is not None and card.free


def _card_cells(card: CardLook | None, look: MachineLook) -> list[str]:
    if card is None:
        return ["" if look.cards else "no GPU", "", "", ""]
    load = "n/a" if card.utilization is None else f"{card.utilization} %"
    whose = card.trouble or ", ".join(card.holders) or ("a job of yours" if card.taken else "free")
    name = f"{card.index} {card.name.removeprefix('NVIDIA ')}" if look.gpus else f"cpu {card.index}"
    return [name, load, memory_of(card.memory_used, card.memory_total), whose]


def _live(options: Options, places: list[HostPlace], config: Config) -> int:
    """The screen, until it is left for good; a session that was opened on it comes back to it."""
    if options.json:
        refuse("--live is a screen, --json is for programs: give one of them")
    if not places:
        refuse(f'no hosts are set: write hosts = ["lab7", "lab8"] into {user_file()}, or give --host')
    from gputui.cli.remote import run_there
    from gputui.tui.hosts import show_hosts
    from gputui.tui.terminal.tty import refusal

    if (why_not := refusal()) is not None:
        refuse(why_not)
    ssh, mouse = str(config.get("ssh")[0]), bool(config.get("mouse")[0])
    while (place := show_hosts(places, ssh, mouse=mouse)) is not None:
        run_there(place, [], ssh, place.alias)
    return 0
