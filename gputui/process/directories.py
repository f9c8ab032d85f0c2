"""Directories: their file system and identity, and atomic writes."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from msgspec import Struct

LOCAL = frozenset(
    (
        "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "ntfs3", "overlay", "ramfs",
        "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
    )
)  # fmt: skip
MOUNTS = "/proc/self/mounts"


def file_system(directory: str) -> str | None:
    """Return the type of the file system that contains a directory, such as `ext4`, or None if it is unknown."""
    path = os.path.realpath(directory)
    innermost, kind = "", None
    try:
        with open(MOUNTS, errors="surrogateescape") as file:
            for line in file:
                _, place, kind_there, *_ = line.split(" ")
                place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place)
                if len(place) >= len(innermost) and os.path.commonpath((place, path)) == place:
                    innermost, kind = place, kind_there  # of several mounts at one place, the last counts
    except (OSError, ValueError):
        return None
    return kind


def is_local(directory: str) -> bool:
    """Return whether the directory is certainly not shared with other machines."""
    return file_system(directory) in LOCAL


class DirectoryId(Struct, frozen=True):
    """The identity of a directory, whatever its name, valid within one boot while the directory exists or is open."""

    device: int
    inode: int

    @classmethod
    def of(cls, directory: int | str) -> DirectoryId:
        about = os.stat(directory)
        return cls(about.st_dev, about.st_ino)

    @classmethod
    def parse(cls, text: str) -> DirectoryId:
        device, _, inode = text.partition(":")
        return cls(int(device), int(inode))

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}"


def lives_elsewhere(wrapper: int, directory: DirectoryId) -> bool:
    """Return whether a wrapper certainly belongs to another session: it has directories open, but not this one."""
    held = directories_held(wrapper)
    return bool(held) and directory not in held


def directories_held(pid: int) -> set[DirectoryId]:
    """Return the directories that a process has open, as far as we are permitted to see them."""
    held = set()
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                about = os.stat(f"/proc/{pid}/fd/{number}")
                if stat.S_ISDIR(about.st_mode):
                    held.add(DirectoryId(about.st_dev, about.st_ino))
    return held


def atomic_write(path: str, data: bytes, *, durable: bool = False) -> None:
    """Replace a file in one step, readable only by its owner. With `durable`, also flush it to the disk."""
    fresh = f"{path}.{os.getpid()}"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(fd)
        os.replace(fresh, path)
        if durable:
            directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise
