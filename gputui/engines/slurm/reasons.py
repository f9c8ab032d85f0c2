"""Why a job waits in Slurm, in words for people: first ours, then Slurm's own in brackets. Pure.

A reason that is not known here is shown as it is.
"""

from __future__ import annotations

import re

from gputui.core.views.amounts import DAY, moment

from .answers import SlurmJob

_WORDS = {
    "": "Slurm has not looked at it yet",
    "Resources": "no GPU of {partition} is free",
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
    """`no GPU of gpu is free; Slurm expects 14:20 (Resources)`."""
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
