"""The identity of a directory, and the kind of file system it is on."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from msgspec import Struct

# ---- Which kind of file system a folder is on ----


LOCAL = frozenset(
    (
        "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "nilfs2", "ntfs3", "overlay", "ramfs",
        "reiserfs", "tmpfs", "vfat", "xfs", "zfs",
    )
)  # fmt: skip
MOUNTS = "/proc/self/mounts"


def file_system(folder: str) -> str | None:
    """Its kind by name; None: it cannot be known."""
    return _kind(os.path.realpath(folder))


def is_local(folder: str) -> bool:
    """Whether nobody can be working there on another machine; False: they can, or it cannot be known."""
    return _kind(os.path.realpath(folder)) in LOCAL


def _kind(path: str) -> str | None:
    """Of the innermost mount; of several at one place the last is seen."""
    innermost, kind = "", None
    try:
        with open(MOUNTS, errors="surrogateescape") as file:
            for line in file:
                _, place, file_system, *_ = line.split(" ")
                place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place)
                if len(place) >= len(innermost) and os.path.commonpath((place, path)) == place:
                    innermost, kind = place, file_system
    except (OSError, ValueError):
        return None
    return kind


# ---- Which folder it is, whatever it is called now, and which one a process holds open ----


class FolderId(Struct, frozen=True):
    """Names a folder within one boot, as long as somebody holds it open or it is not deleted."""

    device: int
    inode: int

    @classmethod
    def of(cls, folder: int | str) -> FolderId:
        about = os.stat(folder)
        return cls(about.st_dev, about.st_ino)

    @classmethod
    def parse(cls, text: str) -> FolderId:
        device, _, inode = text.partition(":")
        return cls(int(device), int(inode))

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}"


def lives_elsewhere(wrapper: int, folder: FolderId) -> bool:
    """Whether a wrapper holds another session's folder; those of gputui 0.1.0 hold none and count as ours."""
    held = folders_held(wrapper)
    return bool(held) and folder not in held


def folders_held(pid: int) -> set[FolderId]:
    """The folders that a process has open; empty also if we cannot see. A shell keeps them under numbers of its own."""
    held = set()
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                about = os.stat(f"/proc/{pid}/fd/{number}")
                if stat.S_ISDIR(about.st_mode):
                    held.add(FolderId(about.st_dev, about.st_ino))
    return held
