"""Machines in trouble: small file systems, few processes, no threads, late wrappers, shifted clocks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gputui.engines.local import spawn as wrapper
from gputui.engines.protocol import Launch

# ---- Small file systems for tests, where this machine lets us mount them ----


@contextmanager
def tmpfs(directory: Path, size: str) -> Iterator[Path]:
    """A file system of its own at `directory`; skips the test where it cannot be mounted."""
    directory.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory))
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def ext4(directory: Path, size: str) -> Iterator[Path]:
    """The same with a journal and blocks, as users' disks have them: an image of its own, mounted at `directory`."""
    image = directory.with_suffix(".img")
    try:
        subprocess.run(["truncate", "--size", size, str(image)], check=True)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no ext4 can be made here: {error}")
    directory.mkdir()
    _mount("-o", "loop", str(image), str(directory))
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """The directory cannot be written, not even by root."""
    _mount("--bind", str(directory), str(directory))
    try:
        _mount("-o", "remount,bind,ro", str(directory))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def _mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@contextmanager
def full(directory: Path) -> Iterator[None]:
    """The directory's file system has no byte left, and what is freed is taken at once."""
    ballast, over = directory / "ballast", threading.Event()
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


# ---- A machine that gives no further threads, for tests in this process ----


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch, but: tuple[str, ...] = ()) -> Iterator[None]:
    """Nobody gets one but those of these names; who has one keeps it."""
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name in but:
            start(self)
        else:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        yield


# ---- Wrappers that come late to their claim ----


_BEGIN = """
import os, sys, time
claim = sys.argv[1]
{wait}
os.execv(sys.argv[2], sys.argv[2:])
"""
UNTIL_CLAIMED = "while not os.path.exists(claim): time.sleep(0.01)"


def late(wait: str) -> Callable[[Launch, str], list[str]]:
    """Stands in for `wrapper.arguments`; `wait` is Python. It has no child before the claim, as no wrapper has."""
    arguments = wrapper.arguments

    def delayed(launch: Launch, claim: str) -> list[str]:
        return [sys.executable, "-ISc", _BEGIN.format(wait=wait), claim, *arguments(launch, claim)]

    return delayed


# ---- Pythons that lack what this one has, for every process that is started with their PYTHONPATH ----


CONDA = """
import os, signal

def posix_spawn(*arguments, setsid=False, _real=os.posix_spawn, **options):
    if setsid:
        raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
    return _real(*arguments, **options)

os.posix_spawn = posix_spawn
del os.pidfd_open, signal.pidfd_send_signal
"""
"""Built against an old C library, as conda's and older standalone ones are."""


def python_path(directory: Path, lacks: str) -> str:
    """To be set as PYTHONPATH."""
    place = directory / "poor python"
    place.mkdir()
    (place / "sitecustomize.py").write_text(lacks)
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH"))))
