"""Reading what only this user can have written, where others may write beside us."""

from __future__ import annotations

import errno
import os
import stat

OTHERS_WRITE = 0o022
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Doubtful(OSError):
    """It is there, but others could have written it; the message is the sentence the user reads."""


def open_own(path: str, above: int | None = None) -> int:
    """A descriptor of a plain file of this user that nobody else can write; Doubtful for any other.

    `above`: the descriptor of the folder that holds it, if that was looked at.
    """
    try:
        fd = os.open(path if above is None else os.path.basename(path), _READ, dir_fd=above)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Doubtful(f"{path} is a link, so it is not read") from error
        raise
    why = doubt(os.fstat(fd), path)
    if why is None:
        return fd
    os.close(fd)
    raise Doubtful(why)


def doubt(about: os.stat_result, path: str) -> str | None:
    """The sentence why a file or folder is not believed; None: it is this user's alone."""
    if about.st_uid != os.getuid():
        return f"{path} belongs to another user, so it is not read"
    if about.st_mode & OTHERS_WRITE:
        return f"others can write to {path}, so it is not read; if you trust it: chmod go-w {path}"
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        return f"{path} is neither a file nor a folder, so it is not read"
    return None
