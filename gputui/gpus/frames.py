"""Samples on a pipe: a length, then the sample. Owns the wire format between a sampler process and its owner."""

from __future__ import annotations

import msgspec

from .sample import Sample

_LENGTH = 4
_LARGEST = 64 * 1024 * 1024

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Sample)


class GarbledStream(Exception):
    """What came through the pipe is no sample: the sender cannot be trusted any more."""


def encode(sample: Sample) -> bytes:
    body = _encoder.encode(sample)
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameReader:
    """Puts the bytes of a pipe together again."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Sample | None:
        """The newest complete sample in what has come, if there is one; older ones are skipped unread."""
        self._buffer += data
        newest: bytes | None = None
        while (body := self._next_body()) is not None:
            newest = body
        return _decode(newest) if newest is not None else None

    def _next_body(self) -> bytes | None:
        if len(self._buffer) < _LENGTH:
            return None
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
        if end > _LARGEST:
            raise GarbledStream(f"a frame of {end} bytes")
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH:end])
        del self._buffer[:end]
        return body


def _decode(body: bytes) -> Sample:
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise GarbledStream(str(error)) from error
