"""Command lists: text with one command per line, from a file or a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .settings import NO_SETTINGS, JobSettings, settings_in
from .source import BadInput, Draft, missing, shown
from .values import BadValue

LARGEST = 64 << 20
"""Maximum size in bytes of a file that is read as a whole."""
LONGEST_COMMAND = 128 * 1024 - 1024
"""Maximum length of a command in bytes.

The kernel's limit for one argument is 128 KiB, and wrappers need some of it.
"""

_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_command_list(path: str) -> list[Draft]:
    """Return all commands in a file. Raise BadInput if a line is invalid."""
    lines = CommandLines(path)
    drafts: list[Draft] = []
    try:
        with open(path, "rb", buffering=0) as file:
            # In chunks, so that a checkpoint given by mistake is rejected at its first invalid byte.
            while chunk := file.read(_CHUNK):
                drafts += lines.feed(chunk)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return _not_empty(drafts + lines.finish(), path)


def parse_command_list(data: bytes, origin: str) -> list[Draft]:
    """Return all commands in `data`.

    `origin`: the name of the data in messages.
    """
    lines = CommandLines(origin)
    drafts = list(lines.feed(data))
    return _not_empty(drafts + lines.finish(), origin)


def _not_empty(drafts: list[Draft], origin: str) -> list[Draft]:
    if not drafts:
        raise BadInput(f"no commands in {shown(origin)}; write one per line")
    return drafts


def unreadable(path: str, error: Exception) -> BadInput:
    if isinstance(error, FileNotFoundError):
        return missing(path)
    if isinstance(error, IsADirectoryError):
        return BadInput(f"{shown(path)} is a directory; use a file")
    if isinstance(error, PermissionError):
        return BadInput(f"no permission to read {shown(path)}")
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInput(f"cannot read {shown(path)}: {reason}")


def read_whole(path: str, meant: str) -> bytes:
    """Read a whole file. Raise BadInput if it is too large to be the kind of file named by `meant`."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(data) > LARGEST:
        raise BadInput(f"{shown(path)} is larger than {LARGEST >> 20} MB; is it {meant}?")
    return data


def decoded(data: bytes, origin: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BadInput.at(origin, line, reason) from None


class CommandLines:
    """An incremental parser, which returns a command when its last line is complete."""

    def __init__(self, origin: str, after_line: int = 0) -> None:
        self._origin = origin
        self._rest = b""
        self._line = after_line
        self._pieces: list[str] = []
        """The lines read so far of a command that continues on the next line."""
        self._piece_bytes = 0
        self._settings: dict[str, Any] = {}
        """Settings from `#:` lines, which apply to the next command."""
        self._settings_line = 0

    @property
    def between_commands(self) -> bool:
        """Whether the input read so far ends between two commands, with nothing left to complete."""
        return not (self._rest or self._pieces or self._settings)

    def feed(self, data: bytes) -> Iterator[Draft]:
        """Yield the commands completed by `data`.

        The commands before an invalid line are yielded before BadInput is raised.
        """
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            if draft := self.parse(line):
                yield draft
        self._check_length(self._rest, self._line + 1)

    def finish(self) -> list[Draft]:
        """End the input and return the command on a last line without a newline, if there is one."""
        last, self._rest = self._rest, b""
        draft = self.parse(last) if last else None
        if self._pieces:
            raise self._bad("ends in a backslash, but no line follows; remove the backslash")
        if self._settings:
            reason = "settings without a following command; add one or remove them"
            raise BadInput.at(self._origin, self._settings_line, reason)
        return [draft] if draft else []

    def parse(self, raw: bytes) -> Draft | None:
        """Parse one line, without its newline. Return the command that it completes, if any."""
        self._line += 1
        self._check_length(raw, self._line)
        text = self._decoded(raw).rstrip("\r")
        if not self._pieces and text.lstrip().startswith("#"):
            self._parse_comment(text.strip())
            return None
        self._pieces.append(text)
        self._piece_bytes += len(raw)
        if self._is_continued(text):
            self._pieces[-1] = text[:-1]
            return None
        command = "".join(self._pieces).strip()
        self._pieces.clear()
        self._piece_bytes = 0
        if not command or command.startswith("#"):
            return None
        if command.endswith(";;"):
            raise self._bad("ends in ;; like a GPUPeasy batch; name it .esy or use --format peasy")
        settings = JobSettings(**self._settings) if self._settings else NO_SETTINGS
        self._settings = {}
        return Draft(command, settings)

    def _parse_comment(self, text: str) -> None:
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

    def _is_continued(self, text: str) -> bool:
        if "\\" not in text:
            return False
        bare = text.rstrip()
        if (len(bare) - len(bare.rstrip("\\"))) % 2 == 0:
            return False
        if bare != text:
            raise self._bad("trailing space after the backslash; remove it to continue the line")
        return True

    def _decoded(self, raw: bytes) -> str:
        if self._line == 1:
            raw = raw.removeprefix(_BOM)
            if raw.startswith(_UTF16_BOMS):
                raise self._bad("the file is UTF-16; save it as UTF-8")
        if b"\0" in raw:
            raise self._bad("contains a NUL byte; remove it")
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            reason = f"byte 0x{byte:02x} at offset {error.start} of the line is not UTF-8"
            raise self._bad(f"{reason}; save the file as UTF-8") from None

    def _check_length(self, raw: bytes, line: int) -> None:
        if self._piece_bytes + len(raw) > LONGEST_COMMAND:
            reason = f"is longer than the limit of {LONGEST_COMMAND} bytes"
            raise BadInput.at(self._origin, line, f"{reason}; put it in a script and call that")

    def _bad(self, reason: str) -> BadInput:
        return BadInput.at(self._origin, self._line, reason)
