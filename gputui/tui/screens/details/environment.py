"""The environment of a job as text, and in what two environments differ; what looks like a secret is not shown."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from gputui.logs.plain import plain

__all__ = ["differences", "environment_text"]

SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")
MASK = "••••••"


def environment_text(environment: Mapping[str, str]) -> Text:
    text = Text()
    text.append("The environment its next attempt gets; what looks secret is masked.\n\n", "dim")
    for name in sorted(environment):
        text.append(plain(name), "bold").append(f"={_shown(name, environment[name])}\n")
    return text


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """`+NAME=value`, `-NAME`, `NAME=value` for one that was another."""
    changes = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sign = "+" if name not in before else "-" if name not in after else ""
            changes.append(f"{sign}{plain(name)}" + (f"={_shown(name, after[name])}" if name in after else ""))
    return changes


def _shown(name: str, value: str) -> str:
    return MASK if any(word in name.upper() for word in SECRET) else plain(value)
