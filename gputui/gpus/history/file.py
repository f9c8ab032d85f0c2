"""The history on disk, so that the next owner goes on with it: one small file, replaced as a whole. Never trusted."""

from __future__ import annotations

import os
import zlib
from contextlib import suppress

import msgspec

from .tracks import EMPTY, LEVELS, DeviceHistories, Track

LARGEST = 8 << 20
"""Bytes; what is larger was not written by us."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DeviceHistories).decode


def read_history(path: str) -> DeviceHistories:
    """Empty where there is none, or none that can be read: it is worth a picture, not a message."""
    try:
        with open(path, "rb") as file:
            packed = file.read(LARGEST)
        unpacker = zlib.decompressobj()
        history = _decode(unpacker.decompress(packed, LARGEST))
    except (OSError, zlib.error, msgspec.MsgspecError):
        return EMPTY
    return DeviceHistories({key: tracks for key, tracks in history.tracks.items() if _is_whole(tracks)}, history.warned)


def _is_whole(tracks: tuple[Track, ...]) -> bool:
    if len(tracks) != len(LEVELS):
        return False
    for level, track in zip(LEVELS, tracks, strict=True):
        lengths = {len(figure) for figure in track.figures}
        if len(lengths) != 1 or max(lengths) > level.slots:
            return False
    return True


def write_history(path: str, history: DeviceHistories) -> None:
    """OSError: it was not written, and the one before stays."""
    fresh = f"{path}.new"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(zlib.compress(_encode(history), 1))
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            os.unlink(fresh)
        raise
