"""Real folders of this user, where others may write beside them: no link is followed, and what is not ours is refused.

Whoever may write to the folder above can put another in a name's place at any time, so what was looked at is held by
its descriptor and everything in it is reached from there.
"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import stat

from gputui.python.user_code.own_files import OTHERS_WRITE
from gputui.session.errors import NotOurs

MODE = 0o755
"""Of the folders that we make, less the umask: nobody else writes there, whatever the umask allows."""
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_TO_BE_ENTERED = (errno.ELOOP, errno.ENOTDIR, errno.EACCES)


def enter(path: str, above: int | None = None, *, foreign: bool = False) -> int:
    """The descriptor of a real folder of this user, `foreign`: of whomever. NotOurs says what to do about another.

    `above`: the descriptor of the folder that holds it, if that was looked at.
    """
    try:
        fd = os.open(_name(path, above), _ENTER, dir_fd=above)
    except OSError as error:
        if error.errno in _NOT_TO_BE_ENTERED:
            raise NotOurs(_in_the_way(path, above)) from error
        raise
    if foreign or os.fstat(fd).st_uid == os.getuid():
        return fd
    os.close(fd)
    raise NotOurs(_in_the_way(path, above))


def make(path: str, above: int | None = None, mode: int = MODE) -> bool:
    """False: there is something of that name already."""
    try:
        os.mkdir(_name(path, above), mode, dir_fd=above)
    except FileExistsError:
        return False
    return True


def keep_others_out(fd: int) -> None:
    """For a folder that we made."""
    mode = os.fstat(fd).st_mode
    if mode & OTHERS_WRITE:
        os.fchmod(fd, stat.S_IMODE(mode) & ~OTHERS_WRITE)


def _in_the_way(path: str, above: int | None) -> str:
    try:
        about = os.stat(_name(path, above), dir_fd=above, follow_symlinks=False)
    except OSError as error:
        return f"{path} cannot be used: {error.strerror}"
    what = "a link" if stat.S_ISLNK(about.st_mode) else "a folder" if stat.S_ISDIR(about.st_mode) else "no folder"
    whose = "" if about.st_uid == os.getuid() else f" of {_user(about.st_uid)}"
    word = shlex.quote(path)
    return f"{path} is {what}{whose}, and must be a real folder of yours; move it away: mv {word} {word}.old"


def _name(path: str, above: int | None) -> str:
    return path if above is None else os.path.basename(path)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
