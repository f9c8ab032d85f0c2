"""A session as commands and programs see it: which one is meant, and asking whoever can answer."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from typing import TypeVar

from gputui.session.control.connection import PATIENCE, ClientError, Connection, NoOwner, NoSession, fresh_id
from gputui.session.messages import OwnerRequest

T = TypeVar("T")
SILENT = 5.0
"""Seconds after which whoever only looks does not wait for a silent owner any more."""
PRIVATE_FOLDER = 0o040000
"""The mode of a folder without any right for others."""


class Client:
    """A session as verbs see it. `ask` finds whoever can answer."""

    def __init__(self, root: str, tell: Callable[[str], None] | None = None) -> None:
        """`tell` gets what the user must know, such as that the queue was rebuilt; None: somebody else tells it."""
        self.root = os.path.abspath(root)
        self.private = os.path.join(self.root, ".gputui")
        self._tell = tell
        self._check()

    def _check(self) -> None:
        try:
            status = os.lstat(self.private)
        except (FileNotFoundError, NotADirectoryError):
            raise NoSession(no_session_in(self.root)) from None
        except OSError as error:
            raise ClientError(f"cannot look into {self.root}: {error.strerror}") from None
        if status.st_uid != os.getuid():
            raise ClientError(foreign_sentence(self.root, status.st_uid))
        if status.st_mode & 0o170077 != PRIVATE_FOLDER or not self.root.isprintable():
            self._mend()

    def _mend(self) -> None:
        """Its folder is not quite as it was made, or has an odd name."""
        from gputui.session.errors import SessionError
        from gputui.session.session_dir import Paths, refuse_unwritable_name

        paths = Paths(self.root)
        try:
            refuse_unwritable_name(self.root)
            paths.check()
        except SessionError as error:
            raise ClientError(str(error)) from None
        self._tell_all(paths.notices)

    def ask(self, request: OwnerRequest[T], *, work: bool = False) -> T:
        """Asks the owner; `work`: an engine is needed, so a keeper is started where there is no owner.

        Without an owner the answer comes from the store; where that cannot be opened, and the request only looks, from
        a copy of it in memory.
        """
        answer = self._answer(request, work=work)
        if self._tell is not None and os.path.exists(os.path.join(self.private, "notices")):
            from gputui.session.saved_state import take_notices

            self._tell_all(take_notices(self.private))
        return answer

    def _tell_all(self, notices: list[str]) -> None:
        for notice in notices:
            if self._tell is not None:
                self._tell(notice)

    def _answer(self, request: OwnerRequest[T], *, work: bool) -> T:
        request_id = fresh_id()
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._ask_owner(request, request_id)
            except NoOwner:
                pass
            if work:
                self._start_keeper()
            else:
                answer = self._ask_store(request, request_id, silent=time.monotonic() > deadline - PATIENCE + SILENT)
                if answer is not None:
                    return answer[0]
            if time.monotonic() > deadline:
                raise ClientError(self._who_holds_it())
            time.sleep(0.01)

    def _ask_owner(self, request: OwnerRequest[T], request_id: str) -> T:
        try:
            connection = Connection(self.private)
            try:
                return connection.ask(request, request_id)
            finally:
                connection.close()
        except TimeoutError:
            raise ClientError(self._who_holds_it()) from None

    def _ask_store(self, request: OwnerRequest[T], request_id: str, *, silent: bool) -> list[T] | None:
        """Takes the lock, recovers and answers from the store; None: somebody else is just taking it.

        `silent`: whoever holds it does not answer, so who only looks need not wait longer.
        """
        from gputui.session.ownership.acquisition import ask_store

        return ask_store(self.root, request, request_id, silent=silent)

    def _start_keeper(self) -> None:
        from gputui.session.ownership.keeper import start_keeper_and_wait

        start_keeper_and_wait(self.root)

    def _who_holds_it(self) -> str:
        from gputui.session.ownership.acquisition import holder_sentence

        return holder_sentence(self.root)


def no_session_in(root: str) -> str:
    return f"there is no session in {root}; begin one with: gputui run --output-dir {shlex.quote(root)} FILE"


# ---- Which session a verb means ----


NAMES = ("gputui_run", "hog_run")
PRIVATE = ".gputui"
JOINING = ("add", "ls", "show")
"""The verbs that join the session of the job they are called in."""


class NeedsSession(ClientError):
    """Inside a job this verb must be told which session it means."""


def chosen(verb: str, named: str | None = None) -> str:
    """The session's folder; NoSession says how to begin one."""
    if named:
        return _named(named)
    joined = os.environ.get("GPUTUI_SESSION")
    if "GPUTUI_RUN" in os.environ and verb not in JOINING:
        here = f" (this job's is {joined})" if joined else ""
        raise NeedsSession(f"inside a job, gputui {verb} acts only on the session named by --session{here}")
    if joined:
        return _named(joined)
    session = nearest(os.getcwd(), os.path.expanduser("~")) or _configured()
    if session is None:
        raise NoSession(_foreign_here() or NOTHING_HERE)
    return session


NOTHING_HERE = "there is no session here; begin one with: gputui run FILE, or: gputui add -- COMMAND"


def _foreign_here() -> str | None:
    """Somebody else's session, where one of ours would have been found."""
    here = os.getcwd()
    for folder in (here, *(os.path.join(here, name) for name in NAMES)):
        user = session_user(folder)
        if user is not None:
            return foreign_sentence(folder, user)
    return None


def _named(folder: str) -> str:
    """The session's folder, or the folder it is in."""
    root = os.path.abspath(folder)
    return root if os.path.lexists(os.path.join(root, PRIVATE)) else (_in(root, NAMES) or root)


def nearest(start: str, home: str) -> str | None:
    """Upward to the git root. A session in the home folder is meant only by whoever stands right there."""
    folder = os.path.realpath(start)
    ends = (os.path.realpath(home), os.sep)
    session = _in(folder, NAMES)
    while session is None and folder not in ends:
        session = folder if is_session(folder) else _in(folder, NAMES)
        if os.path.lexists(os.path.join(folder, ".git")):
            break
        folder = os.path.dirname(folder)
    return session


def _in(folder: str, names: tuple[str, ...]) -> str | None:
    paths = (os.path.join(folder, name) for name in names)
    return next((path for path in paths if is_session(path)), None)


def is_session(folder: str) -> bool:
    """A session of this user."""
    me = os.getuid()
    try:
        return os.stat(folder).st_uid == me and session_user(folder) == me
    except OSError:
        return False


def session_user(folder: str) -> int | None:
    """The uid of the user whose session is in the folder; None: there is none."""
    try:
        return os.lstat(os.path.join(folder, PRIVATE)).st_uid
    except OSError:
        return None


def foreign_sentence(root: str, uid: int) -> str:
    from gputui.session.session_dir import user_name

    return f"{root} is a session of {user_name(uid)}; gputui opens only your own: begin one with --output-dir"


def _configured() -> str | None:
    """The folder that the settings give new sessions, when it is another one."""
    from gputui.session.config import load

    folder = os.path.abspath(os.path.expanduser(str(load().get("output_dir")[0])))
    return folder if is_session(folder) else None
