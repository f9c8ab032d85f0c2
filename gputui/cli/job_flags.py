"""A job's settings as flags, from the one table of them, for every command that adds jobs."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from msgspec.structs import replace

from gputui.core.job import URGENT_PRIORITY
from gputui.sources.settings import SETTINGS, JobSettings, Setting
from gputui.sources.values import BadValue

from .output import refuse
from .parser import Options, Parser, checked


def add_parser(verb: str) -> Parser:
    """The command line of `gputui add`, which `--host any` reads before it chooses a machine."""
    verb_parser = Parser(
        verb,
        "Adds a job, which will run in this folder with this environment, and prints its id. Several words are quoted "
        "for the shell; a single word is passed to it as is. A script or standard input (-) is one job. If there is "
        "no session, one is created in ./gputui_run.",
        usage="add [options] -- COMMAND … | add --script FILE | add -",
        examples="gputui add -- python train.py --lr 0.1\n"
        "gputui add 'python prepare.py && python train.py'\n"
        "gputui add --gpus 2 --name big --after prepare -- torchrun train.py\n"
        "gputui add - <<'END'\n"
        'first=$(gputui add -- python a.py); gputui add --after "$first" -- python b.py',
    )
    verb_parser.command_hint = _with_dashes
    verb_parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command to run")
    add_job_flags(verb_parser)
    verb_parser.add_argument("--script", metavar="FILE", help="the command is the text of this file")
    verb_parser.add_common("no_start", "session")
    return verb_parser


def _with_dashes(before: list[str], command: list[str]) -> str:
    return f"if it is part of the command, write: {shlex.join(['gputui', 'add', *before, '--', *command])}"


def add_job_flags(parser: Parser) -> None:
    for key, setting in SETTINGS.items():
        names = [f"--{name.replace('_', '-')}" for name in (key, *setting.also)]
        parser.add_argument(*names, dest=setting.field, **_form(setting))
    parser.switch("--urgent", help=f"as --priority {URGENT_PRIORITY} --preempt: jobs with --checkpoint give way to it")


def _form(setting: Setting) -> dict[str, Any]:
    help_text = setting.help.replace("%", "%%")
    if setting.field == "after_any":
        read = checked(SETTINGS["after"].read)
        return {"type": read, "metavar": "JOBS", "help": "start when these have ended, whether or not they succeeded"}
    if setting.field == "variables":
        several = "a variable of this job; may be repeated"
        return {"type": checked(_variable), "action": "append", "metavar": setting.metavar, "help": several}
    if not setting.metavar:
        return {"action": "store_true", "default": None, "help": help_text}
    return {"type": checked(setting.read), "metavar": setting.metavar, "help": help_text}


def _variable(written: str) -> tuple[str, str]:
    """As it is: the shell has unquoted it already."""
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise BadValue(f"{written!r} is not NAME=VALUE; write SEED=1")
    return name, value


def job_settings(options: Options | argparse.Namespace) -> JobSettings:
    """What these flags say of a job."""
    if options.after and options.after_any:
        refuse("--after and --after-any cannot be mixed for one job")
    said = JobSettings(**{field: getattr(options, field) for field in JobSettings.__struct_fields__})
    if getattr(options, "urgent", False):
        said = _urgent(said)
    return replace(
        said,
        after=options.after or options.after_any,
        after_any=bool(options.after_any) or None,
        variables=dict(options.variables) if options.variables else None,
    )


def _urgent(said: JobSettings) -> JobSettings:
    priority = URGENT_PRIORITY if said.priority is None else said.priority
    if priority < URGENT_PRIORITY:
        refuse(f"--urgent needs a priority of at least {URGENT_PRIORITY}, not {priority}; leave out --priority")
    return replace(said, priority=priority, preempt=True)


def first_said(options: Options) -> str | None:
    """The first of these flags that was given."""
    return next(
        (f"--{key.replace('_', '-')}" for key, setting in SETTINGS.items() if getattr(options, setting.field)), None
    )
