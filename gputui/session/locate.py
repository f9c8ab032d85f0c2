"""Which session a verb means: the one named, that of the job we are in, or the nearest one upward from here."""

from __future__ import annotations

import os

from gputui.session.control.client import ClientError, NoSession

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
        raise NoSession("there is no session here; begin one with: gputui run FILE, or: gputui add -- COMMAND")
    return session


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
    """A session of this user; somebody else's is nobody's business."""
    me = os.getuid()
    try:
        return os.stat(folder).st_uid == me and os.lstat(os.path.join(folder, PRIVATE)).st_uid == me
    except OSError:
        return False


def _configured() -> str | None:
    """The folder that the settings give new sessions, when it is another one."""
    from .config import load

    folder = os.path.abspath(os.path.expanduser(str(load().get("output_dir")[0])))
    return folder if is_session(folder) else None
