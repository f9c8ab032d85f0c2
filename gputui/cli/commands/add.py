"""`gputui add`: add a job with the directory and environment of the current shell."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gputui.cli.command import find_session, suggest
from gputui.cli.output import JSON, out, print_json, refuse, say
from gputui.cli.parser import Options, Parser, argument_type
from gputui.cli.progress import describe_pause
from gputui.core.amounts import counted
from gputui.core.job import URGENT_PRIORITY
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.code_snapshots import with_code
from gputui.session.config import Config, load
from gputui.session.control.connection import ClientError, NoSession
from gputui.session.environment import captured
from gputui.session.messages import NOW, AddedJob, AddedJobs, Events, StatusQuestion
from gputui.session.owner.requests import Load
from gputui.sources.command_list import LONGEST_COMMAND, unreadable
from gputui.sources.settings import SETTINGS, JobSettings, Setting
from gputui.sources.source import Draft, specs
from gputui.sources.values import BadValue


class Swept(Struct, frozen=True):
    """The jobs that a sweep added, or without --add its commands."""

    jobs: list[AddedJob] = []
    cursor: str | None = None
    commands: list[str] = []


ANSWERS = {"add": AddedJobs, "sweep": Swept}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Add a job with the current directory and environment, and print its id. Several words are quoted for the "
        "shell; a single one is used as is. A script or standard input is one job. Starts a session in ./gputui_run "
        "if there is none. With --key, adding the same command again prints the id of the first job.",
        usage="add [options] -- COMMAND … | add --script FILE | add -",
        examples="gputui add -- python train.py --lr 0.1\n"
        "gputui add 'python prepare.py && python train.py'\n"
        "gputui add --gpus 2 --name big --after prepare -- torchrun train.py\n"
        "gputui add --key night-lr0.1 --json -- python train.py --lr 0.1\n"
        "gputui add --gpus 2 --dry-run -- torchrun train.py\n"
        "gputui add - <<'END'\n"
        'first=$(gputui add -- python a.py); gputui add --after "$first" -- python b.py',
    )
    parser.command_hint = lambda before, command: (
        f"if it is part of the command, write: {shlex.join(['gputui', 'add', *before, '--', *command])}"
    )
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command to run")
    add_job_flags(parser)
    parser.add_argument("--script", metavar="FILE", help="run the contents of this file")
    parser.add_common("dry_run", "json", "no_start", "session")
    return parser


# Flags for the settings of a job


def add_job_flags(parser: Parser) -> None:
    for key, setting in SETTINGS.items():
        names = [f"--{name.replace('_', '-')}" for name in (key, *setting.also)]
        parser.add_argument(*names, dest=setting.field, **_form(setting))
    parser.switch(
        "--urgent", help=f"same as --priority {URGENT_PRIORITY} --preempt: may preempt jobs with --checkpoint"
    )


def _form(setting: Setting) -> dict[str, Any]:
    help_text = setting.help.replace("%", "%%")
    if setting.field == "after_any":
        read = argument_type(SETTINGS["after"].read)
        return {"type": read, "metavar": "JOBS", "help": "start when these end, in any state"}
    if setting.field == "variables":
        help_text = "set a variable for this job; repeatable"
        return {"type": argument_type(_variable), "action": "append", "metavar": setting.metavar, "help": help_text}
    if not setting.metavar:
        return {"action": "store_true", "default": None, "help": help_text}
    return {"type": argument_type(setting.read), "metavar": setting.metavar, "help": help_text}


def _variable(written: str) -> tuple[str, str]:
    """Parse NAME=VALUE. The shell has already removed the quotes."""
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise BadValue(f"invalid variable {written!r}: use NAME=VALUE")
    return name, value


def job_settings(options: Options) -> JobSettings:
    """Return the job settings given by the flags."""
    if options.after and options.after_any:
        refuse("--after and --after-any cannot be combined")
    settings = JobSettings(**{field: getattr(options, field) for field in JobSettings.__struct_fields__})
    if options.urgent:
        priority = URGENT_PRIORITY if settings.priority is None else settings.priority
        if priority < URGENT_PRIORITY:
            refuse(f"--urgent needs priority {URGENT_PRIORITY} or higher, not {priority}; omit --priority")
        settings = replace(settings, priority=priority, preempt=True)
    return replace(
        settings,
        after=options.after or options.after_any,
        after_any=bool(options.after_any) or None,
        variables=dict(options.variables) if options.variables else None,
    )


def work(options: Options) -> int:
    return print_added(options, *add_all(options, [Draft(command(options))], job_settings(options), "add"))


def print_added(options: Options, client: Client, jobs: list[AddedJob], cursor: str) -> int:
    """Print the ids of the jobs, which were added now or existed before with the same key."""
    if options.dry_run:
        from gputui.cli.dry_run import print_preview

        return print_preview(client, [job.id for job in jobs])
    if JSON.on:
        print_json(AddedJobs(jobs, cursor) if options.subcommand == "add" else Swept(jobs, cursor))
        return 0
    for job in jobs:
        out(str(job.id))
    known = [job for job in jobs if not job.created]
    if options.subcommand == "sweep":
        there = f", {len(known)} already there" if known else ""
        say(f"{counted(len(jobs) - len(known), 'job', 'jobs')} added{there}")
    elif known:
        say(f"already added as #{known[0].id} with this key")
    return 0


def add_all(
    options: Options, drafts: Iterable[Draft], common: JobSettings, origin: str, group: str = ""
) -> tuple[Client, list[AddedJob], str]:
    """Add jobs with common settings. Return the session, the jobs and, with --json, the cursor of the events before
    them.

    `group`: the group of the jobs if the user named none.
    """
    config = load()
    settings = common.over(config.job_settings())
    jobs = specs(drafts, cwd=os.getcwd(), environment="", group=group, defaults=settings)
    for directory in {job.cwd for job in jobs}:
        if directory != directory.encode("utf-8", "replace").decode():
            refuse(f"the directory name {os.fsencode(directory)!r} is not valid UTF-8; choose another with --cwd")
        if not os.path.isdir(directory):
            refuse(f"--cwd {directory}: no such directory")
    client = open_session(options, config)
    cursor = client.ask(Events(NOW)).cursor if JSON.on and not options.dry_run else ""
    jobs = with_code(None if options.dry_run else client.root, jobs)
    work = not options.no_start and bool(config.get("daemon")[0])
    named = tuple(field for field in common.__struct_fields__ if getattr(common, field) is not None)
    loaded = client.ask(Load(tuple(jobs), captured(), origin, by_spec=True, named=named), work=work)
    if loaded.warning:
        say(f"warning: {plain(loaded.warning)}")
    # A session found in a parent directory may not be the one that the user expects.
    here = os.path.join(os.path.realpath(os.getcwd()), "")
    if not (options.session or options.dry_run) and loaded.jobs and not os.path.realpath(client.root).startswith(here):
        say(f"added to {client.root}; for another: --session DIR")
    with suppress(ClientError):  # the jobs are added in any case
        scheduler, groups = client.ask(StatusQuestion()).scheduler, {job.group for job in jobs}
        if words := describe_pause(scheduler, set(loaded.jobs), groups, suggest(options, "gputui resume")):
            say(words)
    return client, loaded.by_spec, cursor


def open_session(options: Options, config: Config) -> Client:
    """Return the session for new jobs. Create one if there is none."""
    try:
        return find_session(options)
    except NoSession:
        if options.session:
            raise
    from gputui.session.creation import begin, begin_request  # imported late, because it loads much more of gputui

    root = os.path.abspath(os.path.expanduser(str(config.get("output_dir")[0])))
    if getattr(options, "dry_run", False):
        from gputui.cli.dry_run import RehearsalClient

        client = RehearsalClient(root)
        client.ask(begin_request(config)[0])
        return client
    for notice in begin(root, config):
        say(notice)
    return Client(root, say)


def command(options: Options) -> str:
    """Return the command to add, after checking that it can be stored and passed to a shell."""
    if options.script is not None:
        if options.words:
            refuse("use either --script or a command")
        try:
            with open(options.script, "rb") as file:
                written, origin = file.read(LONGEST_COMMAND + 1), options.script
        except OSError as error:
            refuse(f"--script: {unreadable(options.script, error)}")
    elif options.words == ["-"]:
        written, origin = sys.stdin.buffer.read(), "standard input"
    elif options.words:
        words = options.words
        written, origin = os.fsencode(words[0] if len(words) == 1 else shlex.join(words)), "the command"
    else:
        refuse("no command: use gputui add -- COMMAND …, gputui add --script FILE or gputui add -")
    if b"\0" in written:
        refuse(f"{origin} contains a NUL byte; remove it")
    if len(written) > LONGEST_COMMAND:
        refuse(f"{origin} is longer than the limit of {LONGEST_COMMAND} bytes; put the command in a script")
    try:
        text = written.decode("utf-8").rstrip("\n")
    except UnicodeDecodeError as error:
        refuse(f"{origin} is not UTF-8 at byte {error.start}; save it as UTF-8")
    if not text.strip():
        refuse(f"{origin} is empty")
    return text
