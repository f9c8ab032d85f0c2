"""A configuration file as the reader describes it to gputui."""

from __future__ import annotations

from typing import Any

from .reader import Read


def described(read: Read, order: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError
