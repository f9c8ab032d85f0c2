"""Command lists: text with one command per line, from a file or arriving piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from .settings import NO_SETTINGS, JobSettings, settings_in
from .source import BadInput, Draft, missing, shown
from .values import BadValue

__all__ = ["LONGEST_COMMAND", "CommandLines", "parse_command_list", "read_command_list", "unreadable"]

LARGEST = 64 << 20
"""Bytes of a file that is read at once."""
LONGEST_COMMAND = 128 * 1024 - 1024
"""Bytes. The kernel takes 128 KiB for one argument; the rest is left to whatever wraps the command."""

_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_command_list(path: str) -> list[Draft]:
    """All commands of a file; BadInput if any line of it is bad."""
    lines = CommandLines(path)
    drafts: list[Draft] = []
    try:
        with open(path, "rb", buffering=0) as file:
            # In pieces, so that a checkpoint given by mistake is refused at its first bad byte.
            while chunk := file.read(_CHUNK):
                drafts += lines.feed(chunk)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return _some(drafts + lines.finish(), path)


def parse_command_list(data: bytes, origin: str) -> list[Draft]:
    """All commands in `data`; `origin` is what messages call it."""
    lines = CommandLines(origin)
    drafts = list(lines.feed(data))
    return _some(drafts + lines.finish(), origin)


def _some(drafts: list[Draft], origin: str) -> list[Draft]:
    if not drafts:
        raise BadInput(f"{shown(origin)} holds no commands; write one per line")
    return drafts


def unreadable(path: str, error: Exception) -> BadInput:
    if isinstance(error, FileNotFoundError):
        return missing(path)
    if isinstance(error, IsADirectoryError):
        return BadInput(f"{shown(path)} is a directory; give a file")
    if isinstance(error, PermissionError):
        return BadInput(f"{shown(path)} may not be read by you; check its permissions")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInput(f"{shown(path)} cannot be read: {reason}; check its name")


def read_whole(path: str, meant: str) -> bytes:
    """All of a file that is read at once; BadInput if it is too large to be `meant`."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(data) > LARGEST:
        raise BadInput(f"{shown(path)} is larger than {LARGEST >> 20} MB; is it {meant}?")
    return data


class CommandLines:
    """Takes bytes as they come and gives the commands of complete lines; after bad input it gives no more."""

    def __init__(self, origin: str, after_line: int = 0) -> None:
        self._origin = origin
        self._complete: deque[bytes] = deque()
        self._rest = b""
        self._line = after_line
        self._pieces: list[str] = []
        """Lines so far of a command that goes on with the next line."""
        self._piece_bytes = 0
        self._settings: dict[str, Any] = {}
        """From `#:` lines, for the next command."""
        self._settings_line = 0
        self._refused: BadInput | None = None

    @property
    def between_commands(self) -> bool:
        """Nothing of a command has come that has not been given."""
        return not (self._complete or self._rest or self._pieces or self._settings)

    def feed(self, data: bytes) -> Iterator[Draft]:
        """The commands that `data` completed, one by one: those before a bad line come before its BadInput."""
        *complete, self._rest = (self._rest + data).split(b"\n")
        self._complete.extend(complete)
        return self._drafts()

    def finish(self) -> list[Draft]:
        """At the end of input: the command on a last line without newline, if there is one."""
        drafts = list(self._drafts())
        if self._rest:
            last, self._rest = self._rest, b""
            self._complete.append(last)
            drafts += self._drafts()
        self._check_nothing_dangles()
        return drafts

    def _drafts(self) -> Iterator[Draft]:
        if self._refused:
            raise self._refused
        try:
            while self._complete:
                draft = self._take(self._complete.popleft())
                if draft:
                    yield draft
            self._check_length(self._rest, self._line + 1)
        except BadInput as refused:
            self._refused = refused
            raise

    def _take(self, raw: bytes) -> Draft | None:
        self._line += 1
        self._check_length(raw, self._line)
        text = self._decoded(raw).rstrip("\r")
        if not self._pieces and text.lstrip().startswith("#"):
            self._comment(text.strip())
            return None
        self._pieces.append(text)
        self._piece_bytes += len(raw)
        if self._goes_on(text):
            self._pieces[-1] = text[:-1]
            return None
        return self._command()

    def _command(self) -> Draft | None:
        first_line = self._line - len(self._pieces) + 1
        command = "".join(self._pieces).strip()
        self._pieces.clear()
        self._piece_bytes = 0
        if not command or command.startswith("#"):
            return None
        if command.endswith(";;"):
            raise self._bad("ends in ;; as a GPUPeasy batch does; name it .esy, or give --format peasy")
        settings = JobSettings(**self._settings) if self._settings else NO_SETTINGS
        self._settings = {}
        return Draft(command, first_line, settings)

    def _comment(self, text: str) -> None:
        if not text.startswith("#:"):
            return
        try:
            settings = settings_in(text[2:])
        except BadValue as bad:
            raise self._bad(str(bad)) from None
        twice = sorted(settings.keys() & self._settings.keys())
        if twice:
            raise self._bad(f"{twice[0]} is given twice for the same command; keep one")
        if settings:
            self._settings |= settings
            self._settings_line = self._line

    def _goes_on(self, text: str) -> bool:
        if "\\" not in text:
            return False
        bare = text.rstrip()
        if (len(bare) - len(bare.rstrip("\\"))) % 2 == 0:
            return False
        if bare != text:
            raise self._bad("a blank follows the backslash at its end; remove the blank to continue the line")
        return True

    def _decoded(self, raw: bytes) -> str:
        if self._line == 1:
            raw = raw.removeprefix(_BOM)
            if raw.startswith(_UTF16_BOMS):
                raise self._bad("the file is UTF-16; save it as UTF-8")
        if b"\0" in raw:
            raise self._bad("holds a NUL byte; remove it")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            reason = f"byte 0x{byte:02x} at offset {error.start} of the line is not UTF-8"
            raise self._bad(f"{reason}; save the file as UTF-8") from None

    def _check_length(self, raw: bytes, line: int) -> None:
        if self._piece_bytes + len(raw) > LONGEST_COMMAND:
            reason = f"is longer than the {LONGEST_COMMAND} bytes a command may have"
            raise BadInput.at(self._origin, line, f"{reason}; put it in a script and call that")

    def _check_nothing_dangles(self) -> None:
        if self._pieces:
            raise self._bad("ends in a backslash, but no line follows; remove the backslash")
        if self._settings:
            reason = "these settings are for the next command, but there is none; add it or remove them"
            raise BadInput.at(self._origin, self._settings_line, reason)

    def _bad(self, reason: str) -> BadInput:
        return BadInput.at(self._origin, self._line, reason)
