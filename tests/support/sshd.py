"""Machines to log in to: a real sshd on loopback, each with a home, a port and a name in ssh's settings of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from .sessions import GPUTUI
from .users import with_our_python
from .waiting import until


class Lab:
    """Several machines in one directory, and the ssh that knows them."""

    def __init__(self, directory: Path) -> None:
        server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if server is None or shutil.which("ssh-keygen") is None or shutil.which("ssh") is None:
            pytest.skip("no sshd here: install openssh-server and openssh-client to check this")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.directory, self._server = directory, server
        self._key = self._made_key("user")
        self._settings = directory / "ssh_config"
        self._settings.write_text("")
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._listeners: list[socket.socket] = []

    @property
    def ssh(self) -> str:
        return f"ssh -F {self._settings}"

    def environment(self, **more: str) -> dict[str, str]:
        """Of somebody who uses these machines."""
        own = {"GPUTUI_SSH": self.ssh, "XDG_RUNTIME_DIR": str(self._short("run")), "HOME": str(self._short("me"))}
        return {**os.environ, "XDG_CONFIG_HOME": str(self.directory / "config"), **own, **more}

    def _short(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def _made_key(self, name: str) -> Path:
        key = self.directory / f"{name}_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        return key

    def machine(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        *,
        has_gputui: bool = True,
        user: str | None = None,
    ) -> Path:
        """Starts one; its home. `user`: who one is there, if not oneself."""
        home = self.directory / f"home-{name}"
        (home / ".local" / "bin").mkdir(parents=True)
        if has_gputui:
            program = home / ".local" / "bin" / "gputui"
            program.write_text(f'#!/bin/sh\nexec {" ".join(GPUTUI)} "$@"\n')
            program.chmod(0o755)
        port = free_port()
        config = self.directory / f"{name}.conf"
        config.write_text(self._configuration(name, port, home, environment or {}))
        log = self.directory / f"{name}.log"
        words = [*(with_our_python() if user is not None else ()), self._server, "-D", "-f", config, "-E", log]
        self._daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL))
        self._name(name, port, user)
        if user is not None:
            self.directory.chmod(0o711)
            subprocess.run(["chown", "-R", f"{user}:", home], check=True)
        until(lambda: answers(port), f"the sshd of {name} listens: {log.read_text() if log.exists() else ''}")
        return home

    def _configuration(self, name: str, port: int, home: Path, environment: Mapping[str, str]) -> str:
        inner = {
            "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config"),
            "PATH": "/usr/bin:/bin", **environment,
        }  # fmt: skip
        entry = self.directory / f"{name}.sh"
        told = "\n".join(f"export {key}='{value}'" for key, value in inner.items())
        entry.write_text(
            f'{told}\ncd "$HOME"\nif [ -n "$SSH_ORIGINAL_COMMAND" ]; then exec sh -c "$SSH_ORIGINAL_COMMAND"; fi\n'
        )
        lines = [
            f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {self._made_key(name)}",
            f"PidFile {self.directory}/{name}.pid",
            f"AuthorizedKeysFile {self._key}.pub", "StrictModes no", "UsePAM no", "PasswordAuthentication no",
            "KbdInteractiveAuthentication no", "PermitRootLogin yes", f"ForceCommand sh {entry}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def dead(self, name: str) -> None:
        """Nothing listens there."""
        self._name(name, free_port())

    def silent(self, name: str) -> None:
        """Somebody listens and never says a word."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)
        self._name(name, listener.getsockname()[1])

    def _name(self, name: str, port: int, user: str | None = None) -> None:
        user = user or subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        with self._settings.open("a") as settings:
            settings.write(
                f"Host {name}\n HostName 127.0.0.1\n Port {port}\n User {user}\n IdentityFile {self._key}\n"
                f" IdentitiesOnly yes\n UserKnownHostsFile {self.directory}/known\n StrictHostKeyChecking accept-new\n"
            )

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for daemon in self._daemons:
            daemon.terminate()
            daemon.wait()
        for control in (self.directory / "run").glob("gputui/ssh-*"):
            subprocess.run(["ssh", "-o", f"ControlPath={control}", "-O", "exit", "x"], capture_output=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        time.sleep(0.01)
        return False
