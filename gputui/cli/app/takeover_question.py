"""Another app or run has the session, as after a dead link: is it to be taken over, or only looked at?"""

from __future__ import annotations

import sys
import time
from enum import Enum, auto

from gputui.cli.output.one_key import answer
from gputui.cli.output.words import say
from gputui.core.views.amounts import duration_words, moment
from gputui.session.control.client import Client, ClientError
from gputui.session.messages.replies import OwnerShown
from gputui.session.messages.socket_requests import StatusQuestion
from gputui.session.ownership.acquisition import Owned

QUIET = 5.0
"""Seconds in which a terminal that is alive has taken something."""


class TakeoverAnswer(Enum):
    TAKE = auto()
    LOOK = auto()
    LEAVE = auto()


def asked(root: str, owned: Owned) -> TakeoverAnswer:
    def question() -> None:
        say(sentence(root, owned))
        print("[Enter] take over  [l] only look  [q] leave", file=sys.stderr, flush=True)

    return _KEYS.get(answer(question) or "", TakeoverAnswer.LEAVE)


_KEYS = {"\r": TakeoverAnswer.TAKE, "\n": TakeoverAnswer.TAKE, "l": TakeoverAnswer.LOOK}


def sentence(root: str, owned: Owned) -> str:
    """Who has it, where, since when, and whether anybody seems to be there."""
    who = _owner(root)
    where = f" on {who.terminal}" if who is not None and who.terminal else ""
    since = f" since {moment(who.since, time.time())}" if who is not None else ""
    words = f"{root} is open in gputui {owned.kind} (pid {owned.pid}){where}{since}"
    silent = who.silent_for if who is not None else None
    return (
        f"{words}; its terminal has taken nothing for {duration_words(silent)}" if silent and silent > QUIET else words
    )


def _owner(root: str) -> OwnerShown | None:
    try:
        return Client(root).ask(StatusQuestion()).owner
    except ClientError:
        return None
