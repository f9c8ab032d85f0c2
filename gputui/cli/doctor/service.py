"""`gputui keep --install`: a service of systemd that owns a session when nobody else does, also after a reboot."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping

from gputui.cli.output import Exit, out
from gputui.logs.plain import plain
from gputui.session.session_dir import Paths

from . import machine

_UNIT = """\
# Written by `gputui keep --install`; it may be changed or removed.
[Unit]
Description={description}

[Service]
ExecStart={command}
WorkingDirectory={folder}
{environment}# Jobs outlive their keeper, as they outlive everything else of gputui.
KillMode=process
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
_KEPT = ("PATH", "SLURM_CONF", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Of this shell: a service gets next to nothing, and clusters and drivers are found by these."""


def install(paths: Paths) -> int:
    if not os.path.isdir(machine.RUNNING):
        line = f"@reboot cd {shlex.quote(os.path.dirname(paths.root))} && {_words(paths, shlex.quote)}"
        raise Exit(
            1,
            "there is no systemd here: nothing ends your processes at logout, and no service is needed; to go on "
            f"after a reboot, add this line with crontab -e:\n{line}",
        )
    name = unit_name(paths.root)
    path = os.path.join(_folder(), name)
    _write(path, unit(paths, os.environ))
    out(plain(f"wrote {path}; now:"))
    out(f"  loginctl enable-linger {machine.user_name()}")
    out(f"  systemctl --user daemon-reload && systemctl --user enable --now {name}")
    return 0


def unit_name(root: str) -> str:
    """Readable, and another one for every session."""
    place = re.sub(r"[^\w-]+", "-", os.path.basename(os.path.dirname(root))).strip("-")
    return f"gputui-{place or 'session'}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}.service"


def unit(paths: Paths, environment: Mapping[str, str]) -> str:
    handed_on = {name: environment[name] for name in _KEPT if name in environment}
    return _UNIT.format(
        description=_literal(f"gputui: the session in {plain(paths.root)}"),
        command=_words(paths, lambda word: _quoted(word, "$")),
        folder=_literal(os.path.dirname(paths.root)),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in handed_on.items()),
    )


def _words(paths: Paths, quoted: Callable[[str], str]) -> str:
    return " ".join(quoted(word) for word in (sys.executable, "-m", "gputui", "keep", "--foreground", paths.root))


def _literal(text: str) -> str:
    """systemd reads `%` and a backslash at a line's end."""
    return text.replace("\\", "\\\\").replace("%", "%%").replace("\n", " ")


def _quoted(word: str, doubled: str = "") -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    for sign in doubled:
        escaped = escaped.replace(sign, sign * 2)
    return f'"{escaped}"'


def _folder() -> str:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(config, "systemd/user")


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise Exit(1, f"{path} cannot be written: {error.strerror}") from None
