"""Checks of the machine: GPUs, limits, Python, logout, terminal, the session's directory and the configured hosts."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from gputui.core.amounts import GIB, counted, memory, memory_words
from gputui.core.slots import DeviceKind
from gputui.gpus.leases import SHARED_DIRECTORIES, shared_directory
from gputui.gpus.picture import printable
from gputui.gpus.sample import DeviceSample, Sample, Status
from gputui.process.directories import file_system
from gputui.process.processes import user_name
from gputui.session.config import load
from gputui.session.session_dir import Paths
from gputui.tui.terminal.tty import Colours, colours, locale_is_utf8, refusal


class Finding(Struct, frozen=True):
    """One result of a check. `advice` is empty if there is nothing to do."""

    good: bool
    text: str
    advice: str = ""
    serious: bool = False
    """Whether the problem keeps jobs from running, or from running safely."""

    @property
    def level(self) -> str:
        return "ok" if self.good else "bad" if self.serious else "note"


# GPUs


def gpu_findings(sample: Sample | None, environment: Mapping[str, str]) -> list[Finding]:
    if sample is None:
        return [Finding(False, "the GPU sampler did not respond", "check with `nvidia-smi` whether the driver hangs")]
    if sample.trouble:
        trouble = sample.trouble
        findings = [Finding(trouble.harmless, trouble.message, trouble.advice, serious=not trouble.harmless)]
    else:
        cards = [device for device in sample.devices if device.parent is None]
        driver = f", driver {sample.driver}" if sample.driver else ""
        findings = [Finding(True, f"{counted(len(cards), 'GPU', 'GPUs')}{driver}")]
    findings += [finding for device in sample.devices for finding in _device(device)]
    findings += [Finding(False, note, "set CUDA_DEVICE_ORDER=PCI_BUS_ID") for note in sample.notes]
    if sample.foreign_pids and sample.devices:
        text = "this container has its own pid namespace, so GPU processes cannot be told apart"
        advice = "start it with `--pid=host`; otherwise all use of a GPU counts toward the job on it"
        findings.append(Finding(False, text, advice))
    if "CUDA_VISIBLE_DEVICES" in environment and sample.kind is DeviceKind.GPU:
        devices = [device for device in sample.devices if not device.mig_enabled]
        visible = sum(device.visible for device in devices)
        value = printable(environment["CUDA_VISIBLE_DEVICES"])
        text = f"CUDA_VISIBLE_DEVICES={value} leaves {visible} of {counted(len(devices), 'GPU', 'GPUs')}"
        findings.append(Finding(visible > 0, text, "" if visible else "unset it, or use --gpus"))
    return findings


def lease_finding(directory: str | None = None) -> Finding:
    """Check whether gputui users of this machine share a directory for GPU leases."""
    directory = directory or shared_directory()
    if directory == SHARED_DIRECTORIES[0]:
        return Finding(True, f"gputui users here share GPU leases in {directory}")
    return Finding(True, f"{SHARED_DIRECTORIES[0]} is not accessible; GPU leases are in {directory}")


def _device(device: DeviceSample) -> list[Finding]:
    if device.status is not Status.OK:
        return [Finding(False, f"{device.label}: {printable(device.message)}", _ADVICE[device.status])]
    findings = []
    if device.mig_enabled:
        findings.append(Finding(True, f"{device.label} is split into MIG instances; jobs use those"))
    if device.memory_shared and device.bus_id is not None:
        total = memory(device.memory_total)
        findings.append(Finding(True, f"{device.label} uses system memory ({total})"))
    unseen = [process for process in device.processes if process.compute and process.alive and process.born is None]
    if unseen:
        text = f"{device.label} has processes that /proc hides, so their users are unknown"
        advice = "the administrator can mount /proc without hidepid, or with gid= for your group"
        findings.append(Finding(False, text, advice))
    return findings


_ADVICE = {
    Status.LOST: "reboot the machine; the other GPUs still work",
    Status.DENIED: "ask for access to its /dev/nvidia* node, or exclude it with --gpus",
    Status.STALE: "see `dmesg`; no jobs start on it until it responds",
    Status.ERROR: "check `nvidia-smi` and `dmesg`",
}


# Limits


FEWEST_FILES, ENOUGH_FILES = 256, 1024
FEWEST_PROCESSES, ENOUGH_PROCESSES = 50, 300
LITTLE_MEMORY, ENOUGH_MEMORY = GIB // 4, GIB


def limit_findings() -> list[Finding]:
    return [_open_files(), _processes(), *_memory()]


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    text = f"open file limit: {number}"
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_FILES:
        return Finding(True, text)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    return Finding(False, text, f"ulimit -n {most}", serious=soft < FEWEST_FILES)


def _processes() -> Finding:
    """Check how many more processes and threads can be started. For root only the limit of its cgroup counts."""
    margins = []
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:
        margins.append(soft - _count_own_threads())
    most, current = _cgroup_value("pids.max", "pids"), _cgroup_value("pids.current", "pids")
    if most is not None and current is not None:
        margins.append(most - current)
    if not margins:
        return Finding(True, "no limit on processes and threads")
    text = f"{max(0, min(margins)):,} more processes and threads available"
    if min(margins) >= ENOUGH_PROCESSES:
        return Finding(True, text)
    advice = "raise `ulimit -u` or the container's pids limit, or end some"
    return Finding(False, text, advice, serious=min(margins) < FEWEST_PROCESSES)


def _count_own_threads() -> int:
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


def _memory() -> list[Finding]:
    """Check the free memory of the machine, or of the container if it has less."""
    meminfo = re.search(r"^MemAvailable:\s*(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    margins = [int(meminfo[1]) * 1024] if meminfo is not None else []
    most = _cgroup_value("memory.max", "memory", "memory.limit_in_bytes")
    current = _cgroup_value("memory.current", "memory", "memory.usage_in_bytes")
    if most is not None and current is not None:
        margins.append(most - current)
    if not margins:
        return []
    text = f"{memory_words(min(margins))} of memory free"
    if min(margins) >= ENOUGH_MEMORY:
        return [Finding(True, text)]
    return [Finding(False, text, "ps axo rss,user,args --sort -rss | head", serious=min(margins) < LITTLE_MEMORY)]


def _cgroup_value(name: str, controller: str, old_name: str = "") -> int | None:
    """Return a value of this process's control group (v2 or v1), or None if it is unlimited or unknown."""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            place, file = f"/sys/fs/cgroup{path}", name
        elif controller in controllers.split(","):
            place, file = f"/sys/fs/cgroup/{controller}{path}", old_name or name
        else:
            continue
        written = _read(os.path.join(place, file)).strip()
        if written.isdecimal():
            return int(written) if int(written) < 2**60 else None
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


# Python


def python_findings() -> list[Finding]:
    conda = " (conda)" if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else ""
    version = f"Python {sys.version.split()[0]}{conda}, {counted(len(os.sched_getaffinity(0)), 'core', 'cores')}"
    return [Finding(True, version), _spawning()]


def _spawning() -> Finding:
    """Check that a process can be started."""
    from gputui.process.spawn import spawn

    program = "/bin/true" if os.access("/bin/true", os.X_OK) else "/usr/bin/true"
    try:
        pid = spawn([program], {}, {})
    except OSError as error:
        advice = "end some processes, or raise `ulimit -u`"
        if error.errno == errno.ENOSYS:
            advice = "use a Python of the system, of uv or of conda"
        return Finding(False, f"cannot start processes: {error.strerror}", advice, serious=True)
    if os.waitpid(pid, 0)[1] == 0:
        return Finding(True, "fast process start is available")
    return Finding(False, f"{program} is broken", f"damaged? Check ls -l {program}", serious=True)


# Logout

RUNNING = "/run/systemd/system"
LINGER = "/var/lib/systemd/linger"
LOGIND = ("/usr/lib/systemd", "/run/systemd", "/etc/systemd")
"""Directories with logind's settings, in ascending priority. Drop-in files override logind.conf."""
INSTALL = "gputui daemon --install"


def logout_findings() -> list[Finding]:
    if not os.path.isdir(RUNNING):
        return [Finding(True, "no systemd: your processes survive logout")]
    user = user_name(os.getuid())
    lingers = os.path.exists(os.path.join(LINGER, user))
    if not kills_at_logout():
        text = "systemd does not kill your processes at logout"
        return [Finding(True, text, "" if lingers else f"to survive a reboot too: {INSTALL}")]
    if lingers:
        text = "systemd kills your processes at logout, but lingering is enabled"
        return [Finding(True, text, f"to keep sessions, run the daemon as a service: {INSTALL}")]
    advice = f"loginctl enable-linger {user}, then: {INSTALL}"
    return [Finding(False, "KillUserProcesses=yes: logging out ends jobs and daemons", advice)]


def kills_at_logout() -> bool:
    """Return logind's KillUserProcesses setting.

    The last value found counts, and the default of distributions is no.
    """
    drop_ins = {file.name: file for directory in LOGIND for file in Path(directory, "logind.conf.d").glob("*.conf")}
    files = [*(Path(directory, "logind.conf") for directory in LOGIND), *(drop_ins[name] for name in sorted(drop_ins))]
    kills = False
    for line in "\n".join(_read(str(file)) for file in files).splitlines():
        name, _, value = line.strip().replace(" ", "").lower().partition("=")
        if name == "killuserprocesses":
            kills = value in ("yes", "true", "on", "1")
    return kills


# Terminal


_COLOURS = {
    Colours.RGB: "16 million colors",
    Colours.INDEXED: "256 colors",
    Colours.SIXTEEN: "16 colors",
    Colours.NONE: "no colors (NO_COLOR is set)",
}
LEAST_WIDE, LEAST_HIGH = 80, 24


def terminal_findings(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Check the terminal. Nothing is reported if there is none."""
    if environment.get("TERM") == "dumb":
        return [
            Finding(False, "this terminal cannot show the TUI (TERM=dumb)", ("gputui run and gputui ls need no TUI"))
        ]
    if refusal(environment) is not None:
        return []
    return [_colours(environment), *_size(), _clipboard(environment), *_taken_keys(environment)]


def _colours(environment: Mapping[str, str]) -> Finding:
    shown = colours(environment)
    text = f"the terminal ({environment.get('TERM') or 'TERM is not set'}) supports {_COLOURS[shown]}"
    if not locale_is_utf8(environment):
        advice = "export LC_ALL=C.UTF-8 (or your own UTF-8 locale) for non-ASCII symbols"
        return Finding(False, f"{text}, and the locale is not UTF-8", advice)
    if shown is Colours.SIXTEEN:
        return Finding(True, text, "if it supports more: export COLORTERM=truecolor; in tmux: TERM=tmux-256color")
    return Finding(True, f"{text} and UTF-8")


def _size() -> list[Finding]:
    if not sys.__stdout__ or not sys.__stdout__.isatty():
        return []
    wide, high = shutil.get_terminal_size()
    if wide >= LEAST_WIDE and high >= LEAST_HIGH:
        return []
    return [Finding(False, f"the terminal is {wide} × {high}", f"use at least {LEAST_WIDE} × {LEAST_HIGH}")]


def _clipboard(environment: Mapping[str, str]) -> Finding:
    """Check whether the terminal is known not to support copying. There is no general way to ask a terminal."""
    if environment.get("TMUX"):
        if _tmux_copies():
            return Finding(True, "copying (y) works through tmux")
        text = "tmux blocks copying with y (set-clipboard)"
        return Finding(False, text, "use tmux 3.2 or newer, or: tmux set -s set-clipboard on")
    if environment.get("STY"):
        return Finding(False, "GNU screen blocks copying with y", "use tmux, or select with the mouse")
    if environment.get("VTE_VERSION"):
        text = "this terminal (VTE, e.g. GNOME Terminal) cannot copy (OSC 52)"
        return Finding(
            False, text, ("select with Shift and the mouse, or use kitty, WezTerm, foot, Alacritty or iTerm2")
        )
    return Finding(True, "copying (y) uses OSC 52, which most terminals support")


def _taken_keys(environment: Mapping[str, str]) -> list[Finding]:
    """Name the keys that the terminal is known to take for itself, and what to press instead."""
    if environment.get("TERM_PROGRAM") == "vscode":
        return [Finding(True, "VS Code takes Ctrl-P and F1 for itself", "in the TUI, press : for the palette")]
    if environment.get("VTE_VERSION"):
        return [Finding(True, "GNOME Terminal takes F1 for itself", "in the TUI, press : for the palette, ? for help")]
    return []


def _tmux_copies() -> bool:
    """Return whether tmux supports `load-buffer -w` (version 3.2 or newer) or is set to forward OSC 52."""
    version = re.search(r"(\d+)\.(\d+)", _tmux("-V"))
    known = version is not None and (int(version[1]), int(version[2])) >= (3, 2)
    return known or _tmux("show", "-sv", "set-clipboard") == "on"


def _tmux(*words: str) -> str:
    try:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


# The session's directory


FULL, SOON_FULL = GIB // 10, 2 * GIB
"""Numbers of free bytes below which a disk counts as full and as nearly full."""
_PROBE = 1024**2


def directory_findings(root: str, *, exists: bool) -> list[Finding]:
    """Check the directory of a session, or the one in which it would be created.

    `exists`: the directory has been created.
    """
    findings = [_private(root)] if exists else []
    place = root if exists else os.path.dirname(root) or "/"
    findings += [_writable(place), *_locks(place), *_shared(place)]
    return [*findings, _free_space(place), *_write_test(place)]


def _private(root: str) -> Finding:
    """Check the same things as `Paths.check`, without repairing anything."""
    private = Paths(root).private
    try:
        status = os.lstat(private)
    except OSError as error:
        return Finding(False, f"cannot access {private}: {error.strerror}", f"ls -ld {private}", serious=True)
    if not stat.S_ISDIR(status.st_mode):
        return Finding(
            False, f"{private} is not a directory", "move it away or choose another --output-dir", serious=True
        )
    if status.st_uid != os.getuid():
        return Finding(False, f"{private} belongs to another user", "choose another --output-dir", serious=True)
    if status.st_mode & 0o022:
        text = f"others can write to {private}, so gputui refuses it"
        return Finding(False, text, f"chmod 700 {private}, if you trust its contents", serious=True)
    if status.st_mode & 0o055:
        return Finding(False, f"others can read {private}", f"chmod 700 {private}")
    return Finding(True, f"the session in {root} is private")


def _writable(place: str) -> Finding:
    if os.access(place, os.W_OK | os.X_OK):
        return Finding(True, f"{place} is writable")
    return Finding(False, f"{place} is not writable", "choose another directory with --output-dir", serious=True)


def _locks(place: str) -> list[Finding]:
    """Check that file locks work, using an unnamed temporary file."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                text = f"files in {place} cannot be locked: {error.strerror}"
                fix = "choose a directory on another file system with --output-dir; on NFS its lock service must run"
                return [Finding(False, text, fix, serious=True)]
    except OSError:
        pass  # reported by another check
    return []


def _shared(place: str) -> list[Finding]:
    """Check whether other users could replace the directories that jobs write to."""
    status = os.stat(place)
    if not status.st_mode & 0o022 or status.st_mode & stat.S_ISVTX:
        return []
    try:
        group = Path(place).group()
    except KeyError:
        group = str(status.st_gid)
    who = "everybody" if status.st_mode & 0o002 else f"group {group}"
    text = f"{who} can write to {place}; gputui will use only directories that it created itself"
    return [Finding(True, text, f"chmod g-w,o-w {place}, if nobody else needs it")]


def _free_space(place: str) -> Finding:
    free = shutil.disk_usage(place).free
    text = f"{memory_words(free)} free in {place} ({file_system(place) or 'unknown file system'})"
    if free >= SOON_FULL:
        return Finding(True, text)
    return Finding(False, text, f"free up space: du -xh {place} | sort -h | tail", serious=free < FULL)


def _write_test(place: str) -> list[Finding]:
    """Check that files can be written, using an unnamed temporary file.

    A write is necessary because not every quota can be queried.
    """
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except PermissionError:
        return []
    except OSError as error:
        text = f"cannot write to {place}: {error.strerror}"
        return [Finding(False, text, "free up space or ask for a larger quota (quota -s, lfs quota)", serious=True)]
    return []


# Other machines

PATIENCE = 5.0


def host_findings() -> list[Finding]:
    """Check the hosts named in the user's settings."""
    config = load()
    if not config.get("hosts")[0]:
        return []
    from gputui.hosts.ssh import BadHost, parse_hosts
    from gputui.hosts.survey import ask_all

    try:
        answers = ask_all(parse_hosts(None, config), str(config.get("ssh")[0]), PATIENCE)
    except BadHost as error:
        return [Finding(False, str(error), "see gputui config for where it is set")]
    return [
        Finding(True, f"{answer.place.alias} reachable over ssh")
        if answer.status is not None
        else Finding(False, f"{answer.place.alias}: {answer.trouble}", f"ssh {answer.place.alias} gputui --version")
        for answer in answers
    ]
