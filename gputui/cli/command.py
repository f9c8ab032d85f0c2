"""How every command runs: session found, jobs selected, questions asked, failures printed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from gputui.core.events import Seen
from gputui.logs.plain import plain
from gputui.session.client import NAMES, Client, NeedsSession, chosen
from gputui.session.control.connection import ClientError
from gputui.session.errors import ConfigError
from gputui.session.messages import Outcome, PickedJob, PickJobs, ShownJob

from .output import HOST, USAGE, Exit, out, refuse, say
from .parser import Options, Parser
from .tables import counted, told

# ---- How every verb is carried out ----


INTERRUPTED = 130


def carry_out(parser: Parser, words: list[str], work: Callable[[Options], int]) -> int:
    """The exit status: 0 all done, 1 refused or failed, 2 wrong usage."""
    try:
        status = work(parser.parse_args(words))
        sys.stdout.flush()
        return status
    except Exit as leaving:
        if str(leaving):
            say(str(leaving))
        return leaving.status
    except ClientError as error:
        say(str(error))
        return USAGE if isinstance(error, NeedsSession) else 1
    except ConfigError as error:
        say(str(error))
        return USAGE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def session(options: Options) -> Client:
    """The session that these options mean."""
    return known(chosen(options.verb, options.session))


def again(options: Options, advice: str) -> str:
    """A command to use next, for the session and the machine that were named: `gputui resume --session runs`."""
    return in_session(advice, options.session)


def again_in(root: str, advice: str) -> str:
    """A command to use next, for the session in `root`: it is named unless it is found from here anyway."""
    if advice.startswith("gputui run"):
        here = os.path.abspath(NAMES[0]) == root  # it never looks upward
    else:
        try:
            here = chosen("app") == root
        except ClientError:
            here = False
    return in_session(advice, None if here else root)


def in_session(advice: str, folder: str | None) -> str:
    """A command with the session's folder, unless that is None, and with the machine that was named."""
    if HOST:
        advice = advice.replace("gputui", f"gputui --host {shlex.quote(HOST)}", 1)
    if not folder:
        return advice
    flag = "--output-dir" if advice.startswith("gputui run") else "--session"
    return f"{advice} {flag} {shlex.quote(folder)}"


def known(root: str) -> Client:
    """A session that is there; what had to be repaired is said."""
    return Client(root, say)


def on_terminal() -> bool:
    """Whether somebody is there to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, *, otherwise: bool = False) -> bool:
    sys.stderr.write(f"{question} [{'Y/n' if otherwise else 'y/N'}] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:
        return False
    return answer.strip().lower() in (("y", "yes", "") if otherwise else ("y", "yes"))


def print_json(value: Any) -> None:
    """ASCII only, so that nothing in it can act on a terminal."""
    out(json.dumps(msgspec.to_builtins(value), indent=2 if sys.stdout.isatty() else None))


# ---- Which jobs a user's words mean, what was seen of them, and whether the user is sure ----


BY_FLAG = ("failed", "all_failed", "all", "succeeded")


def picked(client: Client, options: Options, words: Sequence[str], applies_to: Sequence[str] | None) -> list[PickedJob]:
    """The jobs meant; `applies_to`: the states of the jobs that `--all` means. None at all ends the verb."""
    ids, names = parted(words)
    flags = {key: True for key in BY_FLAG if getattr(options, key, False)}
    if not words and not flags:
        refuse(f"which jobs? Give ids, ranges (3-9), names or --all (see gputui {options.verb} --help)")
    answer = client.ask(PickJobs(ids, names, **flags))
    if answer.missing:
        raise Exit(1, f"there is no job {', '.join(answer.missing)} in {client.root}; nothing was done")
    jobs = answer.jobs
    if flags.get("all") and applies_to is not None:
        jobs = [job for job in jobs if job.state in applies_to]
    if not jobs:
        raise Exit(1, f"{_none(options.verb, flags)} in {client.root}; nothing was done")
    return jobs


def _none(verb: str, flags: Mapping[str, bool]) -> str:
    if not flags.keys() - {"failed", "all_failed"}:
        return "no job has failed"
    return "no job has succeeded" if flags.keys() == {"succeeded"} else f"{verb}: no such job"


def parted(words: Sequence[str]) -> tuple[list[tuple[int, int]], list[str]]:
    """Ids and ranges on one side, names on the other; `#3` is 3."""
    ids: list[tuple[int, int]] = []
    names: list[str] = []
    for word in words:
        ranges = [_range(piece) for piece in word.split(",") if piece]
        if ranges and None not in ranges:
            ids += [id_range for id_range in ranges if id_range is not None]
        else:
            names.append(word)
    return ids, names


def _range(written: str) -> tuple[int, int] | None:
    """None: it is no id and no range, hence a name."""
    low, dash, high = written.removeprefix("#").partition("-")
    if not _is_number(low) or (dash and not _is_number(high)):
        return None
    if dash and int(high) < int(low):
        refuse(f"{low}-{high} counts backwards; write {high}-{low}")
    return int(low), int(high or low)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10


def confirm(client: Client, options: Options, jobs: Sequence[PickedJob], doing: str) -> None:
    """More than one job: says where and how many, and asks whoever is there."""
    if len(jobs) < 2 or options.yes:
        return
    counts = told(counted(job.state for job in jobs))
    if on_terminal():
        say(f"{client.root}: {len(jobs)} jobs ({counts})")
        if not agreed(f"{doing} these {len(jobs)} jobs?"):
            raise Exit(1, "nothing was done")
    elif any(getattr(options, key, False) for key in BY_FLAG):
        refuse(f"{doing} {len(jobs)} jobs ({counts}) of {client.root}? No terminal to ask on: give -y, or name them")


def seen(job: PickedJob | ShownJob) -> Seen:
    return Seen(job.attempt, job.state)


def report(outcomes: Sequence[Outcome], jobs: Sequence[PickedJob], done: str) -> int:
    """One sentence for what was done and one for each refusal; the exit status."""
    refused = [outcome for outcome in outcomes if outcome.refused is not None]
    for outcome in refused:
        say(str(outcome.refused))
    count = len(outcomes) - len(refused)
    if count == 1:
        (job,) = (job for job, outcome in zip(jobs, outcomes, strict=True) if outcome.refused is None)
        say(f"#{job.id} {plain(job.name)}: {done}")
    elif count:
        say(f"{count} jobs: {done}")
    return 1 if refused else 0


# ---- Failures of programs that own a session, as one sentence and an exit status ----


def carry_out_owning(work: Callable[[], int]) -> int:
    """As `carry_out`, for programs that own a session: 0 all done, 1 refused or failed, 2 wrong usage."""
    from gputui.core.events import Refusal
    from gputui.process.watch import NoThread
    from gputui.session.errors import SessionError
    from gputui.sources.source import BadInput

    try:
        return work()
    except Exit as leaving:
        if str(leaving):
            say(str(leaving))
        return leaving.status
    except (BadInput, SessionError, Refusal) as error:
        say(str(error))
        return USAGE
    except (ClientError, NoThread) as error:
        say(str(error))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


# ---- A question at the terminal that one key answers, without Enter ----


TERMINAL = "/dev/tty"
LOOK_EVERY = 0.1


def ask_one_key(ask: Callable[[], None], overtaken: Callable[[], bool] = lambda: False) -> str | None:
    """The key; nothing where the terminal is gone or somebody ends us; None: the question is out of date by now.

    The question comes when the keyboard is ready, so that no answer is too early.
    """
    import select
    import termios

    try:
        with _keyboard() as keyboard:
            ask()
            while not select.select([keyboard], [], [], LOOK_EVERY)[0]:
                if overtaken():
                    return None
            return os.read(keyboard, 1).decode("latin-1").lower()
    except (KeyboardInterrupt, OSError, termios.error):
        return ""


@contextmanager
def _keyboard() -> Iterator[int]:
    """The terminal without line editing; Ctrl-C is a key here, not a signal."""
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
