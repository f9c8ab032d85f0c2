"""`gputui hosts`: show the GPUs and sessions of several machines.

Also `--host`, which runs a command on another machine.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from gputui.cli.output import (
    INTERRUPTED,
    JSON,
    UNREACHABLE,
    Column,
    Exit,
    OutputFormat,
    print_answer,
    refuse,
    say,
    table,
    write,
)
from gputui.cli.parser import Options, Parser, argument_type
from gputui.core.amounts import memory_of
from gputui.hosts.ssh import (
    ANY,
    FAILED,
    NOT_THERE,
    BadHost,
    HostPlace,
    how_to_install,
    parse_hosts,
    place_of,
    remember,
    ssh_missing,
    ssh_words,
)
from gputui.session.config import Config, load, user_file

from . import reads_stdin

if TYPE_CHECKING:
    from gputui.hosts.machine import CardStatus, MachineStatus
    from gputui.hosts.survey import Answer

COLUMNS = (
    Column("host"), Column("gpu", least=12), Column("load", right=True), Column("memory", right=True),
    Column("used by", least=8), Column("sessions", least=12),
)  # fmt: skip
SHORTEST_INTERVAL = 0.5


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Show the GPUs of several hosts, who uses them, what is free, and your sessions there. Uses your own "
        'ssh and ~/.ssh/config. Set hosts = ["lab7", "lab8"] in your config, or use --host.',
        usage="hosts [--host LIST] [--live | --json]",
        examples="gputui hosts\ngputui hosts --host lab7,lab8 --live\ngputui --host lab7\n"
        "gputui --host lab7:runs/sweep ls\ngputui add --host any --memory 20G -- python train.py",
    )
    parser.add_argument("--host", metavar="LIST", help="override the configured hosts: lab7,lab8")
    parser.switch("--live", help="live view; Enter opens a host's session")
    parser.switch("--here", help="this machine only, without ssh")
    parser.add_argument("--every", type=argument_type(_pause), metavar="SECONDS", help="with --here --json: repeat")
    parser.add_common("json")
    return parser


def _pause(written: str) -> float:
    try:
        seconds = float(written)
    except ValueError:
        raise ValueError(f"invalid number of seconds: {written!r}") from None
    if not seconds >= SHORTEST_INTERVAL:
        raise ValueError(f"{written} is too short; minimum {SHORTEST_INTERVAL:g} s")
    return seconds


def work(options: Options) -> int:
    if options.every is not None and not (options.here and options.json):
        refuse("--every needs --here --json")
    if options.here and options.json:
        return _print_here(options.every)
    config = load()
    places = _places(options, config)
    if options.live:
        return _live(options, places, config)
    from gputui.hosts.machine import collect_status
    from gputui.hosts.survey import Answer, ask_all, hosts_answer

    if places:
        answers = ask_all(places, str(config.get("ssh")[0]))
    else:
        status = collect_status()
        answers = [Answer(HostPlace(status.host), status, at=time.time())]
    print_answer(lambda: hosts_answer(answers), lambda fmt: render(answers, fmt))
    if not (places or options.here or JSON.on):
        say(f'showing this machine only: set hosts = ["lab7", "lab8"] in {user_file()}, or use --host')
    return 0 if any(answer.status is not None for answer in answers) else 1


def _places(options: Options, config: Config) -> list[HostPlace]:
    if options.here:
        if options.host is not None:
            refuse("use either --here or --host")
        return []
    try:
        return parse_hosts(options.host, config)
    except BadHost as error:
        refuse(str(error))


def _print_here(every: float | None) -> int:
    """Print this machine's status as one line of JSON, either once or repeatedly.

    `every`: seconds between two lines.
    """
    from gputui.hosts.machine import collect_status

    JSON.answered = True
    while True:
        sys.stdout.write(msgspec.json.encode(collect_status()).decode() + "\n")
        sys.stdout.flush()
        if every is None:
            return 0
        time.sleep(every)


def render(answers: Iterable[Answer], fmt: OutputFormat) -> list[str]:
    rows, colours = [], []
    troubles = []
    for answer in answers:
        if answer.status is None:
            troubles.append(f"{answer.place.alias}: {answer.trouble}")
            continue
        for row, free in _rows(answer.place.alias, answer.status):
            rows.append(row)
            colours.append("32" if free else "")
    lines = table(COLUMNS, rows, fmt, colours) if rows else []
    return [*lines, *(fmt.paint(fmt.cut(trouble), "31") for trouble in troubles)]


def _rows(alias: str, status: MachineStatus) -> Iterable[tuple[list[str], bool]]:
    """Yield table rows, each with a flag that says whether its GPU is free.

    GPUs and sessions are independent columns side by side. Either may be empty in a row.
    """
    sessions = [
        f"{session.name}: {session.counts_text or session.status or 'no scheduler'}" for session in status.sessions
    ]
    count = max(len(status.cards), len(sessions), 1)
    for line in range(count):
        card = status.cards[line] if line < len(status.cards) else None
        session = sessions[line] if line < len(sessions) else ""
        yield [alias if line == 0 else "", *_card_cells(card, status), session], card is not None and card.free


def _card_cells(card: CardStatus | None, status: MachineStatus) -> list[str]:
    if card is None:
        return ["" if status.cards else "no GPU", "", "", ""]
    load = "n/a" if card.utilization is None else f"{card.utilization}%"
    whose = card.trouble or ", ".join(card.holders) or ("your job" if card.taken else "free")
    name = f"{card.index} {card.name.removeprefix('NVIDIA ')}" if status.gpus else f"cpu {card.index}"
    return [name, load, memory_of(card.memory_used, card.memory_total), whose]


def _live(options: Options, places: list[HostPlace], config: Config) -> int:
    """Show the live view. Show it again after the user leaves a session that was opened from it."""
    if options.json:
        refuse("use either --live or --json")
    if not places:
        refuse(f'no hosts configured: set hosts = ["lab7", "lab8"] in {user_file()}, or use --host')
    from gputui.tui.hosts import show_hosts
    from gputui.tui.terminal.tty import refusal

    if (why_not := refusal()) is not None:
        refuse(why_not)
    ssh, mouse = str(config.get("ssh")[0]), bool(config.get("mouse")[0])
    while (place := show_hosts(places, ssh, mouse=mouse)) is not None:
        _run_on(place, [], ssh, place.alias)
    return 0


# --host


def run_remote(words: list[str]) -> int:
    """Run a command line that contains `--host` on the named machine."""
    hosts, rest = _extract_flag(words, "--host")
    host = hosts[0]
    if len(hosts) > 1 or not host:
        refuse("--host needs a host name: --host lab7" if not host else "--host was given twice; name one host")
    if "," in host:
        refuse(f"{rest[0] if rest else 'the TUI'} works on one host: --host {host.partition(',')[0]}; for an "
               f"overview: gputui hosts --host {host}")  # fmt: skip
    config = load()
    try:
        place = _any_place(rest, config) if host == ANY else place_of(host, config)
    except BadHost as error:
        refuse(str(error))
    name = place.alias if host == ANY else host
    return _run_on(place, rest, str(config.get("ssh")[0]), name, stdin=reads_stdin(rest))


def _extract_flag(words: list[str], flag: str) -> tuple[list[str], list[str]]:
    """Return the values of a flag and the remaining words. Words after `--` belong to the job and are not searched."""
    end = words.index("--") if "--" in words else len(words)
    values, rest, index = [], [], 0
    while index < end:
        word = words[index]
        if word == flag:
            index += 1
            values.append(words[index] if index < end else "")
        elif word.startswith(f"{flag}="):
            values.append(word.partition("=")[2])
        else:
            rest.append(word)
        index += 1
    return values, rest + words[end:]


def _run_on(place: HostPlace, words: list[str], ssh: str, host: str, *, stdin: bool = False) -> int:
    """Run a command on another machine, with a terminal there if there is one here.

    `host`: the machine's name as the user gave it. `stdin`: the command reads standard input.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # Otherwise ssh would read the standard input of a shell loop around this command.
    given = None if terminal or stdin else subprocess.DEVNULL
    try:
        command = ssh_words(place, words, ssh, terminal=terminal, host=host)
        errors = subprocess.PIPE if JSON.on else None  # so that ssh's own messages are not mixed with JSON
        done = subprocess.run(command, stdin=given, stderr=errors, check=False)
        status, complaint = done.returncode, (done.stderr or b"").decode("utf-8", "replace").strip()
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        raise Exit(1, ssh_missing(ssh, error)) from None
    if status == FAILED:
        raise Exit(UNREACHABLE, f"{complaint}{'; ' * bool(complaint)}{_link_failed(place.alias, host, words)}")
    if status == NOT_THERE and not place.gputui:
        path = f'set its path: [host."{place.alias}"] gputui = "PATH" in {user_file()}'
        raise Exit(UNREACHABLE, f"install gputui on {place.alias}: {how_to_install()}; or {path}")
    JSON.answered = True
    if complaint:
        write(sys.stderr, f"{complaint}\n")
    if place.directory and remember(place.alias, place.directory):
        say(f"--host {place.alias} now means the directory {place.directory}")
    return status


def _link_failed(alias: str, host: str, words: list[str]) -> str:
    """Return advice after a failed connection.

    ssh has already printed the error, but it cannot tell whether the command ran.
    """
    if words[:1] != ["add"] and not (words[:1] == ["sweep"] and "--add" in words):
        return f"cannot reach {alias}, or the connection broke (jobs keep running). Try: ssh {alias}"
    session = [word for name in _extract_flag(words, "--session")[0] for word in ("--session", name)]
    check = shlex.join(["gputui", "--host", host, "ls", *session])
    what = "the job" if words[0] == "add" else "the jobs"
    return f"{alias} was not reached, or the connection broke: {what} may have been added. Check first: {check}"


def _any_place(rest: list[str], config: Config) -> HostPlace:
    """Choose a machine with room for this job. Exit with the reason if there is none."""
    if rest[:1] != ["add"]:
        refuse("--host any only works with add; otherwise name a host: --host lab7")
    from gputui.hosts.survey import JobNeeds, ask_all, choose_host
    from gputui.sources.settings import LEARN
    from gputui.sources.values import bytes_or_share

    from . import add

    settings = add.job_settings(add.parser("add").parse_args(rest[1:]))
    # A share of a GPU's memory, or memory that is still to be learned, fits on every free GPU.
    memory = None if settings.memory in (None, LEARN) else bytes_or_share(settings.memory)[0]
    needs = JobNeeds(1 if settings.gpus is None else settings.gpus, memory)
    places = parse_hosts(None, config)
    if not places:
        refuse('no hosts configured: set hosts = ["lab7", "lab8"] in your config (see gputui config)')
    answers = ask_all(places, str(config.get("ssh")[0]))
    best = choose_host(answers, needs)
    for answer in answers:
        if answer.trouble:
            say(f"{answer.place.alias}: {answer.trouble}")
    if best is None:
        raise Exit(1, f"no host has {needs} now; to wait on one: --host {places[0].alias}")
    say(f"{best.place.alias} has {needs}")
    return best.place
