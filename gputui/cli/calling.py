"""How every verb is carried out: its words read, its session found, and every failure turned into one sentence."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from gputui.cli.output.words import USAGE, Exit, out, say
from gputui.cli.parsing.parser import Options, Parser
from gputui.session.control.client import Client, ClientError
from gputui.session.errors import ConfigError
from gputui.session.locate import NeedsSession, chosen

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
    """Another verb to use, for the session that was named: `gputui resume --session runs`."""
    return f"{advice} --session {shlex.quote(options.session)}" if options.session else advice


def known(root: str) -> Client:
    """A session that is there; what had to be mended is said."""
    client = Client(root)
    for notice in client.notices:
        say(notice)
    return client


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
