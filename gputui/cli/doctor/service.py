"""`gputui daemon --install`: write a systemd service that runs a session's jobs, also after a reboot."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping

from gputui.cli.output import Exit, out
from gputui.logs.plain import plain
from gputui.process.processes import user_name
from gputui.session.session_dir import Paths

from . import machine

_UNIT = """\
# Written by `gputui daemon --install`; edit or remove it freely.
[Unit]
Description={description}

[Service]
ExecStart={command}
WorkingDirectory={directory}
{environment}# Jobs keep running when the daemon stops.
KillMode=process
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""
_KEPT = ("PATH", "SLURM_CONF", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Environment variables copied to the service, which otherwise gets almost none.

They are needed to find clusters and drivers.
"""


def install(paths: Paths) -> int:
    if not os.path.isdir(machine.RUNNING):
        line = f"@reboot cd {shlex.quote(os.path.dirname(paths.root))} && {_words(paths, shlex.quote)}"
        raise Exit(
            1,
            "no systemd here: your processes survive logout, so no service is needed; to restart after a reboot, "
            "add this line with crontab -e:\n"
            f"{line}",
        )
    name = unit_name(paths.root)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.path.join(config, "systemd/user", name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(unit(paths, os.environ))
    except OSError as error:
        raise Exit(1, f"cannot write {path}: {error.strerror}") from None
    out(plain(f"wrote {path}; now run:"))
    out(f"  loginctl enable-linger {user_name(os.getuid())}")
    out(f"  systemctl --user daemon-reload && systemctl --user enable --now {name}")
    return 0


def unit_name(root: str) -> str:
    """Return a readable unit name that is unique to the session."""
    place = re.sub(r"[^\w-]+", "-", os.path.basename(os.path.dirname(root))).strip("-")
    return f"gputui-{place or 'session'}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}.service"


def unit(paths: Paths, environment: Mapping[str, str]) -> str:
    variables = {name: environment[name] for name in _KEPT if name in environment}
    return _UNIT.format(
        description=_literal(f"gputui: session in {plain(paths.root)}"),
        command=_words(paths, lambda word: _quoted(word, "$")),
        directory=_literal(os.path.dirname(paths.root)),
        environment="".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items()),
    )


def _words(paths: Paths, quoted: Callable[[str], str]) -> str:
    return " ".join(quoted(word) for word in (sys.executable, "-m", "gputui", "daemon", "--foreground", paths.root))


def _literal(text: str) -> str:
    """Escape the characters that systemd would interpret."""
    return text.replace("\\", "\\\\").replace("%", "%%").replace("\n", " ")


def _quoted(word: str, doubled: str = "") -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    for sign in doubled:
        escaped = escaped.replace(sign, sign * 2)
    return f'"{escaped}"'
