"""The identity of the machine, boot and pid namespace, and the garbage collector's settings."""

from __future__ import annotations

import gc
import os

from msgspec import Struct

from .processes import parse_stat, read_bytes


class HostIdentity(Struct, frozen=True):
    """Where a scheduler runs: the machine, its boot and the pid namespace."""

    machine: str
    hostname: str
    boot: str
    pid_namespace: str
    init_started: int | None = None
    """Start time of the namespace's first process in clock ticks, or None if hidden. Ids of namespaces are reused."""

    def same_processes(self, other: HostIdentity) -> bool:
        """Return whether a pid means the same process on both hosts."""
        both_known = None not in (self.init_started, other.init_started)
        same_namespace = (self.boot, self.pid_namespace) == (other.boot, other.pid_namespace)
        return same_namespace and not (both_known and self.init_started != other.init_started)

    def same_machine(self, other: HostIdentity) -> bool:
        """Return whether both are the same machine. Boot ids are unique, but cloned images share machine ids."""
        same_boot = bool(self.boot) and self.boot == other.boot
        return same_boot or (self.machine == other.machine and self.hostname == other.hostname)


def this_host() -> HostIdentity:
    try:
        pid_namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        pid_namespace = ""
    init = parse_stat(read_bytes("/proc/1/stat"))  # /proc may hide other users' processes
    return HostIdentity(
        machine=_first_line("/etc/machine-id"),
        hostname=os.uname().nodename,
        boot=_first_line("/proc/sys/kernel/random/boot_id"),
        pid_namespace=pid_namespace,
        init_started=init.started if init is not None else None,
    )


def _first_line(path: str) -> str:
    return read_bytes(path).partition(b"\n")[0].decode("utf-8", "replace").strip()


def collect_rarely() -> None:
    """Make garbage collections rare. They are slow with a long queue, and find nothing because there are no cycles."""
    gc.set_threshold(100_000)
