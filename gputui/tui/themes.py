"""The screen's looks: dark and light of our own, and the terminal's own sixteen colours."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="gputui-dark",
    primary="#4f8fd9",
    secondary="#7aa2c8",
    accent="#c792ea",
    foreground="#d6dbe1",
    background="#12161b",
    surface="#1b2128",
    panel="#232b34",
    success="#7fbf7f",
    warning="#d9b35f",
    error="#e06c75",
    dark=True,
)
LIGHT = Theme(
    name="gputui-light",
    primary="#1f5fae",
    secondary="#49729c",
    accent="#7b3fa0",
    foreground="#1d2329",
    background="#fbfbfa",
    surface="#f0f1f2",
    panel="#e4e7ea",
    success="#2c7a39",
    warning="#8a6100",
    error="#b3261e",
    dark=False,
)
OWN = (DARK, LIGHT)
NAMES = {"dark": DARK.name, "light": LIGHT.name, "ansi": "ansi-dark", "ansi-light": "ansi-light"}
"""What the user writes, and what Textual calls it."""
