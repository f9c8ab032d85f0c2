"""Checks of the session's folder, and of other machines."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import tempfile

from gputui.core.amounts import GIB, counted, memory_words
from gputui.process.directories import file_system
from gputui.session.config import load
from gputui.session.session_dir import Paths

from .machine import Finding

# ---- The folder of the session, or the one where it would be begun ----


FULL, SOON_FULL = GIB // 10, 2 * GIB
"""Bytes that are left."""
FEW_FILES = 10_000
_PROBE = 1024**2


def folder_findings(root: str, *, begun: bool) -> list[Finding]:
    """`begun`: there is a session in it."""
    findings = [_private(root)] if begun else []
    place = root if begun else os.path.dirname(root) or "/"
    findings += [_writable(place), *_locks(place), *_shared(place)]
    return [*findings, _room(place), *_files(place), *_quota(), *_written(place)]


def _private(root: str) -> Finding:
    """As `Paths.check` judges it, without mending anything."""
    private = Paths(root).private
    try:
        status = os.lstat(private)
    except OSError as error:
        return Finding(False, f"{private} cannot be looked at: {error.strerror}", f"ls -ld {private}", serious=True)
    if not stat.S_ISDIR(status.st_mode):
        return Finding(
            False, f"{private} is not a folder", "move it away, or choose another --output-dir", serious=True
        )
    if status.st_uid != os.getuid():
        return Finding(False, f"{private} belongs to another user", "choose another --output-dir", serious=True)
    if status.st_mode & 0o022:
        text = f"others can write to {private}, so gputui refuses it"
        return Finding(False, text, f"chmod 700 {private}, if you trust what is in it", serious=True)
    if status.st_mode & 0o055:
        return Finding(False, f"others can look into {private}", f"chmod 700 {private}")
    return Finding(True, f"the session in {root} is closed to others")


def _writable(place: str) -> Finding:
    if os.access(place, os.W_OK | os.X_OK):
        return Finding(True, f"{place} can be written to")
    return Finding(False, f"you cannot write to {place}", "choose another folder with --output-dir", serious=True)


def _locks(place: str) -> list[Finding]:
    """Tried on a file that has no name and leaves nothing."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"files in {place} cannot be locked: {error.strerror}"
                fix = "choose a folder on another file system with --output-dir; on NFS its lock service must run"
                return [Finding(False, text, fix, serious=True)]
    except OSError:
        pass  # said elsewhere
    return []


def _shared(place: str) -> list[Finding]:
    """A colleague could put another folder in the place of one that jobs write to; gputui holds on to its own."""
    status = os.stat(place)
    if not status.st_mode & 0o022 or status.st_mode & stat.S_ISVTX:
        return []
    who = "everybody" if status.st_mode & 0o002 else f"group {_group(status.st_gid)}"
    text = f"{who} can write to {place}: gputui keeps to the folders that it made, whoever renames them"
    return [Finding(True, text, f"chmod g-w,o-w {place}, if nobody else needs it")]


def _group(number: int) -> str:
    import grp

    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _room(place: str) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{memory_words(free)} are free in {place} ({file_system(place) or 'an unknown file system'})"
    if free >= SOON_FULL:
        return Finding(True, text)
    return Finding(False, text, f"make room: du -xh {place} | sort -h | tail", serious=free < FULL)


def _files(place: str) -> list[Finding]:
    """Some file systems do not count files, and say that there are none."""
    disk = os.statvfs(place)
    if not disk.f_files or disk.f_favail >= FEW_FILES:
        return []
    text = f"only {counted(disk.f_favail, 'more file fits', 'more files fit')} on the disk of {place}"
    return [Finding(False, text, f"find where they are: du --inodes -x {place} | sort -n | tail")]


def _quota() -> list[Finding]:
    """`quota -q` speaks only of what is over its limit."""
    program = shutil.which("quota")
    if program is None:
        return []
    try:
        said = subprocess.run(
            [program, "-q"], capture_output=True, text=True, errors="replace", timeout=5, stdin=subprocess.DEVNULL
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return []
    return [Finding(False, f"over quota: {' '.join(said.split())}", "quota -s shows where; make room")] if said else []


def _written(place: str) -> list[Finding]:
    """A quota of which nobody tells shows when something is written; the file has no name and leaves nothing."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except PermissionError:
        return []
    except OSError as error:
        text = f"nothing can be written to {place}: {error.strerror}"
        return [Finding(False, text, "make room, or ask for a larger quota (quota -s, lfs quota)", serious=True)]
    return []


# ---- The other machines that the user's settings name ----


PATIENCE = 5.0


def host_findings() -> list[Finding]:
    """Nothing where none are named."""
    config = load()
    if not config.get("hosts")[0]:
        return []
    from gputui.hosts.ssh import BadHost, listed
    from gputui.hosts.survey import ask_all

    try:
        answers = ask_all(listed(None, config), str(config.get("ssh")[0]), PATIENCE)
    except BadHost as error:
        return [Finding(False, str(error), "gputui config shows where it is written")]
    return [
        Finding(True, f"{answer.place.alias} answers over ssh")
        if answer.look is not None
        else Finding(False, f"{answer.place.alias}: {answer.trouble}", f"ssh {answer.place.alias} gputui --version")
        for answer in answers
    ]
