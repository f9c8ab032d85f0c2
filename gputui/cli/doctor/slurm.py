"""Checks of the cluster, with a probe job."""

from __future__ import annotations

import os
import shlex
import tempfile
import time

from msgspec import Struct

from gputui.core.amounts import counted, memory_words
from gputui.engines.slurm.client import OLDEST, NoSlurm, SlurmCommands, SlurmError, SlurmSilent
from gputui.engines.slurm.messages import waits
from gputui.engines.slurm.parse import NodeState, Phase, SlurmJob, SlurmNode, largest
from gputui.logs.plain import plain

from .machine import Finding

# ---- The cluster ----


SHOWN = 5
"""Closed nodes that are named."""
_NO_ACCOUNTING = "accounting_storage/none"


class SlurmWishes(Struct, frozen=True):
    """What jobs are submitted with; `asked`: the user works with Slurm, so that its absence is a fault."""

    asked: bool = False
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    further: tuple[str, ...] = ()

    def words(self) -> list[str]:
        named = {"partition": self.partition, "account": self.account, "qos": self.qos, "constraint": self.constraint}
        return [*(f"--{name}={value}" for name, value in named.items() if value), *self.further]


def slurm_findings(wishes: SlurmWishes, folder: str, *, probe: bool) -> list[Finding]:
    """`folder`: where a session's jobs write. `probe`: a job is submitted to see whether the nodes see it."""
    commands = SlurmCommands()
    try:
        general = [_version(commands), _nodes(commands, wishes)]
        closed = _closed(commands.nodes())
    except NoSlurm as error:
        return [Finding(False, str(error), "without a cluster: gputui run --gpus all", serious=True)] * wishes.asked
    except SlurmSilent as error:
        advice = "scontrol ping; jobs that run go on, and gputui waits until it answers"
        return [Finding(False, str(error), advice, serious=wishes.asked)]
    except SlurmError as error:
        return [Finding(False, plain(str(error)), _advice(error), serious=wishes.asked)]
    findings = [*general, *closed, *_options(commands, wishes), *_accounting(commands, wishes)]
    if probe and not any(finding.serious for finding in findings):
        findings += probe_findings(commands, wishes.words(), folder)
    return findings


def _advice(error: SlurmError) -> str:
    if "slurm.conf" in str(error):
        return "export SLURM_CONF=FILE, where this machine is in a cluster; without one: gputui run --gpus all"
    return "sinfo shows what Slurm itself says"


def _version(commands: SlurmCommands) -> Finding:
    version = commands.version()
    name = f"Slurm {version[0]}.{version[1]:02d}" if version else "Slurm of a version that does not tell itself"
    if version is None or version >= OLDEST:
        return Finding(version is not None, name, "" if version else "gputui may misread it: sbatch --version")
    oldest = f"{OLDEST[0]}.{OLDEST[1]:02d}"
    return Finding(
        False, f"{name} is older than {oldest}, the oldest that gputui knows", "ask the admin for a newer one"
    )


def _nodes(commands: SlurmCommands, wishes: SlurmWishes) -> Finding:
    nodes = [node for node in commands.nodes() if not wishes.partition or wishes.partition in node.partitions]
    with_gpus = [node for node in nodes if node.gpus]
    where = f" in partition {wishes.partition}" if wishes.partition else ""
    most = largest(with_gpus)
    if most is None:
        text = f"no node{where} has a GPU"
        return Finding(False, text, "sinfo -o '%P %D %G' shows where they are; choose with --partition")
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
    return [Finding(True, f"closed: {', '.join(named)}{more}", "sinfo -R tells since when")]


def _why(node: SlurmNode) -> str:
    return plain(f"{node.reason}{f', says {node.by}' if node.by else ''}" if node.reason else node.said.lower())


def _options(commands: SlurmCommands, wishes: SlurmWishes) -> list[Finding]:
    """Slurm's own test of partition, account, QOS and whatever else; not of sizes, which closed nodes would blur."""
    named = " ".join(wishes.words()) or "its defaults"
    try:
        commands.run("sbatch", "--test-only", *wishes.words(), "-o", "/dev/null", "-D", "/", "--wrap", "true")
    except SlurmError as error:
        advice = "sinfo -s lists partitions, sacctmgr show assoc user=$USER your accounts"
        return [Finding(False, f"Slurm takes no job with {named}: {plain(str(error))}", advice, serious=True)]
    return [Finding(True, f"Slurm takes jobs with {named}")]


def _accounting(commands: SlurmCommands, wishes: SlurmWishes) -> list[Finding]:
    if commands.settings().get("AccountingStorageType") not in (_NO_ACCOUNTING, "(null)"):
        return []
    text = "the cluster keeps no accounts: how a job ended is known from what its supervisor writes"
    if wishes.account or wishes.qos:
        text = "the cluster keeps no accounts, so it takes any account and QOS, and these could not be checked"
    return [Finding(True, text)]


# ---- probe ----


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
