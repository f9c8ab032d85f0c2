"""A job that waits in a cluster's own queue: by which words it is known, and all that is to be said of it. Pure."""

from __future__ import annotations

from gputui.core.events import Settings, Submitted
from gputui.core.job import EngineName, Job, Starting

from .amounts import counted, duration_words, memory, moment

SIGN, WORD, SHORT_WORD = "◷", "submitted", "sub"
"""It is `starting` to everything else: nothing of it has run, and it can be taken back."""


def is_submitted(job: Job) -> bool:
    return isinstance(job.state, Starting) and job.active is not None and job.active.engine is not EngineName.LOCAL


def submission_facts(job: Job, submitted: Submitted | None, settings: Settings, now: float) -> str:
    """`Submitted at 13:41 as Slurm job 88240: partition gpu, 2 GPUs, 24.0G of memory each, at most 2 h.`"""
    assert job.active is not None
    number = f" as Slurm job {submitted.slurm_job}" if submitted is not None and submitted.slurm_job else ""
    return f"Submitted at {moment(job.active.since, now)}{number}: {', '.join(_asked(job, settings))}."


def _asked(job: Job, settings: Settings) -> list[str]:
    request, limit = job.request, job.spec.timeout or settings.time
    named = {"partition": settings.partition, "account": settings.account, "QOS": settings.qos}
    wishes = [f"{name} {value}" for name, value in named.items() if value]
    wishes.append(counted(1 if request.gpus is None else request.gpus, "GPU", "GPUs"))
    if request.memory is not None:
        wishes.append(f"{memory(request.memory)} of memory")
    if limit:
        wishes.append(f"at most {duration_words(limit)}")
    return wishes
