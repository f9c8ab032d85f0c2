"""Why a session cannot be opened or worked with; each message is the sentence the user reads."""

from __future__ import annotations

from gputui.core.events import Refusal


class SessionError(Exception):
    """The session cannot be used as asked."""


class SessionBusy(SessionError):
    """Another process owns it."""


class ForeignSession(SessionError):
    """It lives on another machine or in another container, where its jobs may be running.

    `in_cluster`: what is under way runs in a cluster, and goes on when it is opened elsewhere.
    """

    def __init__(self, sentence: str, *, in_cluster: bool = False) -> None:
        super().__init__(sentence)
        self.in_cluster = in_cluster


class NotOurs(SessionError):
    """Its folder belongs to somebody else, or others could write to it."""


class StoreTrouble(Exception):
    """The store could not take a change now; it is offered again later and nothing is started meanwhile."""


class StoreDamaged(Exception):
    """The store's file is not what was written to it."""


class NewerStore(SessionError):
    """Written by a newer gputui, which this one must not touch."""


class ConfigError(SessionError):
    """A setting in a file or a variable means nothing."""


class CommitFailed(Refusal):
    """The queue cannot be written now, so nothing came of the request; it can be made again later."""
