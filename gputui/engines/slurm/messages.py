"""Translate Slurm's reasons and errors into plain English."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from gputui.core.amounts import DAY, moment
from gputui.core.regex import lazy_regex

from .parse import SlurmJob

# Why a job waits


_WORDS = {
    "": "not yet considered by Slurm",
    "Resources": "not enough free GPUs, CPUs or memory in {partition}",
    "Priority": "other jobs are ahead in {partition}",
    "Dependency": "waiting for another Slurm job",
    "DependencyNeverSatisfied": "depends on a Slurm job that failed; will never start",
    "JobHeldUser": "held in Slurm; release with `scontrol release {id}`",
    "JobHeldAdmin": "held by the admin; ask them",
    "JobHoldMaxRequeue": "held: Slurm failed to start it; ask the admin",
    "BeginTime": "delayed by Slurm",
    "Licenses": "no free license",
    "PartitionDown": "partition {partition} is closed",
    "PartitionInactive": "partition {partition} is closed",
    "PartitionNodeLimit": "requests more nodes than {partition} allows, or closed ones",
    "PartitionTimeLimit": "requests more time than {partition} allows; see --time",
    "PartitionConfig": "{partition} cannot satisfy its request",
    "NodeDown": "its node is down",
    "BadConstraints": "no node can satisfy its request",
    "InvalidAccount": "account not allowed; see --account",
    "InvalidQOS": "QOS not allowed; see --qos",
    "AccountNotAllowed": "account not allowed in {partition}; see --account",
    "QOSNotAllowed": "QOS not allowed in {partition}; see --qos",
    "Reservation": "reservation has not started",
    "ReservationDeleted": "reservation is gone",
    "Prolog": "node is being prepared",
    "Cleaning": "cleaning up after its last run",
    "Constraints": "no available node satisfies its request",
    "SystemFailure": "internal Slurm error",
}
_BEGINNINGS = (
    ("ReqNodeNotAvail", "all suitable nodes are reserved, down or closed"),
    ("Nodes required for job are DOWN", "all suitable nodes are down, drained or reserved"),
    ("launch failed requeued held", "failed to start, now held; retry with `scontrol release {id}`"),
    ("BurstBuffer", "burst buffer is not ready"),
    ("Reboot", "node is restarting"),
)
_AMOUNTS = {
    "GRES": "GPUs", "CPU": "CPUs", "Cpu": "CPUs", "Mem": "memory", "Memory": "memory", "Node": "nodes",
    "Nodes": "nodes",
    "Job": "jobs", "Jobs": "jobs", "SubmitJobs": "submitted jobs", "Wall": "time", "WallDuration": "time",
    "Billing": "billing units", "Energy": "energy", "License": "licenses", "Unknown": "a resource",
}  # fmt: skip
FARTHEST = 14 * DAY
"""Maximum seconds from now to an expected start that is shown. Without time limits, Slurm's estimates are useless."""
_LIMIT = lazy_regex(r"(Assoc|QOS|Max)(Grp|Max|Min)?([A-Z][A-Za-z]*?)(RunMinutes|Minutes)?(Per[A-Z][a-z]+)?(?:Limit)?")


def describe_wait(job: SlurmJob, now: float) -> str:
    """Describe why a job is waiting: `not enough free GPUs, CPUs or memory in gpu; Slurm expects 14:20 (Resources)`."""
    reason = job.reason or ""
    if " " not in reason:
        reason = reason.replace("_", " ")
    expected = ""
    if job.started is not None and now < job.started < now + FARTHEST:
        expected = (" until " if reason == "BeginTime" else "; Slurm expects ") + moment(job.started, now)
    name, words = reason, _WORDS.get(reason) or _limit(reason)
    for beginning, meaning in _BEGINNINGS:
        if reason.startswith(beginning):
            name, words = "" if " " in beginning else beginning, meaning
    if words is None:
        return f"Slurm: {reason}{expected}"
    words = words.format(partition=job.partition or "the partition", id=job.id)
    return words + expected + (f" ({name})" if name else "")


def _limit(reason: str) -> str | None:
    """Explain limits such as `AssocGrpGRES`, `QOSMaxJobsPerUserLimit`, `MaxGRESPerAccount`, `QOSGrpCPURunMinutes`."""
    limit = _LIMIT.fullmatch(reason)
    if limit is None or (what := _AMOUNTS.get(limit[3])) is None:
        return None
    scope, minutes, per = limit[2], limit[4], limit[5]
    owner = "account" if limit[1] == "Assoc" else "QOS"
    if scope == "Min":
        return f"requests fewer {what} than its {owner} requires"
    if per in ("PerJob", "PerNode"):
        return f"requests more {what} than its {owner} allows"
    if minutes:
        return f"its {owner} has no minutes left for {what}"
    if per == "PerUser":
        return f"your limit of {what} in this QOS is reached"
    if owner == "account" or per == "PerAccount":
        return f"your account's limit of {what} is reached"
    return f"the QOS limit of {what} is reached"


# Why Slurm refuses a job or an order


_ASSOCIATIONS = "see `sacctmgr show assoc user=$USER`"
_FEWER = "Slurm job limit reached: keep fewer jobs in its queue (gputui gpus slurm:N)"
_MEMORY = "no node has that much memory: request less"
_GPUS = "no such GPU resource in the cluster: see `sinfo -o '%P %G'`"
_CLOSED = "the partition is closed: choose another with --partition"

_SENTENCES = (
    ("invalid partition", "no such partition{named}: choose one with --partition (see `sinfo -s`)"),
    ("no partition specified", "no default partition: choose one with --partition (see `sinfo -s`)"),
    ("account/partition combination", f"account not allowed there: {_ASSOCIATIONS}; choose with --account"),
    ("invalid account", f"account not allowed: {_ASSOCIATIONS}; choose with --account"),
    ("user's group not permitted", "your group may not use this partition: choose another with --partition"),
    ("invalid qos", f"QOS not allowed: {_ASSOCIATIONS}; choose with --qos"),
    ("access/permission denied", "permission denied by Slurm"),
    ("jobs in this qos or account", _FEWER),
    ("maximum number of jobs", _FEWER),
    ("submitjob", _FEWER),
    (
        "violates accounting/qos policy",
        "job exceeds an account or QOS limit (number of jobs, size or time): request less, or gputui gpus slurm:N",
    ),
    ("time limit", "time limit exceeds the partition's: lower it with --time"),
    ("more processors requested than permitted", "no node has that many CPUs: request fewer"),
    ("memory specification can not be satisfied", _MEMORY),
    ("memory required by task is not available", _MEMORY),
    (
        "node configuration is not available",
        "no available node satisfies the request: request less, or see `sinfo -R` for closed nodes",
    ),
    ("generic resource", _GPUS),
    ("gres", _GPUS),
    ("invalid feature", "no node has that feature: choose with --constraint (see `sinfo -o '%N %f'`)"),
    ("invalid node name", "no such node in the cluster: see `sinfo -N`"),
    ("invalid license", "no such license in the cluster: see `scontrol show lic`"),
    ("required partition not available", _CLOSED),
    ("partition is down", _CLOSED),
    ("unrecognized option", "sbatch has no option {option}: see `sbatch --help`"),
    (
        "establish a configuration source",
        "Slurm is installed, but this machine is not in a cluster: no slurm.conf found (set SLURM_CONF)",
    ),
    ("unable to resolve", "Slurm cannot find its controller: check SLURM_CONF"),
    ("invalid job id", "Slurm no longer knows the job"),
)


def refusal(program: str, said: str) -> str:
    """Translate an error message of a Slurm program."""
    low = said.lower()
    for words, sentence in _SENTENCES:
        if words in low:
            partition = re.search(r"invalid partition specified: (\S+)", said)
            option = re.search(r"unrecognized option '?([^'\s]+)", said)
            named = f" {partition[1]}" if partition else ""
            return sentence.format(named=named, option=option[1] if option else "of that name")
    return f"{program}: {last_line(said)}"


def last_line(said: str) -> str:
    """Return the last line of an error message without its usual prefixes."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else "failed without a message"
    return re.sub(r"^(?:\w+: )?(?:error: )?(?:Batch job submission failed: )?", "", words)


# Options for sbatch


LATER = (
    "jobs in this qos or account", "maximum number of jobs", "violates accounting/qos policy", "temporarily",
    "node configuration is not available", "required partition not available", "partition is down",
)  # fmt: skip
"""Phrases in refusals which mean that the same job may be accepted later."""
OURS = (
    "-J", "--job-name", "--comment", "-o", "--output", "-e", "--error", "-D", "--chdir", "-a", "--array", "--export",
    "--export-file", "--requeue", "--wrap", "--parsable", "--test-only", "-N", "--nodes", "-W", "--wait", "-H",
    "--hold", "-i", "--input", "-d", "--dependency", "-M", "--clusters", "-Q", "--quiet", "-v", "--verbose", "-h",
    "--help",
)  # fmt: skip
"""Options that users cannot set because gputui needs them to control the attempt."""


def sbatch_options(options: Mapping[str, Any]) -> list[str]:
    """Return the sbatch options for the settings of a session."""
    named = {name: options.get(name) for name in ("partition", "account", "qos", "constraint")}
    words = [f"--{name}={value}" for name, value in named.items() if value]
    time = minutes(options.get("time"))
    return [*(options.get("sbatch_opt") or ()), *words, *([f"--time={time}"] if time else [])]


def minutes(seconds: float | None) -> str:
    return str(max(1, math.ceil(seconds / 60))) if seconds is not None else ""
