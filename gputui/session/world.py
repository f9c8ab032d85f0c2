"""Which machine this is, and in which boot and pid namespace pids mean something."""

from __future__ import annotations

import os

from msgspec import Struct


class World(Struct, frozen=True):
    """Where an owner lives."""

    machine: str
    hostname: str
    boot: str
    pid_namespace: str

    def same_machine(self, other: World) -> bool:
        """A boot's id is one machine's alone, whatever a container calls itself; cloned images share machine ids."""
        same_boot = bool(self.boot) and self.boot == other.boot
        return same_boot or (self.machine == other.machine and self.hostname == other.hostname)


def this_world() -> World:
    return World(
        machine=_line("/etc/machine-id"),
        hostname=os.uname().nodename,
        boot=_line("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_link("/proc/self/ns/pid"),
    )


def _line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
