"""`gputui add`: a job from another shell, with that shell's folder and environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress

from gputui.cli.command import again, carry_out, known
from gputui.cli.job_flags import add_parser as parser
from gputui.cli.job_flags import job_settings
from gputui.cli.output import out, refuse, say
from gputui.cli.parser import Options
from gputui.cli.progress import pause_words
from gputui.logs.plain import plain
from gputui.session.client import Client, chosen
from gputui.session.config import Config, load
from gputui.session.control.connection import ClientError, NoSession
from gputui.session.environment import captured
from gputui.session.messages import StatusQuestion
from gputui.session.owner.requests import Load
from gputui.sources.command_list import LONGEST_COMMAND, unreadable
from gputui.sources.settings import JobSettings
from gputui.sources.source import Draft, specs


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    draft = Draft(command(options), 1)
    for job_id in add_all(options, [draft], job_settings(options), "add"):
        out(str(job_id))
    return 0


def add_all(options: Options, drafts: Iterable[Draft], common: JobSettings, origin: str, group: str = "") -> list[int]:
    """Adds jobs that have all but their own settings in common; their ids. `group`: when the user named none."""
    config = load()
    settings = common.over(config.job_settings())
    jobs = specs(drafts, cwd=os.getcwd(), environment="", group=group, defaults=settings)
    for folder in {job.cwd for job in jobs}:
        _check_folder(folder)
    client = _client(options, config)
    work = not options.no_start and bool(config.get("keeper")[0])
    loaded = client.ask(Load(tuple(jobs), captured(), origin), work=work)
    ids = loaded.jobs
    if loaded.warning:
        say(f"warning: {plain(loaded.warning)}")
    _say_where(client, options, len(ids))
    _say_if_paused(client, options, set(ids), {job.group for job in jobs})
    return ids


def _say_where(client: Client, options: Options, added: int) -> None:
    """A session that was found above this folder may not be the one that was thought of."""
    here = os.path.join(os.path.realpath(os.getcwd()), "")
    if not options.session and not os.path.realpath(client.root).startswith(here) and added:
        say(f"added to {client.root}; another: --session DIR")


def _say_if_paused(client: Client, options: Options, jobs: set[int], groups: set[str]) -> None:
    """They are added, whatever becomes of this question."""
    with suppress(ClientError):
        words = pause_words(client.ask(StatusQuestion()).scheduler, jobs, groups, again(options, "gputui resume"))
        if words:
            say(words)


def _check_folder(folder: str) -> None:
    if folder != folder.encode("utf-8", "replace").decode():
        refuse(f"the name of {os.fsencode(folder)!r}, where it would run, is not UTF-8; choose another with --cwd")
    if not os.path.isdir(folder):
        refuse(f"--cwd {folder}: there is no such folder; make it, or choose another")


def _client(options: Options, config: Config) -> Client:
    try:
        return known(chosen("add", options.session))
    except NoSession:
        if options.session:
            raise
    from gputui.session.creation import begin  # the session's own code, which an owner spares us

    root = os.path.abspath(os.path.expanduser(str(config.get("output_dir")[0])))
    for notice in begin(root, config):
        say(notice)
    return Client(root, say)


def command(options: Options) -> str:
    if options.script is not None:
        if options.words:
            refuse("--script is the command; leave out the other one")
        return checked(_script(options.script), options.script)
    if options.words == ["-"]:
        return checked(sys.stdin.buffer.read(), "standard input")
    if not options.words:
        refuse("what is to run? gputui add -- COMMAND …, gputui add --script FILE or gputui add -")
    if len(options.words) == 1:
        return checked(os.fsencode(options.words[0]), "the command")
    from shlex import join

    return checked(os.fsencode(join(options.words)), "the command")


def _script(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST_COMMAND + 1)
    except OSError as error:
        refuse(f"--script: {unreadable(path, error)}")


def checked(written: bytes, origin: str) -> str:
    """A command that can be stored and passed to a shell."""
    if b"\0" in written:
        refuse(f"{origin} holds a NUL byte; remove it")
    if len(written) > LONGEST_COMMAND:
        refuse(f"{origin} is longer than the {LONGEST_COMMAND} bytes a command may have; call a script instead")
    try:
        text = written.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        refuse(f"{origin} is not UTF-8 at byte {error.start}; write it as UTF-8")
    if not text.strip():
        refuse(f"{origin} is empty; what is to run?")
    return text
