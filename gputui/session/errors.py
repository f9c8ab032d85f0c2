"""Errors of sessions. Their messages are shown to the user."""

from __future__ import annotations

from gputui.core.events import Refusal


class SessionError(Exception):
    """Raised when the session cannot be used."""


class SessionBusy(SessionError):
    """Raised when another process owns the session."""


class ForeignSession(SessionError):
    """Raised when the session belongs to another machine or container, where its jobs may still be running.

    `in_cluster`: all its running jobs are in a cluster, and continue when the session is opened elsewhere.
    """

    def __init__(self, sentence: str, *, in_cluster: bool = False) -> None:
        super().__init__(sentence)
        self.in_cluster = in_cluster


class NotOurs(SessionError):
    """Raised when the directory belongs to another user or others can write to it."""


class StoreTrouble(Exception):
    """Raised when the store could not write a change. The write is retried, and no job is started until it succeeds."""


class StoreDamaged(Exception):
    """Raised when the store's file is damaged."""


class NewerStore(SessionError):
    """Raised when another version of gputui wrote the store and this one cannot read it."""


class ConfigError(SessionError):
    """Raised when a setting in a file or a variable is invalid."""


class CommitFailed(Refusal):
    """Raised when a request was not carried out because the queue cannot be written now. The request can be
    repeated.
    """
