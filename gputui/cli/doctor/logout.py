"""What becomes of a user's processes at logout, where systemd has a say in it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from gputui.gpus.doctor import Finding

RUNNING = "/run/systemd/system"
LINGER = "/var/lib/systemd/linger"
LOGIND = ("/usr/lib/systemd", "/run/systemd", "/etc/systemd")
"""Where its settings are; what comes later wins, and pieces win over the whole."""
INSTALL = "gputui keep --install"


def logout_findings() -> list[Finding]:
    if not os.path.isdir(RUNNING):
        return [Finding(True, "no systemd: nothing ends your processes at logout")]
    user = user_name()
    lingers = os.path.exists(os.path.join(LINGER, user))
    if not kills_at_logout():
        text = "systemd leaves your processes alone at logout"
        return [Finding(True, text, "" if lingers else f"to go on after a reboot too: {INSTALL}")]
    if lingers:
        text = "systemd kills your processes at logout, but lingering is on for you"
        return [Finding(True, text, f"a session lives on if its keeper is a service: {INSTALL}")]
    advice = f"loginctl enable-linger {user}, then: {INSTALL}"
    return [Finding(False, "KillUserProcesses=yes: jobs and keepers end when you log out", advice)]


def user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def kills_at_logout() -> bool:
    """The last word counts; without any, systemd's own default, which distributions set to no."""
    said = False
    for path in _files():
        for line in _lines(path):
            name, _, value = line.replace(" ", "").lower().partition("=")
            if name == "killuserprocesses":
                said = value in ("yes", "true", "on", "1")
    return said


def _files() -> Iterator[Path]:
    for folder in LOGIND:
        yield Path(folder, "logind.conf")
    pieces = {piece.name: piece for folder in LOGIND for piece in Path(folder, "logind.conf.d").glob("*.conf")}
    yield from (pieces[name] for name in sorted(pieces))


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []
