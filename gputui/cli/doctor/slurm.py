"""Checks of a Slurm cluster, including a test job."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time

from msgspec import Struct

from gputui.core.amounts import counted, memory_words
from gputui.core.slots import NodeState
from gputui.engines.slurm.client import OLDEST, NoSlurm, SlurmCommands, SlurmError, SlurmSilent
from gputui.engines.slurm.messages import describe_wait
from gputui.engines.slurm.parse import Phase, SlurmJob, SlurmNode, largest
from gputui.logs.plain import plain

from .machine import Finding

SHOWN = 5
"""Maximum number of closed nodes to list."""
_NO_ACCOUNTING = "accounting_storage/none"


class SubmitOptions(Struct, frozen=True):
    """Options for submitting jobs.

    `required`: the user works with Slurm, so it is an error if Slurm is missing.
    """

    required: bool = False
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    further: tuple[str, ...] = ()

    def words(self) -> list[str]:
        named = {"partition": self.partition, "account": self.account, "qos": self.qos, "constraint": self.constraint}
        return [*(f"--{name}={value}" for name, value in named.items() if value), *self.further]


def slurm_findings(options: SubmitOptions, directory: str, *, probe: bool) -> list[Finding]:
    """Check the cluster.

    `directory`: where jobs write. `probe`: submit a job to check that nodes see the directory.
    """
    commands = SlurmCommands()
    try:
        general = [_version(commands), _nodes(commands, options)]
        closed = _closed(commands.nodes())
    except NoSlurm as error:
        return [Finding(False, str(error), "without a cluster: gputui run --gpus all", serious=True)] * options.required
    except SlurmSilent as error:
        advice = "check with scontrol ping; running jobs continue, and gputui waits for it"
        return [Finding(False, str(error), advice, serious=options.required)]
    except SlurmError as error:
        advice = "run sinfo to see Slurm's own message"
        if "slurm.conf" in str(error):
            advice = "if this machine is in a cluster: export SLURM_CONF=FILE; otherwise: gputui run --gpus all"
        return [Finding(False, plain(str(error)), advice, serious=options.required)]
    findings = [*general, *closed, *_options(commands, options), *_accounting(commands, options)]
    if probe and not any(finding.serious for finding in findings):
        findings += probe_findings(commands, options.words(), directory)
    return findings


def _version(commands: SlurmCommands) -> Finding:
    version = commands.version()
    name = f"Slurm {version[0]}.{version[1]:02d}" if version else "unknown Slurm version"
    if version is None or version >= OLDEST:
        return Finding(version is not None, name, "" if version else "gputui may misread it; check sbatch --version")
    oldest = f"{OLDEST[0]}.{OLDEST[1]:02d}"
    return Finding(False, f"{name} is older than {oldest}, the oldest version supported", "ask the admin to upgrade")


def _nodes(commands: SlurmCommands, options: SubmitOptions) -> Finding:
    nodes = [node for node in commands.nodes() if not options.partition or options.partition in node.partitions]
    with_gpus = [node for node in nodes if node.gpus]
    where = f" in partition {options.partition}" if options.partition else ""
    most = largest(with_gpus)
    if most is None:
        text = f"no node{where} has a GPU"
        return Finding(False, text, "find GPU nodes with sinfo -o '%P %D %G'; choose with --partition")
    total, used = sum(node.gpus for node in with_gpus), sum(node.used for node in with_gpus)
    kind = f"{most.gpu_type} " if most.gpu_type else ""
    have = f"{counted(len(with_gpus), 'node has', 'nodes have')} {counted(total, 'GPU', 'GPUs')}{where}, {used} in use"
    gpus = counted(most.gpus, f"{kind}GPU", f"{kind}GPUs")
    return Finding(True, f"{have}; the largest is {most.name}: {gpus}, {memory_words(most.memory)}")


def _closed(nodes: list[SlurmNode]) -> list[Finding]:
    closed = [node for node in nodes if node.gpus and node.state is not NodeState.UP]
    if not closed:
        return []
    named = [f"{node.name} ({_why(node)})" for node in closed[:SHOWN]]
    more = f" and {len(closed) - SHOWN} more" if len(closed) > SHOWN else ""
    return [Finding(True, f"unavailable nodes: {', '.join(named)}{more}", "see sinfo -R for since when")]


def _why(node: SlurmNode) -> str:
    return plain(f"{node.reason}{f', says {node.by}' if node.by else ''}" if node.reason else node.said.lower())


def _options(commands: SlurmCommands, options: SubmitOptions) -> list[Finding]:
    """Check the options with `sbatch --test-only`.

    Sizes are not checked, because the result would depend on closed nodes.
    """
    named = " ".join(options.words()) or "its defaults"
    try:
        commands.run("sbatch", "--test-only", *options.words(), "-o", "/dev/null", "-D", "/", "--wrap", "true")
    except SlurmError as error:
        advice = "list partitions: sinfo -s; your accounts: sacctmgr show assoc user=$USER"
        return [Finding(False, f"Slurm rejects jobs with {named}: {plain(str(error))}", advice, serious=True)]
    return [Finding(True, f"Slurm accepts jobs with {named}")]


def _accounting(commands: SlurmCommands, options: SubmitOptions) -> list[Finding]:
    if commands.settings().get("AccountingStorageType") not in (_NO_ACCOUNTING, "(null)"):
        return []
    text = "Slurm accounting is off: exit states come from gputui's own records"
    if options.account or options.qos:
        text = "Slurm accounting is off: account and QOS could not be checked"
    return [Finding(True, text)]


# The test job


PATIENCE = 45.0
"""Maximum number of seconds that the test job may wait in the queue."""
VISIBLE_WITHIN = 15.0
"""Seconds within which a file written by a node must be visible on this machine."""
CLOCK_TOLERANCE = 5.0
"""Maximum difference between clocks in seconds. Timeouts and the ages of files depend on them."""
_SCRIPT = 'printf \'%s %s\\n\' "$(date +%s.%N)" "$SLURMD_NODENAME" >{file}.new && mv {file}.new {file}'


def probe_findings(commands: SlurmCommands, options: list[str], directory: str) -> list[Finding]:
    try:
        place = tempfile.mkdtemp(prefix=".gputui-doctor-", dir=directory)
    except OSError:
        return []  # reported by the check of the directory
    file = os.path.join(place, "seen")
    try:
        return _run_probe(commands, options, directory, file)
    except SlurmError as error:
        advice = "list partitions with sinfo -s; choose with --partition"
        return [Finding(False, f"cannot run a test job: {plain(str(error))}", advice, serious=True)]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run_probe(commands: SlurmCommands, options: list[str], directory: str, file: str) -> list[Finding]:
    script = _SCRIPT.format(file=shlex.quote(file))
    number = commands.submit(
        "-J", "gputui-doctor", "--time=1", *options, "-o", "/dev/null", "-D", "/", "--wrap", script
    )
    try:
        job = _wait_for_job(commands, number, file)
    finally:
        commands.cancel(number)
    if not os.path.exists(file) and job is not None and job.phase is Phase.WAITING:
        why = plain(describe_wait(job, time.time()))
        text = f"cannot tell whether the nodes see {directory}: test job is waiting: {why}"
        return [Finding(False, text, "run gputui doctor --slurm again later")]
    if not _becomes_visible(file):
        nodes = ", ".join(job.nodes) if job is not None and job.nodes else "the nodes"
        text = f"no shared file system: a file written by {nodes} did not appear in {directory}"
        return [Finding(False, text, "use a directory shared with the nodes (--output-dir)", serious=True)]
    return _clocks(file, directory)


def _wait_for_job(commands: SlurmCommands, number: str, file: str) -> SlurmJob | None:
    """Wait until the job has ended or its file exists. Return the job's last known state."""
    ends = time.monotonic() + PATIENCE
    job: SlurmJob | None = None
    while time.monotonic() < ends and not os.path.exists(file):
        job = next((queued for queued in commands.queue(str(os.getuid())) if queued.id == number), job)
        if job is not None and job.phase is Phase.ENDED:
            break
        time.sleep(0.5)
    return job


def _becomes_visible(file: str) -> bool:
    """Wait until the file is visible and return whether it is.

    Listing its directory refreshes the cache of a shared file system.
    """
    ends = time.monotonic() + VISIBLE_WITHIN
    while not os.path.exists(file) and time.monotonic() < ends:
        os.listdir(os.path.dirname(file))
        time.sleep(0.2)
    return os.path.exists(file)


def _clocks(file: str, directory: str) -> list[Finding]:
    with open(file, errors="replace") as written:
        there, _, node = written.read(200).strip().partition(" ")
    good = Finding(True, f"{plain(node) or 'a node'} sees {directory}")
    try:
        ahead = float(there) - os.stat(file).st_mtime
        behind_us = time.time() - float(there)
    except ValueError:
        return [good]
    if abs(ahead) <= CLOCK_TOLERANCE and -CLOCK_TOLERANCE <= behind_us <= CLOCK_TOLERANCE + VISIBLE_WITHIN:
        return [good]
    off = -behind_us if behind_us < -CLOCK_TOLERANCE else ahead if abs(ahead) > CLOCK_TOLERANCE else -behind_us
    text = f"the clock of {plain(node)} is {abs(off):.0f} s {'ahead of' if off > 0 else 'behind'} this machine's"
    return [good, Finding(False, text, "ask the admin for NTP: times and timeouts are off by that much")]
