"""Which kind of file system a folder is on: one that only this machine can have mounted, or one that others share."""

from __future__ import annotations

import os
import re

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
