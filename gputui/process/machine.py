"""The machine's identity (boot and pid namespace), and how Python's memory is kept."""

from __future__ import annotations

import gc
import os

from msgspec import Struct

# ---- Which machine this is, and in which boot and pid namespace pids mean something ----


class World(Struct, frozen=True):
    """Where an owner lives."""

    machine: str
    hostname: str
    boot: str
    pid_namespace: str
    init_started: int | None = None
    """When the namespace's first process began, in clock ticks since boot: namespaces' numbers are given out anew.
    None: it cannot be seen, or an older gputui did not look."""

    def same_processes(self, other: World) -> bool:
        """Whether a pid means the same process here and there."""
        both_known = None not in (self.init_started, other.init_started)
        same_namespace = (self.boot, self.pid_namespace) == (other.boot, other.pid_namespace)
        return same_namespace and not (both_known and self.init_started != other.init_started)

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
        init_started=_init_started(),
    )


def _line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""


def _init_started() -> int | None:
    """Where /proc hides the processes of others it hides this one too."""
    try:
        return int(_line("/proc/1/stat").rpartition(")")[2].split()[19])
    except (ValueError, IndexError):
        return None


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# ---- How Python's memory is kept by programs that hold a whole queue ----


THRESHOLD = 100_000


def collect_rarely() -> None:
    """A long queue is many objects and no cycles: looking for some took a third of the time of opening it."""
    gc.set_threshold(THRESHOLD)
