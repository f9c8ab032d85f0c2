"""Which commit a job's folder was at, and what was changed in it: asked of git, seldom and off the critical path."""

from __future__ import annotations

import os
import time

PATIENCE = 10.0
"""Seconds for which an answer about a repository holds."""
MOST_FILES = 50


class GitNotes:
    """Remembers answers, so that a thousand quick jobs of one repository ask once in a while."""

    def __init__(self) -> None:
        self._tops: dict[str, str | None] = {}
        self._answers: dict[str, tuple[float, str]] = {}

    def of(self, folder: str) -> str:
        """Lines for INFO; empty where there is no repository."""
        if folder not in self._tops:
            self._tops[folder] = _top(folder)
        top = self._tops[folder]
        if top is None:
            return ""
        asked_at, answer = self._answers.get(top, (0.0, ""))
        if time.monotonic() - asked_at > PATIENCE or not answer:
            answer = _ask(top)
            self._answers[top] = (time.monotonic(), answer)
        return answer


def _top(folder: str) -> str | None:
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, last = os.path.split(folder)
        if not last:
            return None
    return folder


def _ask(top: str) -> str:
    commit = _git(top, "rev-parse", "HEAD")
    if not commit:
        return ""
    changed = _git(top, "status", "--porcelain").splitlines()
    lines = [f"git commit: {commit}", *(f"git dirty: {line}" for line in changed[:MOST_FILES])]
    if len(changed) > MOST_FILES:
        lines.append(f"git dirty: and {len(changed) - MOST_FILES} more")
    return "\n".join(lines) + "\n"


def _git(top: str, *words: str) -> str:
    import subprocess

    command = ["git", "--no-optional-locks", "-C", top, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip("\n") if done.returncode == 0 else ""
