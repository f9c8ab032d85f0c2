"""What stands in place of a log while a job waits in a cluster's queue: what it asks for, why it waits, what helps."""

from __future__ import annotations

from collections import Counter

from gputui.core.job import Job
from gputui.core.snapshot import Snapshot
from gputui.core.views.amounts import counted, duration_words
from gputui.core.views.submission import submission_facts
from gputui.gpus.nodes import ClusterSample, node_of
from gputui.gpus.picture import DevicesPicture
from gputui.logs.plain import plain

ADVICE = "B requeues it at no cost; [ ] and + - act only on what is not submitted yet."


def submission_note(job: Job, snapshot: Snapshot, picture: DevicesPicture, now: float) -> str:
    submitted = snapshot.submitted.get(job.id)
    reason = submitted.why if submitted is not None and submitted.why else "Slurm has not said why it waits"
    lines = [
        submission_facts(job, submitted, snapshot.settings, now),
        f"{reason[0].upper()}{reason[1:]}.",
        *_taken(picture),
        *(("When Slurm expects it to start is Slurm's guess; it often comes earlier.",) if "expects" in reason else ()),
        "",
        ADVICE,
        *_asked(picture, now),
    ]
    return "\n".join(plain(line) for line in lines)


def _taken(picture: DevicesPicture) -> list[str]:
    """`Of 9 GPUs in service 6 are yours, 3 chen's, 0 free; n3 is draining.`"""
    cluster = _cluster(picture)
    if cluster is None or not cluster.nodes:
        return []
    closed = [node for node in cluster.nodes if node.standing.closed]
    names = {node.name for node in closed}
    open_gpus = [gpu for gpu in picture.devices if node_of(gpu.sample.key) not in names]
    ours = sum(bool(gpu.jobs) for gpu in open_gpus)
    not_ours = [gpu.sample.processes[0] for gpu in open_gpus if gpu.sample.processes and not gpu.jobs]
    others = Counter(process.user or "others" for process in not_ours)
    untold = sum(node.unplaced for node in cluster.nodes if node.name not in names)
    parts = [f"{ours} run your jobs", *(f"{count} of {user}" for user, count in others.most_common(3))]
    free = len(open_gpus) - ours - others.total() - untold
    shares = ", ".join([*parts, f"{max(0, free)} free"])
    shut = f"; {', '.join(f'{node.name} is {node.standing}' for node in closed[:3])}" if closed else ""
    return [f"Of {counted(len(open_gpus), 'GPU', 'GPUs')} in service {shares}{shut}."]


def _asked(picture: DevicesPicture, now: float) -> list[str]:
    cluster = _cluster(picture)
    if cluster is None or cluster.asked is None:
        return []
    silent = f"; {cluster.silent}" if cluster.silent else ""
    return [f"Slurm was asked for its nodes {duration_words(now - cluster.asked)} ago{silent}"]


def _cluster(picture: DevicesPicture) -> ClusterSample | None:
    return picture.sample.cluster if picture.sample is not None else None
