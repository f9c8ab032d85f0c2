"""One thing that can be said of a job: how it is written and read, what it is for, and where it may stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gputui.sources import values

Scalar = str | int | float | bool


def written(value: Scalar) -> str:
    """A value of a file as words have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Setting(Struct, frozen=True, kw_only=True):
    """A row of the table `settings.JobSettings`."""

    help: str
    metavar: str = ""
    """What stands for its value behind a flag; empty: yes or no."""
    read: Callable[[str], Any] = values.text
    """Its value from words: in a `#:` line, behind a flag, in a form."""
    in_file: Any = str
    """What it may be in spec files, mappings and Python."""
    from_file: Callable[[Any], Any] | None = None
    """Its value from that; None: as if it had been written as words."""
    write: Callable[[Any], str] = str
    """Words that are read as just this value."""
    key: str = ""
    """How users call it, if not by its field's name."""
    also: tuple[str, ...] = ()
    """What else they may call it."""
    label: str = ""
    hint: str | None = None
    """In a form; None: forms do not ask for it."""
    in_config: bool = False
    """`gputui.toml` may say it for all jobs."""
    field: str = ""

    def of(self, value: Any) -> Any:
        """From a value that fits `in_file`; BadValue says why it cannot be."""
        return self.read(written(value)) if self.from_file is None else self.from_file(value)
