"""Checks of the machine: GPUs, limits, Python, logout, terminal."""

from __future__ import annotations

import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from gputui.core.amounts import GIB, counted, memory, memory_words
from gputui.core.lanes import DeviceKind
from gputui.gpus.leases import SHARED_FOLDERS, shared_folder
from gputui.gpus.picture import label, printable
from gputui.gpus.sample import DeviceSample, Sample, Status, TroubleKind
from gputui.tui.terminal.tty import Colours, colours, locale_is_utf8, refusal

# ---- What `gputui doctor` says of the GPUs ----


class Finding(Struct, frozen=True):
    """Something worth knowing; `advice` is empty where there is nothing to do."""

    good: bool
    text: str
    advice: str = ""
    serious: bool = False
    """Jobs cannot be run, or not safely, as long as this is so."""

    @property
    def level(self) -> str:
        return "ok" if self.good else "bad" if self.serious else "note"


def gpu_findings(sample: Sample | None, environment: Mapping[str, str]) -> list[Finding]:
    """About a complete sample; None: no sampler answered at all."""
    if sample is None:
        return [Finding(False, "the GPU sampler did not answer", "`nvidia-smi` shows whether the driver hangs")]
    findings = [_trouble(sample)] if sample.trouble else [_summary(sample)]
    findings += [finding for device in sample.devices for finding in _device(device)]
    findings += [Finding(False, note, "set CUDA_DEVICE_ORDER=PCI_BUS_ID") for note in sample.notes]
    if sample.foreign_pids and sample.devices:
        findings.append(_FOREIGN)
    if "CUDA_VISIBLE_DEVICES" in environment and sample.kind is DeviceKind.GPU:
        findings.append(_restriction(sample, environment["CUDA_VISIBLE_DEVICES"]))
    return findings


def lease_finding(folder: str | None = None) -> Finding:
    """Whether gputui users of this machine can see each other's claims."""
    folder = folder or shared_folder()
    if folder == SHARED_FOLDERS[0]:
        return Finding(True, f"gputui users of this machine share their leases in {folder}")
    return Finding(True, f"{SHARED_FOLDERS[0]} is closed; gputui users share their leases in {folder}")


_FOREIGN = Finding(
    False,
    "this container has its own process numbers, so processes on the GPUs cannot be told apart",
    "start the container with `--pid=host`; without it, all on a GPU that runs a job counts as that job's",
)


def _trouble(sample: Sample) -> Finding:
    assert sample.trouble is not None
    harmless = sample.trouble.kind is TroubleKind.NO_LIBRARY
    return Finding(harmless, sample.trouble.message, sample.trouble.advice, serious=not harmless)


def _summary(sample: Sample) -> Finding:
    cards = [device for device in sample.devices if device.parent is None]
    driver = f", driver {sample.driver}" if sample.driver else ""
    return Finding(True, f"{counted(len(cards), 'GPU', 'GPUs')}{driver}")


def _device(device: DeviceSample) -> list[Finding]:
    if device.status is not Status.OK:
        return [Finding(False, f"{label(device)}: {printable(device.message)}", _ADVICE[device.status])]
    findings = []
    if device.mig_enabled:
        findings.append(Finding(True, f"{label(device)} is cut into MIG instances; jobs get those"))
    if device.memory_shared and device.bus_id is not None:
        total = memory(device.memory_total)
        findings.append(Finding(True, f"{label(device)} shares the machine's memory ({total})"))
    unseen = [process for process in device.processes if process.compute and process.alive and process.born is None]
    if unseen:
        findings.append(_hidden(device))
    return findings


def _hidden(device: DeviceSample) -> Finding:
    return Finding(
        False,
        f"{label(device)} has processes that /proc hides, so their users are unknown",
        "the administrator can mount /proc without hidepid, or with gid= for your group",
    )


def _restriction(sample: Sample, value: str) -> Finding:
    devices = [device for device in sample.devices if not device.mig_enabled]
    shown = sum(device.visible for device in devices)
    text = f"CUDA_VISIBLE_DEVICES={printable(value)} leaves {shown} of {counted(len(devices), 'GPU', 'GPUs')}"
    return Finding(shown > 0, text, "" if shown else "unset it, or give --gpus")


_ADVICE = {
    Status.LOST: "reboot the machine; the other GPUs can be used meanwhile",
    Status.DENIED: "ask for access to its /dev/nvidia* node, or leave it out with --gpus",
    Status.STALE: "see `dmesg`; jobs are not started on it until it answers",
    Status.ERROR: "`nvidia-smi` should show the same; see `dmesg`",
}


# ---- What the machine allows this user ----


FEWEST_FILES, ENOUGH_FILES = 256, 1024
FEWEST_PROCESSES, ENOUGH_PROCESSES = 50, 300
LITTLE_MEMORY, ENOUGH_MEMORY = GIB // 4, GIB


def limit_findings() -> list[Finding]:
    return [_open_files(), _processes(), *_addresses(), *_memory()]


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_count(soft)} files may be open at once"
    if soft == resource.RLIM_INFINITY or soft >= ENOUGH_FILES:
        return Finding(True, text)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    return Finding(False, text, f"ulimit -n {most}", serious=soft < FEWEST_FILES)


def _processes() -> Finding:
    """Threads count too; root has no limit but that of its control group."""
    margins = [each for each in (_left_to_user(), _left_in_group()) if each is not None]
    if not margins:
        return Finding(True, "processes and threads are not limited")
    text = f"{max(0, min(margins)):,} more processes and threads may be started"
    if min(margins) >= ENOUGH_PROCESSES:
        return Finding(True, text)
    advice = "raise `ulimit -u`, or the container's pids limit; or end some"
    return Finding(False, text, advice, serious=min(margins) < FEWEST_PROCESSES)


def _left_to_user() -> int | None:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft == resource.RLIM_INFINITY or os.geteuid() == 0:
        return None
    return soft - _own_threads()


def _own_threads() -> int:
    count = 0
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdecimal() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:
            continue
    return count


def _left_in_group() -> int | None:
    most, now = _of_group("pids.max", "pids"), _of_group("pids.current", "pids")
    return None if most is None or now is None else most - now


def _addresses() -> list[Finding]:
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY:
        return []
    text = f"programs may use {memory_words(soft)} of addresses each, which CUDA alone exceeds"
    return [Finding(False, text, "ulimit -v unlimited")]


def _memory() -> list[Finding]:
    """What is left in the machine, or in the container if that is less."""
    most, now = (
        _of_group("memory.max", "memory", "memory.limit_in_bytes"),
        _of_group("memory.current", "memory", "memory.usage_in_bytes"),
    )
    margins = [each for each in (_available(), most - now if most is not None and now is not None else None) if each]
    if not margins:
        return []
    text = f"{memory_words(min(margins))} of memory are free"
    if min(margins) >= ENOUGH_MEMORY:
        return [Finding(True, text)]
    return [Finding(False, text, "ps axo rss,user,args --sort -rss | head", serious=min(margins) < LITTLE_MEMORY)]


def _available() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_group(name: str, controller: str, old_name: str = "") -> int | None:
    """Of the control group that this process is in, by either kind of hierarchy; None: no limit, or none is told."""
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


def _count(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else f"{limit:,}"


# ---- Python and how it starts processes ----


_TRUE = "/bin/true"


def python_findings() -> list[Finding]:
    conda = " (conda)" if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) else ""
    version = f"Python {sys.version.split()[0]}{conda}, {counted(len(os.sched_getaffinity(0)), 'core', 'cores')}"
    return [Finding(True, version), _spawning()]


def _spawning() -> Finding:
    """Really starts one, both ways that there are."""
    program = _TRUE if os.access(_TRUE, os.X_OK) else "/usr/bin/true"
    try:
        from gputui.process.descriptors import STANDARD
        from gputui.process.libc_spawn import posix_spawn

        pid = posix_spawn([program], {}, STANDARD)
        way = "processes are started by the C library"
    except (NotImplementedError, ImportError):
        return _plainly(program)
    except OSError as error:
        return _fails(error)
    if _ends_well(pid):
        return Finding(True, way)
    return Finding(False, f"{program} fails", f"is it damaged? ls -l {program}", serious=True)


def _plainly(program: str) -> Finding:
    from gputui.process.spawn import spawn

    try:
        pid = spawn([program], {}, {})
    except OSError as error:
        return _fails(error)
    good = _ends_well(pid)
    text = "this C library cannot start processes as gputui likes best: it does so more slowly, and all works"
    return Finding(good, text, "" if good else "a Python of the system or of uv may do better", not good)


def _fails(error: OSError) -> Finding:
    text = f"no process can be started: {error.strerror}"
    return Finding(False, text, "end some processes, or raise `ulimit -u`", serious=True)


def _ends_well(pid: int) -> bool:
    return os.waitpid(pid, 0)[1] == 0


# ---- What becomes of a user's processes at logout, where systemd has a say in it ----


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


# ---- What the terminal can show and do ----


_COLOURS = {Colours.MANY: "many colours", Colours.SIXTEEN: "16 colours", Colours.NONE: "no colours, as NO_COLOR says"}
LEAST_WIDE, LEAST_HIGH = 80, 24


def terminal_findings(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Where there is none nothing is told: nobody looks."""
    if environment.get("TERM") == "dumb":
        return [Finding(False, "this terminal cannot show a screen (TERM=dumb)", "gputui run and gputui ls need none")]
    if refusal(environment) is not None:
        return []
    findings = [_shown(environment), *_size()]
    return [*findings, _clipboard(environment)]


def _shown(environment: Mapping[str, str]) -> Finding:
    shown_colours = colours(environment)
    text = f"the terminal ({environment.get('TERM') or 'TERM is not set'}) shows {_COLOURS[shown_colours]}"
    if not locale_is_utf8(environment):
        advice = "export LC_ALL=C.UTF-8 (or your language's UTF-8) for the signs that ASCII has not"
        return Finding(False, f"{text}, and the locale is not UTF-8", advice)
    if shown_colours is Colours.SIXTEEN:
        return Finding(True, text, "export COLORTERM=truecolor, if it can show more; in tmux: TERM=tmux-256color")
    return Finding(True, f"{text} and UTF-8")


def _size() -> list[Finding]:
    if not sys.__stdout__ or not sys.__stdout__.isatty():
        return []
    wide, high = shutil.get_terminal_size()
    if wide >= LEAST_WIDE and high >= LEAST_HIGH:
        return []
    return [Finding(False, f"the terminal is {wide} × {high} cells", f"make it {LEAST_WIDE} × {LEAST_HIGH} or larger")]


def _clipboard(environment: Mapping[str, str]) -> Finding:
    """Whether `y` reaches the clipboard cannot be asked; who is known not to pass it on can."""
    if environment.get("TMUX"):
        if _tmux_copies():
            return Finding(True, "copying (y) goes through tmux to the terminal's clipboard")
        text = "this tmux keeps what y copies from the clipboard"
        return Finding(False, text, "use tmux 3.2 or newer, or: tmux set -s set-clipboard on")
    if environment.get("STY"):
        return Finding(False, "screen keeps what y copies from the clipboard", "use tmux, or select with the mouse")
    if environment.get("VTE_VERSION"):
        text = "this terminal (VTE: GNOME's and its like) lets no program copy (OSC 52)"
        return Finding(False, text, "select with the mouse and shift, or use kitty, WezTerm, foot, Alacritty, iTerm2")
    return Finding(True, "copying (y) uses OSC 52, which most terminals understand")


def _tmux_copies() -> bool:
    """It knows `load-buffer -w` (from 3.2 on), or is set to pass on what programs send."""
    version = re.search(r"(\d+)\.(\d+)", _tmux("-V"))
    known = version is not None and (int(version[1]), int(version[2])) >= (3, 2)
    return known or _tmux("show", "-sv", "set-clipboard") == "on"


def _tmux(*words: str) -> str:
    try:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
