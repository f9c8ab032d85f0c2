"""What a shell is told when the user presses Tab: verbs, flags, and what a living owner knows of jobs and GPUs.

Nothing is started or made for it, and an owner that is slow to answer is not waited for.
"""

from __future__ import annotations

import os
import signal
from argparse import Action, Namespace
from collections.abc import Callable
from typing import TypeVar

from argcomplete import autocomplete
from argcomplete.lexers import split_line

from gputui.core.job import WORDS
from gputui.session.client import PRIVATE, chosen
from gputui.session.control.connection import ClientError, Connection, NoOwner
from gputui.session.errors import ConfigError
from gputui.session.messages import Lanes, OwnerRequest, PickJobs
from gputui.session.registry import known_here

from .parser import Parser
from .verbs import ALIASES, VERBS, parser_of

T = TypeVar("T")
PATIENCE = 0.5
"""Seconds for an owner to answer: a user waits for the next character."""
Completions = dict[str, str]
"""Words, and what explains each where the shell shows that."""


class _TooLate(Exception):
    """The owner did not answer in time."""


def complete() -> None:
    """Answers and ends the program."""
    words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    verb = ALIASES.get(words[1], words[1]) if len(words) > 1 else ""
    if verb in VERBS:
        parser = _parser(verb)
        os.environ["_ARGCOMPLETE"] = "2"  # the words begin with the verb
    else:
        parser = _parser("app", with_verbs=len(words) == 1)
    autocomplete(parser, always_complete_options=False)


def _parser(verb: str, *, with_verbs: bool = False) -> Parser:
    parser = parser_of(verb)
    for action in parser._actions:
        completer = _completer(action)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]  # where argcomplete looks for it
        elif with_verbs and action.dest == "jobs":
            action.completer = _verbs_and_files  # type: ignore[attr-defined]
    return parser


def _completer(action: Action) -> Callable[..., Completions] | None:
    if action.dest == "session":
        return _sessions
    if action.metavar in ("JOB", "ID") or (action.metavar == "JOBS" and action.dest in ("words", "after", "after_any")):
        return _jobs
    return _gpus if action.metavar == "LIST" else None


def _verbs_and_files(prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    return [*VERBS, *FilesCompleter()(prefix)]


def _sessions(**_: object) -> Completions:
    return {root: "" for root in known_here() if root.isprintable()}


def _jobs(parsed_args: Namespace, **_: object) -> Completions:
    picked = _asked(parsed_args, PickJobs(all=True))
    jobs = picked.jobs if picked is not None else []
    names: Completions = {job.name: WORDS[job.state] for job in jobs if job.name.isprintable()}
    return names | {str(job.id): f"{WORDS[job.state]} {job.name}" for job in jobs}


def _gpus(parsed_args: Namespace, **_: object) -> Completions:
    shown = _asked(parsed_args, Lanes())
    return {device: "" for lane in (shown.lanes if shown is not None else ()) for device in lane.devices}


def _asked(parsed_args: Namespace, request: OwnerRequest[T]) -> T | None:
    """What the owner of the session that is meant answers; None without one."""
    try:
        root = chosen("ls", getattr(parsed_args, "session", None))
        signal.signal(signal.SIGALRM, _give_up)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)
        try:
            return Connection(os.path.join(root, PRIVATE)).ask(request)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (_TooLate, NoOwner, ClientError, ConfigError, OSError):
        return None


def _give_up(*_: object) -> None:
    raise _TooLate
