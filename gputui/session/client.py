"""The client side of a session: find the session that a command refers to, and send requests to it.

Every command loads this module, so modules that only some commands need are imported inside functions.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from typing import TypeVar

from gputui.session.control.connection import (
    PATIENCE,
    ClientError,
    Connection,
    NoOwner,
    NoSession,
    RequestRefused,
    fresh_id,
)
from gputui.session.messages import EventPage, Events, OwnerRequest

T = TypeVar("T")
PRIVATE = ".gputui"
PRIVATE_MODE = 0o040000
"""Type and permission bits of a directory that others may not access."""
LONGEST_REQUEST = 20.0
"""Seconds after which a request that waits for an event is repeated."""
WITHOUT_OWNER = 2.0
"""Seconds between requests for events while no scheduler runs. Each request briefly takes the session's lock."""
SILENT = 5.0
"""Seconds to wait for a silent owner before a read-only request is answered without the owner."""


class Client:
    """A client of a session. It sends requests to the session's owner, or answers them from the store if there is no
    owner.
    """

    def __init__(self, root: str, tell: Callable[[str], None] | None = None) -> None:
        """Open the session in `root`. `tell` is called with messages for the user, for example that the queue was
        rebuilt. If it is None, the messages are kept for another client.
        """
        self.root = os.path.abspath(root)
        self.private = os.path.join(self.root, PRIVATE)
        self._tell = tell
        try:
            status = os.lstat(self.private)
        except (FileNotFoundError, NotADirectoryError):
            raise NoSession(no_session_in(self.root)) from None
        except OSError as error:
            raise ClientError(f"cannot read {self.root}: {error.strerror}") from None
        if status.st_uid != os.getuid():
            raise RequestRefused(describe_foreign(self.root, status.st_uid))
        if status.st_mode & 0o170077 != PRIVATE_MODE or not self.root.isprintable():
            self._check_thoroughly()

    def _check_thoroughly(self) -> None:
        from gputui.session.errors import SessionError
        from gputui.session.session_dir import Paths, refuse_unwritable_name

        paths = Paths(self.root)
        try:
            refuse_unwritable_name(self.root)
            paths.check()
        except SessionError as error:
            raise RequestRefused(str(error)) from None
        self._tell_all(paths.notices)

    def _tell_all(self, notices: list[str]) -> None:
        for notice in notices:
            if self._tell is not None:
                self._tell(notice)

    def ask(self, request: OwnerRequest[T], *, work: bool = False) -> T:
        """Send a request and return the reply. Set `work` if jobs are to run: a daemon is then started if there is no
        owner.

        Without `work`, if there is no owner, the request is answered from the store. If the store cannot be opened, a
        read-only request is answered from a copy of it in memory.
        """
        reply = self._ask_repeatedly(request, work=work)
        if self._tell is not None and os.path.exists(os.path.join(self.private, "notices")):
            from gputui.session.saved_state import take_notices

            self._tell_all(take_notices(self.private))
        return reply

    def next_events(self, cursor: str, deadline: float | None = None, *, work: bool = False) -> EventPage:
        """Wait for the events after the cursor. Return a page without events if none comes before the deadline or
        within LONGEST_REQUEST seconds.
        """
        left = LONGEST_REQUEST if deadline is None else min(LONGEST_REQUEST, max(0.0, deadline - time.monotonic()))
        page = self.ask(Events(cursor, wait=left), work=work)
        if not page.owned and not page.events:
            time.sleep(min(WITHOUT_OWNER, left))
        return page

    def _ask_repeatedly(self, request: OwnerRequest[T], *, work: bool) -> T:
        request_id, started = fresh_id(), time.monotonic()
        while True:
            try:
                return self._ask_owner(request, request_id)
            except NoOwner:
                pass
            waited = time.monotonic() - started
            if work:
                from gputui.session.ownership.daemon import start_daemon_and_wait

                start_daemon_and_wait(self.root)
            else:
                from gputui.session.ownership.acquisition import ask_store

                reply = ask_store(self.root, request, request_id, silent=waited > SILENT)
                if reply is not None:
                    return reply[0]
            if waited > PATIENCE:
                raise self._not_answering()
            time.sleep(0.01)

    def _ask_owner(self, request: OwnerRequest[T], request_id: str) -> T:
        try:
            connection = Connection(self.private)
            try:
                return connection.ask(request, request_id)
            finally:
                connection.close()
        except TimeoutError:
            raise self._not_answering() from None

    def _not_answering(self) -> ClientError:
        from gputui.session.ownership.acquisition import describe_holder

        return ClientError(describe_holder(self.root))


def no_session_in(root: str) -> str:
    return f"no session in {root}; start one with: gputui run --output-dir {shlex.quote(root)} FILE"


# Which session a command means


NAMES = ("gputui_run", "hog_run")
JOINING = ("add", "ls", "show")
"""Commands that use the job's own session when they run inside a job."""


class NeedsSession(ClientError):
    """Raised when a command that needs --session inside a job is run without it."""


def chosen(subcommand: str, named: str | None = None) -> str:
    """Return the session directory that a command refers to. Raise NoSession if there is none."""
    if named:
        return _named(named)
    joined = os.environ.get("GPUTUI_SESSION")
    if "GPUTUI_RUN" in os.environ and subcommand not in JOINING:
        here = f" (this job's is {joined})" if joined else ""
        raise NeedsSession(f"inside a job, gputui {subcommand} needs an explicit --session{here}")
    if joined:
        return _named(joined)
    session = nearest(os.getcwd(), os.path.expanduser("~")) or _configured()
    if session is not None:
        return session
    here = os.getcwd()
    for directory in (here, *(os.path.join(here, name) for name in NAMES)):
        user = session_user(directory)
        if user is not None:
            raise NoSession(describe_foreign(directory, user))
    raise NoSession("no session here; start one with: gputui run FILE, or: gputui add -- COMMAND")


def _named(directory: str) -> str:
    """Return the directory if it is a session. Otherwise return the session inside it, or the directory unchanged if
    there is none.
    """
    root = os.path.abspath(directory)
    return root if os.path.lexists(os.path.join(root, PRIVATE)) else (_session_in(root) or root)


def nearest(start: str, home: str) -> str | None:
    """Return the nearest session, searching upwards from `start` to the git root. A session in the home directory is
    found only if `start` is the home directory.
    """
    directory = os.path.realpath(start)
    ends = (os.path.realpath(home), os.sep)
    session = _session_in(directory)
    while session is None and directory not in ends:
        session = directory if is_session(directory) else _session_in(directory)
        if os.path.lexists(os.path.join(directory, ".git")):
            break
        directory = os.path.dirname(directory)
    return session


def _session_in(directory: str) -> str | None:
    paths = (os.path.join(directory, name) for name in NAMES)
    return next((path for path in paths if is_session(path)), None)


def is_session(directory: str) -> bool:
    """Return whether the directory is a session of this user."""
    me = os.getuid()
    try:
        return os.stat(directory).st_uid == me and session_user(directory) == me
    except OSError:
        return False


def session_user(directory: str) -> int | None:
    """Return the uid of the user who owns the session, or None if there is no session."""
    try:
        return os.lstat(os.path.join(directory, PRIVATE)).st_uid
    except OSError:
        return None


def describe_foreign(root: str, uid: int) -> str:
    from gputui.session.session_dir import user_name

    return f"{root} is a session of {user_name(uid)}; gputui opens only your own; start one with --output-dir DIR"


def _configured() -> str | None:
    """Return the session in the configured output directory, or None if there is none."""
    from gputui.session.config import load

    directory = os.path.abspath(os.path.expanduser(str(load().get("output_dir")[0])))
    return directory if is_session(directory) else None
