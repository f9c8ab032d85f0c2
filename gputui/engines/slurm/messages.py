"""Slurm's reasons and refusals in plain words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from gputui.core.amounts import DAY, moment

from .parse import SlurmJob

# ---- Why a job waits in Slurm, in words for people ----


_WORDS = {
    "": "Slurm has not looked at it yet",
    "Resources": "not enough free GPUs, CPUs or memory in {partition}",
    "Priority": "others are before it in {partition}",
    "Dependency": "it waits for another job of Slurm",
    "DependencyNeverSatisfied": "it waits for a job of Slurm that failed, and will never start",
    "JobHeldUser": "it is held in Slurm: `scontrol release {id}` lets it go",
    "JobHeldAdmin": "the admin holds it: ask them",
    "JobHoldMaxRequeue": "Slurm gave up starting it and holds it: ask the admin",
    "BeginTime": "Slurm waits with it",
    "Licenses": "no licence is free",
    "PartitionDown": "the partition {partition} is closed",
    "PartitionInactive": "the partition {partition} is closed",
    "PartitionNodeLimit": "it asks for more nodes than {partition} gives, or for closed ones",
    "PartitionTimeLimit": "it asks for more time than {partition} gives: see --time",
    "PartitionConfig": "{partition} cannot give what it asks for",
    "NodeDown": "its node is down",
    "BadConstraints": "no node can ever give what it asks for",
    "InvalidAccount": "its account may not be used: see --account",
    "InvalidQOS": "its QOS may not be used: see --qos",
    "AccountNotAllowed": "its account may not use {partition}: see --account",
    "QOSNotAllowed": "its QOS may not be used in {partition}: see --qos",
    "AccountingPolicy": "a limit of its account is reached",
    "QOSResourceLimit": "a limit of its QOS is reached",
    "AssociationResourceLimit": "a limit of its account is reached",
    "AssociationJobLimit": "its account may run no more jobs at once",
    "AssociationTimeLimit": "its account has no time left",
    "Reservation": "its reservation has not begun",
    "ReservationDeleted": "its reservation is gone",
    "Prolog": "its node is being prepared",
    "Cleaning": "what is left of its last run is being cleared away",
    "FrontEndDown": "Slurm's front end is down",
    "JobArrayTaskLimit": "its array may run no more jobs at once",
    "Constraints": "no open node has what it asks for",
    "SystemFailure": "Slurm had a failure of its own",
    "BlockMaxError": "Slurm had a failure of its own",
    "InactiveLimit": "it was inactive for too long",
}
_BEGINNINGS = (
    ("ReqNodeNotAvail", "the nodes it could run on are reserved, down or closed"),
    ("Nodes required for job are DOWN", "the nodes it could run on are down, drained or reserved"),
    ("launch failed requeued held", "it could not be started and is held: `scontrol release {id}` tries again"),
    ("BurstBuffer", "its burst buffer is not ready"),
    ("Reboot", "its node is being restarted"),
)
_AMOUNTS = {
    "GRES": "GPUs", "CPU": "CPUs", "Cpu": "CPUs", "Mem": "memory", "Memory": "memory", "Node": "nodes",
    "Nodes": "nodes",
    "Job": "jobs", "Jobs": "jobs", "SubmitJobs": "submitted jobs", "Wall": "time", "WallDuration": "time",
    "Billing": "billing units", "Energy": "energy", "License": "licences", "Unknown": "of some resource",
}  # fmt: skip
FARTHEST = 14 * DAY
"""Seconds ahead: jobs without a time limit make Slurm expect years, which nobody should be told."""
_LIMIT = re.compile(r"(Assoc|QOS|Max)(Grp|Max|Min)?([A-Z][A-Za-z]*?)(RunMinutes|Minutes)?(Per[A-Z][a-z]+)?(?:Limit)?")


def waits(job: SlurmJob, now: float) -> str:
    """`not enough free GPUs, CPUs or memory in gpu; Slurm expects 14:20 (Resources)`."""
    reason = (job.reason or "").replace("_", " ") if " " not in (job.reason or "") else job.reason or ""
    is_near = job.started is not None and now < job.started < now + FARTHEST
    expected = _expected(reason, moment(job.started or 0.0, now)) if is_near else ""
    own, words = brief(reason), explained(reason)
    if words is None:
        return f"Slurm says: {reason}{expected}"
    return words.format(partition=job.partition or "the partition", id=job.id) + expected + (f" ({own})" if own else "")


def _expected(reason: str, time: str) -> str:
    return f" until {time}" if reason == "BeginTime" else f"; Slurm expects {time}"


def brief(reason: str) -> str:
    """Slurm's own word, without what it lists behind."""
    for beginning, _ in _BEGINNINGS:
        if reason.startswith(beginning):
            return beginning if " " not in beginning else ""
    return reason


def explained(reason: str) -> str | None:
    """Our words; None: not known here."""
    if reason in _WORDS:
        return _WORDS[reason]
    for beginning, words in _BEGINNINGS:
        if reason.startswith(beginning):
            return words
    return _limit(reason)


def _limit(reason: str) -> str | None:
    """`AssocGrpGRES`, `QOSMaxJobsPerUserLimit`, `MaxGRESPerAccount`, `QOSGrpCPURunMinutes` and their like."""
    limit = _LIMIT.fullmatch(reason)
    if limit is None or (what := _AMOUNTS.get(limit[3])) is None:
        return None
    owner, scope, each = limit[1], limit[2], limit[5]
    if scope == "Min":
        return f"it asks for fewer {what} than its {'account' if owner == 'Assoc' else 'QOS'} demands"
    if each in ("PerJob", "PerNode"):
        return f"it asks for more {what} than its {'account' if owner == 'Assoc' else 'QOS'} allows"
    if limit[4]:
        return f"its {'account' if owner == 'Assoc' else 'QOS'} has used up its minutes of {what}"
    if each == "PerUser":
        return f"you may have no more {what} at once in this QOS"
    if owner == "Assoc" or each == "PerAccount":
        return f"your account may have no more {what} at once"
    return f"this QOS may have no more {what} at once"


# ---- Why Slurm does not take a job or an order, in a sentence that says what to do ----


_ASSOCIATIONS = "`sacctmgr show assoc user=$USER` lists yours"
_FEWER = "Slurm takes no more jobs of yours at once here: use fewer lanes (gpus slurm:N)"
_MEMORY = "no node has so much memory: ask for less"
_GPUS = "the cluster has no such GPU resource: `sinfo -o '%P %G'` shows what it has"
_CLOSED = "the partition is closed: choose another with --partition"

_SENTENCES = (
    ("invalid partition", "the cluster has no partition{named}: `sinfo -s` lists them; choose with --partition"),
    ("no partition specified", "the cluster has no default partition: choose with --partition (`sinfo -s` lists them)"),
    ("account/partition combination", f"the account may not be used there: {_ASSOCIATIONS}; choose with --account"),
    ("invalid account", f"the account may not be used: {_ASSOCIATIONS}; choose with --account"),
    ("user's group not permitted", "your group may not use this partition: choose another with --partition"),
    ("invalid qos", f"the QOS may not be used: {_ASSOCIATIONS}; choose with --qos"),
    ("access/permission denied", "Slurm does not let you do that"),
    ("jobs in this qos or account", _FEWER),
    ("maximum number of jobs", _FEWER),
    ("submitjob", _FEWER),
    (
        "violates accounting/qos policy",
        "the job breaks a limit of your account or QOS (jobs at once, size, or time): use fewer lanes, or ask for less",
    ),
    ("time limit", "the partition does not allow so much time: ask for less with --time"),
    ("more processors requested than permitted", "no node has so many CPUs: ask for less"),
    ("memory specification can not be satisfied", _MEMORY),
    ("memory required by task is not available", _MEMORY),
    (
        "node configuration is not available",
        "no node that is open now has what the job asks for: ask for less, or see `sinfo -R` for closed nodes",
    ),
    ("generic resource", _GPUS),
    ("gres", _GPUS),
    ("invalid feature", "no node has that feature: `sinfo -o '%N %f'` shows them; choose with --constraint"),
    ("invalid node name", "the cluster has no such node: `sinfo -N` lists them"),
    ("invalid license", "the cluster has no such licence: `scontrol show lic` lists them"),
    ("required partition not available", _CLOSED),
    ("partition is down", _CLOSED),
    ("unrecognized option", "sbatch knows no option {option}: see `sbatch --help`"),
    (
        "establish a configuration source",
        "Slurm is installed here, but this machine is in no cluster: there is no slurm.conf (SLURM_CONF names one)",
    ),
    ("unable to resolve", "Slurm cannot find its controller: is SLURM_CONF as it should be?"),
    ("invalid job id", "Slurm does not know the job any more"),
)


def refusal(program: str, said: str) -> str:
    """What its user is told."""
    low = said.lower()
    for words, sentence in _SENTENCES:
        if words in low:
            return _filled(sentence, said)
    return f"{program}: {_last(said)}"


def _filled(sentence: str, said: str) -> str:
    partition = re.search(r"invalid partition specified: (\S+)", said)
    option = re.search(r"unrecognized option '?([^'\s]+)", said)
    named = f" {partition[1]}" if partition else ""
    return sentence.format(named=named, option=option[1] if option else "like that")


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else "it failed and said nothing"
    return re.sub(r"^(?:\w+: )?(?:error: )?(?:Batch job submission failed: )?", "", words)


# ---- What a session may want of sbatch, and what Slurm's refusals of it mean ----


LATER = (
    "jobs in this qos or account", "maximum number of jobs", "violates accounting/qos policy", "temporarily",
    "node configuration is not available", "required partition not available", "partition is down",
)  # fmt: skip
"""What Slurm says when the same job may be taken later."""
OURS = (
    "-J", "--job-name", "--comment", "-o", "--output", "-e", "--error", "-D", "--chdir", "-a", "--array", "--export",
    "--export-file", "--requeue", "--wrap", "--parsable", "--test-only", "-N", "--nodes", "-W", "--wait", "-H",
    "--hold", "-i", "--input", "-d", "--dependency", "-M", "--clusters", "-Q", "--quiet", "-v", "--verbose", "-h",
    "--help",
)  # fmt: skip
"""Options by which an attempt would not be ours any more, or not one."""


def wished(options: Mapping[str, Any]) -> list[str]:
    """What a session wants of the cluster, by the names of its settings, as sbatch takes it."""
    wishes = {name: options.get(name) for name in ("partition", "account", "qos", "constraint")}
    words = [f"--{name}={value}" for name, value in wishes.items() if value]
    time = minutes(options.get("time"))
    return [*(options.get("sbatch_opt") or ()), *words, *([f"--time={time}"] if time else [])]


def minutes(seconds: float | None) -> str:
    return str(max(1, math.ceil(seconds / 60))) if seconds is not None else ""
