"""`gputui completion`: shell completion with argcomplete.

Completion never starts or creates anything, and does not wait for a slow owner.
"""

from __future__ import annotations

import os
import signal
from argparse import Action, Namespace
from collections.abc import Callable
from typing import TypeVar

from argcomplete import autocomplete
from argcomplete.completers import FilesCompleter
from argcomplete.lexers import split_line
from argcomplete.shell_integration import shellcode

from gputui.cli.output import out
from gputui.cli.parser import Options, Parser
from gputui.core.job import WORDS
from gputui.session.client import PRIVATE, chosen
from gputui.session.control.connection import ClientError, ask_owner
from gputui.session.errors import ConfigError
from gputui.session.messages import OwnerRequest, PickJobs, Slots
from gputui.session.registry import known_here

from . import ALIASES, SUBCOMMANDS, parser_of

SHELLS = ("bash", "zsh", "fish")
T = TypeVar("T")
PATIENCE = 0.5
"""Seconds to wait for an owner's answer. It is short because the user cannot type meanwhile."""
Completions = dict[str, str]
"""Completions with their descriptions."""


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Print shell completion code for commands, flags, job ids and names, GPUs and sessions.",
        usage="completion bash|zsh|fish",
        examples='bash: eval "$(gputui completion bash)"       in ~/.bashrc\n'
        'zsh:  eval "$(gputui completion zsh)"        in ~/.zshrc, after compinit\n'
        "fish: gputui completion fish | source        in ~/.config/fish/config.fish",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return parser


def work(options: Options) -> int:
    out(str(shellcode(["gputui"], shell=options.shell)).strip("\n"))
    return 0


# Completing


class _TooLate(Exception):
    """Raised when the owner does not answer in time."""


def complete() -> None:
    """Print the completions and exit."""
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    subcommand = ALIASES.get(words[1], words[1]) if len(words) > 1 else ""
    if subcommand in SUBCOMMANDS:
        parser = _parser(subcommand)
        os.environ["_ARGCOMPLETE"] = "2"  # the words begin with the command
    else:
        parser = _parser("app", with_subcommands=len(words) == 1)
    autocomplete(parser, always_complete_options=False)


def _parser(subcommand: str, *, with_subcommands: bool = False) -> Parser:
    parser = parser_of(subcommand)
    for action in parser._actions:
        completer = _completer(action)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]  # where argcomplete looks for it
        elif with_subcommands and action.dest == "jobs":
            action.completer = lambda prefix, **_: [*SUBCOMMANDS, *FilesCompleter()(prefix)]  # type: ignore[attr-defined]
    return parser


def _completer(action: Action) -> Callable[..., Completions] | None:
    if action.dest == "session":
        return lambda **_: {root: "" for root in known_here() if root.isprintable()}
    if action.metavar in ("JOB", "ID") or (action.metavar == "JOBS" and action.dest in ("words", "after", "after_any")):
        return _jobs
    return _gpus if action.metavar == "LIST" else None


def _jobs(parsed_args: Namespace, **_: object) -> Completions:
    picked = _ask(parsed_args, PickJobs(all=True))
    jobs = picked.jobs if picked is not None else []
    names: Completions = {job.name: WORDS[job.state] for job in jobs if job.name.isprintable()}
    return names | {str(job.id): f"{WORDS[job.state]} {job.name}" for job in jobs}


def _gpus(parsed_args: Namespace, **_: object) -> Completions:
    shown = _ask(parsed_args, Slots())
    return {device: "" for slot in (shown.slots if shown is not None else ()) for device in slot.devices}


def _ask(parsed_args: Namespace, request: OwnerRequest[T]) -> T | None:
    """Ask the owner of the selected session. Return None if it does not answer in time."""
    try:
        root = chosen("ls", getattr(parsed_args, "session", None))
        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            return ask_owner(os.path.join(root, PRIVATE), request)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (_TooLate, ClientError, ConfigError, OSError):
        return None


def _give_up(*_: object) -> None:
    raise _TooLate
