"""`--host`: the same words on another machine, over the user's own ssh."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

from gputui.hosts.ssh import (
    ANY,
    FAILED,
    NOT_THERE,
    BadHost,
    HostPlace,
    how_to_install,
    listed,
    place_of,
    remember,
    remembered,
    ssh_words,
)
from gputui.session.config import Config, load, user_file
from gputui.session.errors import ConfigError

from .command import carry_out_owning
from .output import Exit, refuse, say

FLAG = "--host"


def main(words: list[str], reads_stdin: Callable[[list[str]], bool]) -> int:
    """Words of which one is `--host`; `reads_stdin` says it of the others."""
    return carry_out_owning(lambda: _carried_out(words, reads_stdin))


def _carried_out(words: list[str], reads_stdin: Callable[[list[str]], bool]) -> int:
    host, rest = taken_out(words)
    try:
        config = load()
        place = _any_place(rest, config) if host == ANY else _place(host, rest, config)
    except (BadHost, ConfigError) as error:
        refuse(str(error))
    name = place.alias if host == ANY else host
    return run_there(place, rest, str(config.get("ssh")[0]), name, stdin=reads_stdin(rest))


def taken_out(words: list[str]) -> tuple[str, list[str]]:
    """The host, and the words without it."""
    hosts, rest = _split(words, FLAG)
    if len(hosts) > 1 or not hosts[0]:
        refuse("--host needs one name: --host lab7" if not hosts[0] else "--host stands here twice; name one machine")
    return hosts[0], rest


def _split(words: list[str], flag: str) -> tuple[list[str], list[str]]:
    """The values of a flag, and the other words; a flag behind `--` is the job's."""
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


def _place(host: str, rest: list[str], config: Config) -> HostPlace:
    if "," in host:
        refuse(f"{rest[0] if rest else 'the screen'} is for one machine: --host {host.partition(',')[0]}; "
               f"all of them at a glance: gputui hosts --host {host}")  # fmt: skip
    return place_of(host, config)


def run_there(place: HostPlace, words: list[str], ssh: str, host: str, *, stdin: bool = False) -> int:
    """Run a command on another machine; `host`: that machine as the user named it; `stdin`: it reads that.

    It gets the terminal where there is one, so that questions can be answered and Ctrl-C reaches the other side.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # ssh would read all of standard input, also what is meant for a loop around this command.
    given = None if terminal or stdin else subprocess.DEVNULL
    try:
        status = subprocess.call(ssh_words(place, words, ssh, terminal=terminal, host=host), stdin=given)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        _no_ssh(ssh, error)
    if status == FAILED:
        say(_link_failed(place.alias, host, words))
        return 1
    if status == NOT_THERE and not place.gputui:
        say(f"install gputui on {place.alias}: {how_to_install()}")
        say(f'or set where it is: [host."{place.alias}"] gputui = "PATH" in {user_file()}')
        return 1
    if place.folder and remembered().get(place.alias) != place.folder and remember(place.alias, place.folder):
        say(f"from now on --host {place.alias} means its folder {place.folder}")
    return status


def _link_failed(alias: str, host: str, words: list[str]) -> str:
    """ssh has printed why. It cannot know whether the command was carried out before the link broke."""
    if words[:1] != ["add"] and not (words[:1] == ["sweep"] and "--add" in words):
        return f"{alias} was not reached, or the link broke (jobs do not need it). Try: ssh {alias}"
    session = [word for name in _split(words, "--session")[0] for word in ("--session", name)]
    look = shlex.join(["gputui", "--host", host, "ls", *session])
    what = "the job" if words[0] == "add" else "the jobs"
    return f"{alias} was not reached, or the link broke: {what} may have been added. Check before you retry: {look}"


def _no_ssh(ssh: str, error: OSError) -> NoReturn:
    program = ssh.partition(" ")[0]
    raise Exit(1, f"{program} cannot be started: {error.strerror}; install an ssh client, or set GPUTUI_SSH")


def _any_place(rest: list[str], config: Config) -> HostPlace:
    """The machine with room for this job; refuses with what each of them said."""
    if rest[:1] != ["add"]:
        refuse("--host any is for gputui add; other verbs need a name: --host lab7")
    from gputui.hosts.survey import RoomWanted, ask_all, chosen_host

    from .job_flags import add_parser, job_settings

    settings = job_settings(add_parser("add").parse_args(rest[1:]))
    wanted = RoomWanted(1 if settings.gpus is None else settings.gpus, _bytes(settings.memory))
    places = listed(None, config)
    if not places:
        refuse('no hosts are set: write hosts = ["lab7", "lab8"] into your settings (gputui config tells where)')
    answers = ask_all(places, str(config.get("ssh")[0]))
    best = chosen_host(answers, wanted)
    for answer in answers:
        if answer.trouble:
            say(f"{answer.place.alias}: {answer.trouble}")
    if best is None:
        raise Exit(1, f"no host has {wanted.told} now; name one to wait there: --host {places[0].alias}")
    say(f"{best.place.alias} has {wanted.told}")
    return best.place


def _bytes(memory: str | None) -> int | None:
    """None: a free card is enough, for a share of it or for what is yet to be learned too."""
    from gputui.sources.settings import LEARN
    from gputui.sources.values import bytes_or_share

    return None if memory is None or memory == LEARN else bytes_or_share(memory)[0]
