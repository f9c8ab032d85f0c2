"""Checks of the session's directory, and of the configured hosts."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from gputui.core.amounts import GIB, memory_words
from gputui.process.directories import file_system
from gputui.session.config import load
from gputui.session.session_dir import Paths

from .machine import Finding

FULL, SOON_FULL = GIB // 10, 2 * GIB
"""Numbers of free bytes below which a disk counts as full and as nearly full."""
_PROBE = 1024**2


def directory_findings(root: str, *, exists: bool) -> list[Finding]:
    """Check the directory of a session, or the one in which it would be created.

    `exists`: the directory has been created.
    """
    findings = [_private(root)] if exists else []
    place = root if exists else os.path.dirname(root) or "/"
    findings += [_writable(place), *_locks(place), *_shared(place)]
    return [*findings, _free_space(place), *_write_test(place)]


def _private(root: str) -> Finding:
    """Check the same things as `Paths.check`, without repairing anything."""
    private = Paths(root).private
    try:
        status = os.lstat(private)
    except OSError as error:
        return Finding(False, f"cannot access {private}: {error.strerror}", f"ls -ld {private}", serious=True)
    if not stat.S_ISDIR(status.st_mode):
        return Finding(
            False, f"{private} is not a directory", "move it away or choose another --output-dir", serious=True
        )
    if status.st_uid != os.getuid():
        return Finding(False, f"{private} belongs to another user", "choose another --output-dir", serious=True)
    if status.st_mode & 0o022:
        text = f"others can write to {private}, so gputui refuses it"
        return Finding(False, text, f"chmod 700 {private}, if you trust its contents", serious=True)
    if status.st_mode & 0o055:
        return Finding(False, f"others can read {private}", f"chmod 700 {private}")
    return Finding(True, f"the session in {root} is private")


def _writable(place: str) -> Finding:
    if os.access(place, os.W_OK | os.X_OK):
        return Finding(True, f"{place} is writable")
    return Finding(False, f"{place} is not writable", "choose another directory with --output-dir", serious=True)


def _locks(place: str) -> list[Finding]:
    """Check that file locks work, using an unnamed temporary file."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"files in {place} cannot be locked: {error.strerror}"
                fix = "choose a directory on another file system with --output-dir; on NFS its lock service must run"
                return [Finding(False, text, fix, serious=True)]
    except OSError:
        pass  # reported by another check
    return []


def _shared(place: str) -> list[Finding]:
    """Check whether other users could replace the directories that jobs write to."""
    status = os.stat(place)
    if not status.st_mode & 0o022 or status.st_mode & stat.S_ISVTX:
        return []
    try:
        group = Path(place).group()
    except KeyError:
        group = str(status.st_gid)
    who = "everybody" if status.st_mode & 0o002 else f"group {group}"
    text = f"{who} can write to {place}; gputui will use only directories that it created itself"
    return [Finding(True, text, f"chmod g-w,o-w {place}, if nobody else needs it")]


def _free_space(place: str) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{memory_words(free)} free in {place} ({file_system(place) or 'unknown file system'})"
    if free >= SOON_FULL:
        return Finding(True, text)
    return Finding(False, text, f"free up space: du -xh {place} | sort -h | tail", serious=free < FULL)


def _write_test(place: str) -> list[Finding]:
    """Check that files can be written, using an unnamed temporary file.

    A write is necessary because not every quota can be queried.
    """
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except PermissionError:
        return []
    except OSError as error:
        text = f"cannot write to {place}: {error.strerror}"
        return [Finding(False, text, "free up space or ask for a larger quota (quota -s, lfs quota)", serious=True)]
    return []


# Other machines

PATIENCE = 5.0


def host_findings() -> list[Finding]:
    """Check the hosts named in the user's settings."""
    config = load()
    if not config.get("hosts")[0]:
        return []
    from gputui.hosts.ssh import BadHost, parse_hosts
    from gputui.hosts.survey import ask_all

    try:
        answers = ask_all(parse_hosts(None, config), str(config.get("ssh")[0]), PATIENCE)
    except BadHost as error:
        return [Finding(False, str(error), "see gputui config for where it is set")]
    return [
        Finding(True, f"{answer.place.alias} reachable over ssh")
        if answer.status is not None
        else Finding(False, f"{answer.place.alias}: {answer.trouble}", f"ssh {answer.place.alias} gputui --version")
        for answer in answers
    ]
