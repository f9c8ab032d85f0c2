"""A job that shows whether the nodes see the folder that jobs write to, and whether their clocks agree with ours."""

from __future__ import annotations

import os
import shlex
import tempfile
import time

from gputui.engines.slurm.answers import Phase, SlurmJob
from gputui.engines.slurm.commands import SlurmCommands, SlurmError
from gputui.engines.slurm.reasons import waits
from gputui.gpus.doctor import Finding
from gputui.logs.plain import plain

PATIENCE = 45.0
"""Seconds that the job may wait for its turn."""
SEEN_WITHIN = 15.0
"""Seconds until a file that a node has written must be seen here."""
APART = 5.0
"""Seconds that clocks may differ: timeouts and the ages of files are told by them."""
_SCRIPT = 'printf \'%s %s\\n\' "$(date +%s.%N)" "$SLURMD_NODENAME" >{file}.new && mv {file}.new {file}'


def probe_findings(commands: SlurmCommands, options: list[str], folder: str) -> list[Finding]:
    try:
        place = tempfile.mkdtemp(prefix=".gputui-doctor-", dir=folder)
    except OSError:
        return []  # whoever looks at the folder tells of it
    file = os.path.join(place, "seen")
    try:
        return [*_judged(commands, options, folder, file)]
    except SlurmError as error:
        advice = "sinfo -s lists the partitions; choose with --partition"
        return [Finding(False, f"a trial job could not be run: {plain(str(error))}", advice, serious=True)]
    finally:
        _clear_away(place)


def _judged(commands: SlurmCommands, options: list[str], folder: str, file: str) -> list[Finding]:
    script = _SCRIPT.format(file=shlex.quote(file))
    number = commands.submit(
        "-J", "gputui-doctor", "--time=1", *options, "-o", "/dev/null", "-D", "/", "--wrap", script
    )
    try:
        job = _ended(commands, number, file)
    finally:
        commands.cancel(number)
    if not os.path.exists(file) and job is not None and job.phase is Phase.WAITING:
        text = f"whether the nodes see {folder} is not known: a trial job waits: {plain(waits(job, time.time()))}"
        return [Finding(False, text, "gputui doctor --slurm, when there is room")]
    if not _seen(file):
        nodes = ", ".join(job.nodes) if job is not None and job.nodes else "the nodes"
        text = f"no shared file system: a job ran on {nodes} and its file did not appear in {folder}"
        return [Finding(False, text, "choose a folder that the nodes share, with --output-dir", serious=True)]
    return _clocks(file, folder)


def _ended(commands: SlurmCommands, number: str, file: str) -> SlurmJob | None:
    """As Slurm last told of it, when it is over or its file is there."""
    ends = time.monotonic() + PATIENCE
    job: SlurmJob | None = None
    while time.monotonic() < ends and not os.path.exists(file):
        job = next((each for each in commands.queue(str(os.getuid())) if each.id == number), job)
        if job is not None and job.phase is Phase.ENDED:
            break
        time.sleep(0.5)
    return job


def _seen(file: str) -> bool:
    """A shared disk shows a new file late: looking into its folder makes it look again."""
    ends = time.monotonic() + SEEN_WITHIN
    while not os.path.exists(file) and time.monotonic() < ends:
        os.listdir(os.path.dirname(file))
        time.sleep(0.2)
    return os.path.exists(file)


def _clocks(file: str, folder: str) -> list[Finding]:
    with open(file, errors="replace") as written:
        there, _, node = written.read(200).strip().partition(" ")
    good = Finding(True, f"{plain(node) or 'a node'} sees {folder}")
    try:
        ahead = float(there) - os.stat(file).st_mtime
        behind_us = time.time() - float(there)
    except ValueError:
        return [good]
    if abs(ahead) <= APART and -APART <= behind_us <= APART + SEEN_WITHIN:
        return [good]
    off = -behind_us if behind_us < -APART else ahead if abs(ahead) > APART else -behind_us
    text = f"the clock of {plain(node)} is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
    return [good, Finding(False, text, "ask the admin for NTP: times and timeouts are off by that much")]


def _clear_away(place: str) -> None:
    for name in ("seen", "seen.new"):
        try:
            os.unlink(os.path.join(place, name))
        except OSError:
            continue
    try:
        os.rmdir(place)
    except OSError:
        return
