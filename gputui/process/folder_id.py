"""Which folder it is, whatever it is called now, and which one a process holds open."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from msgspec import Struct


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
