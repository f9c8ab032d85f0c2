"""Helpers shared by commands, to find the session, select jobs, ask questions and report failures."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from gputui.core.events import Refusal, Seen
from gputui.logs.plain import plain
from gputui.session.client import NAMES, Client, NeedsSession, chosen
from gputui.session.control.connection import ClientError
from gputui.session.errors import SessionError
from gputui.session.messages import Outcome, PickedJob, PickJobs, ShownJob

from .output import (
    ERRORS,
    HOST,
    INTERRUPTED,
    JSON,
    NOT_FOUND,
    REFUSED,
    UNREACHABLE,
    USAGE,
    Exit,
    check_output,
    discard,
    format_counts,
    print_error,
    print_json,
    refuse,
    say,
    writing_output,
)  # fmt: skip
from .parser import Options


def run_command(work: Callable[[], int], words: Sequence[str] = ()) -> int:
    """Run a command and return its exit status, see `ERRORS`.

    With --json among the words, standard output gets one JSON object, or standard error gets one that describes an
    error.
    """
    JSON.begin(on="--json" in words[: words.index("--") if "--" in words else None])
    try:
        failure = Failure(work())
        with writing_output():
            sys.stdout.flush()
        if not failure.status:
            check_output()
    except BrokenPipeError:
        discard(sys.stdout)
        return 1
    except KeyboardInterrupt:
        failure = Failure(INTERRUPTED)
    except Exception as error:
        known = _classify(error, words)
        if known is None:
            raise  # a bug
        failure = known
    _report(failure)
    return failure.status


def _report(failure: Failure) -> None:
    """Print the error message, or with --json an answer or an error if the command has not printed an answer."""
    if failure.message and not (JSON.on and failure.status):
        say(failure.message)
    if JSON.on and not JSON.answered:
        if failure.status:
            error = failure.error or ERRORS.get(failure.status, ERRORS[REFUSED])
            print_error(error, failure.message or (JSON.messages.pop() if JSON.messages else error), failure.hint)
        else:
            print_json({})


class Failure(NamedTuple):
    """How a command ended. `error` is the class of the error, if the exit status alone does not identify it."""

    status: int
    message: str = ""
    hint: str | None = None
    error: str = ""


def _classify(error: Exception, words: Sequence[str]) -> Failure | None:
    """Return how to report an exception, or None if it is a bug."""
    from gputui.process.watch import NoThread
    from gputui.session.control.connection import NoSession, RequestRefused
    from gputui.sources.source import BadInput

    session = next((name for flag, name in pairwise(words) if flag == "--session"), None)
    help_hint = f"gputui {words[0]} --help" if words else "gputui help"
    match error:
        case Exit(status=status, hint=hint):
            usual = {USAGE: help_hint, NOT_FOUND: with_session_flag("gputui ls", session)}.get(status)
            return Failure(status, str(error), hint or usual)
        case NoSession():
            there = f"mkdir -p {shlex.quote(session)} && cd {shlex.quote(session)} && " if session else ""
            begin = with_session_flag("gputui run FILE", session) if HOST else f"{there}gputui add -- COMMAND"
            return Failure(NOT_FOUND, str(error), begin, "no-session")
        case NeedsSession() | SessionError() | Refusal() | BadInput():
            return Failure(USAGE, str(error), help_hint)
        case RequestRefused(hint=str(hint)):
            return Failure(REFUSED, str(error), with_session_flag(hint, session))
        case RequestRefused() | NoThread():
            return Failure(REFUSED, str(error))
        case ClientError():
            return Failure(UNREACHABLE, str(error), "gputui doctor")
    return None


def find_session(options: Options) -> Client:
    """Return the session selected by the options. With --dry-run, return a copy in memory and answer all questions with
    yes.
    """
    if getattr(options, "dry_run", False):
        from .dry_run import RehearsalClient

        options.yes = True
        return RehearsalClient(chosen(options.subcommand, options.session))
    return Client(chosen(options.subcommand, options.session), say)


def suggest(options: Options, command: str) -> str:
    """Return a suggested next command for the same session and machine, such as `gputui resume --session runs`."""
    return with_session_flag(command, options.session)


def suggest_in(root: str, command: str) -> str:
    """Return a suggested next command for the session in `root`.

    It names the session only if gputui would not find it otherwise.
    """
    if command.startswith("gputui run"):
        here = os.path.abspath(NAMES[0]) == root  # `run` never searches upward
    else:
        try:
            here = chosen("app") == root
        except ClientError:
            here = False
    return with_session_flag(command, None if here else root)


def with_session_flag(command: str, directory: str | None) -> str:
    """Add the session's directory and the `--host` name of this machine to a suggested command.

    The directory is omitted if it is None, and the name if this machine was not reached by `--host`.
    """
    if HOST:
        command = command.replace("gputui", f"gputui --host {shlex.quote(HOST)}", 1)
    if not directory:
        return command
    flag = "--output-dir" if command.startswith("gputui run") else "--session"
    return f"{command} {flag} {shlex.quote(directory)}"


def on_terminal() -> bool:
    """Return whether a user can answer questions: standard input and error are terminals, and --json was not given."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not JSON.on


def ask_yes_no(question: str, *, otherwise: bool = False) -> bool:
    sys.stderr.write(f"{question} [{'Y/n' if otherwise else 'y/N'}] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        return False
    return answer.strip().lower() in (("y", "yes", "") if otherwise else ("y", "yes"))


# Selecting jobs

BY_FLAG = ("failed", "all_failed", "all", "succeeded")


def select_jobs(
    client: Client, options: Options, words: Sequence[str], applies_to: Sequence[str] | None
) -> list[PickedJob]:
    """Return the selected jobs. Exit if there are none.

    `applies_to`: the states of the jobs that `--all` selects.
    """
    ids, names = parse_job_words(words)
    flags = {key: True for key in BY_FLAG if getattr(options, key, False)}
    if not words and not flags:
        refuse(f"no jobs given: use ids, ranges (3-9), names or --all (see gputui {options.subcommand} --help)")
    answer = client.ask(PickJobs(ids, names, [], **flags))
    if answer.missing:
        raise Exit(NOT_FOUND, f"no job {', '.join(answer.missing)} in {client.root}; nothing was changed")
    jobs = answer.jobs
    if flags.get("all") and applies_to is not None:
        jobs = [job for job in jobs if job.state in applies_to]
    if not jobs:
        if not flags.keys() - {"failed", "all_failed"}:
            reason = "no job has failed"
        else:
            reason = "no job has succeeded" if flags.keys() == {"succeeded"} else f"{options.subcommand}: no such job"
        raise Exit(NOT_FOUND, f"{reason} in {client.root}; nothing was changed")
    return jobs


def parse_job_words(words: Sequence[str]) -> tuple[list[tuple[int, int]], list[str]]:
    """Separate ids and ranges of ids (`3`, `#3`, `3-9,12`) from names."""
    ids: list[tuple[int, int]] = []
    names: list[str] = []
    for word in words:
        ranges = [_parse_range(piece) for piece in word.split(",") if piece]
        if ranges and None not in ranges:
            ids += [id_range for id_range in ranges if id_range is not None]
        else:
            names.append(word)
    return ids, names


def _parse_range(text: str) -> tuple[int, int] | None:
    """Parse an id or a range of ids. Return None if the text is a name."""
    low, dash, high = text.removeprefix("#").partition("-")
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in ([low, high] if dash else [low])):
        return None
    if dash and int(high) < int(low):
        refuse(f"invalid range {low}-{high}: write {high}-{low}")
    return int(low), int(high or low)


def confirm(client: Client, options: Options, jobs: Sequence[PickedJob], doing: str) -> None:
    """Ask for confirmation before acting on more than one job, unless -y was given."""
    if len(jobs) < 2 or options.yes:
        return
    counts = format_counts(Counter(job.state for job in jobs))
    if on_terminal():
        say(f"{client.root}: {len(jobs)} jobs ({counts})")
        if not ask_yes_no(f"{doing} these {len(jobs)} jobs?"):
            raise Exit(1, "no changes")
    elif any(getattr(options, key, False) for key in BY_FLAG):
        refuse(f"{doing} {len(jobs)} jobs ({counts}) in {client.root}? No terminal to ask: use -y or name them")


def seen(job: PickedJob | ShownJob) -> Seen:
    return Seen(job.attempt, job.state)


class ChangedJob(Struct, frozen=True):
    """What became of a command on one job."""

    id: int
    name: str
    changed: bool
    message: str | None
    """What was done, or why it was refused."""


class ChangedJobs(Struct, frozen=True):
    jobs: list[ChangedJob]


def report_outcomes(
    outcomes: Sequence[Outcome], jobs: Sequence[PickedJob], done: str, notices: Sequence[str] = ()
) -> int:
    """Print one message for the successful jobs, one for each refusal, and the notices. Return the exit status."""
    refused = [outcome for outcome in outcomes if outcome.refused is not None]
    if JSON.on:
        JSON.messages += [*(outcome.warning for outcome in outcomes if outcome.warning), *notices]
        changed = (
            ChangedJob(job.id, job.name, outcome.refused is None, outcome.refused or done)
            for job, outcome in zip(jobs, outcomes, strict=True)
        )
        print_json(ChangedJobs(list(changed)))
        return REFUSED if refused else 0
    for outcome in refused:
        say(str(outcome.refused))
    count = len(outcomes) - len(refused)
    if count == 1:
        (job,) = (job for job, outcome in zip(jobs, outcomes, strict=True) if outcome.refused is None)
        say(f"#{job.id} {plain(job.name)}: {done}")
    elif count:
        say(f"{count} jobs: {done}")
    for notice in notices:
        say(notice)
    return 1 if refused else 0


# Questions answered with one key, without Enter

TERMINAL = "/dev/tty"


def ask_key(ask: Callable[[], None], overtaken: Callable[[], bool] = lambda: False) -> str | None:
    """Return the key that was pressed.

    Ctrl-C is returned as the key `\\x03`. Return "" if the terminal is gone or SIGINT arrived, and None if `overtaken`
    became true. `ask` prints the question. It is called when the keyboard is ready, so that no key pressed after the
    question is lost.
    """
    import select
    import termios

    try:
        with _keyboard() as keyboard:
            ask()
            while not select.select([keyboard], [], [], 0.1)[0]:
                if overtaken():
                    return None
            return os.read(keyboard, 1).decode("latin-1").lower()
    except (KeyboardInterrupt, OSError, termios.error):
        return ""


@contextmanager
def _keyboard() -> Iterator[int]:
    """Open the terminal without line editing. Ctrl-C is read as a key and sends no signal."""
    import termios

    keyboard = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        before = termios.tcgetattr(keyboard)
        raw = termios.tcgetattr(keyboard)
        raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, raw)
        try:
            yield keyboard
        finally:
            with suppress(termios.error):
                termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
    finally:
        os.close(keyboard)
