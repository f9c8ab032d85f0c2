"""Small file systems for tests, where this machine lets us mount them."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from .waiting import until

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSHING = 2


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own at `folder`; skips the test where it cannot be mounted."""
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def ext4(folder: Path, size: str) -> Iterator[Path]:
    """The same with a journal and blocks, as users' disks have them: an image of its own, mounted at `folder`."""
    image = folder.with_suffix(".img")
    try:
        subprocess.run(["truncate", "--size", size, str(image)], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no ext4 can be made here: {error}")
    folder.mkdir()
    _mount("-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder cannot be written, not even by root."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """The folder's file system has no byte left, and what is freed is taken at once."""
    ballast, over = folder / "ballast", threading.Event()
    taker = threading.Thread(target=_keep_full, args=(ballast, over))
    _fill(ballast)
    taker.start()
    try:
        yield
    finally:
        over.set()
        taker.join()
        ballast.unlink()


def _keep_full(ballast: Path, over: threading.Event) -> None:
    while not over.wait(0.001):
        _fill(ballast)


def _fill(ballast: Path) -> None:
    with open(ballast, "ab", buffering=0) as file:
        for block in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * block) == block:
                    pass


class LoopDisk:
    """An ext4 file system in a file, from which the power can be taken."""

    def __init__(self, folder: Path, size: str = "64M") -> None:
        """Skips the test where it cannot be made."""
        self.folder = folder
        self._image = folder.with_suffix(".image")
        folder.mkdir()
        with open(self._image, "wb") as file:
            subprocess.run(["truncate", "--size", size, file.name], check=True)
        try:
            subprocess.run(["mkfs.ext4", "-q", str(self._image)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no ext4 can be made here: {error}")
        self.mount()

    def mount(self) -> None:
        _mount("-o", "loop", str(self._image), str(self.folder))

    def cut_power(self) -> None:
        """What has not reached the disk never will. Everybody who has a file open there must end before `mount`."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING))
        finally:
            os.close(fd)

    def unmount(self) -> None:
        until(lambda: not subprocess.run(["umount", str(self.folder)], capture_output=True).returncode, "it is free")
