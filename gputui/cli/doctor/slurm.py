"""The cluster: whether Slurm is there and answers, takes our jobs with these options, and has GPUs."""

from __future__ import annotations

from msgspec import Struct

from gputui.core.views.amounts import counted, memory_words
from gputui.engines.slurm.answers import NodeState, SlurmNode, largest
from gputui.engines.slurm.commands import OLDEST, NoSlurm, SlurmCommands, SlurmError, SlurmSilent
from gputui.gpus.doctor import Finding
from gputui.logs.plain import plain

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
        from .probe import probe_findings

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
