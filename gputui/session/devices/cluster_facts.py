"""Puts together what a cluster said of its nodes and jobs with what our own jobs hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gputui.engines.slurm.answers import NodeState, SlurmEnd, SlurmNode
from gputui.gpus.nodes import NodeSample, NodeStanding, device_word, node_of
from gputui.gpus.sample import DeviceSample, ProcessSample

from .gpu_use import UsedGpu

_STANDINGS = {
    NodeState.UP: NodeStanding.UP,
    NodeState.DRAINING: NodeStanding.DRAINING,
    NodeState.DRAINED: NodeStanding.DRAINED,
    NodeState.DOWN: NodeStanding.DOWN,
}


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """The newest answers; what was known stays while the cluster is silent."""

    name: str = ""
    partition: str | None = None
    """The cluster's default."""
    wanted: str | None = None
    """The partition whose nodes are of interest; None: all."""
    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[SlurmEnd, ...] = ()
    users: Mapping[str, str] = {}
    """By Slurm's number of a job."""
    session: str = ""
    """Whose jobs are not others': what they hold is known from their own reports, and sooner."""
    asked: float | None = None
    silent: str | None = None

    def silenced(self, why: str) -> ClusterFacts:
        return replace(self, silent=why)

    @property
    def shown(self) -> list[SlurmNode]:
        """Nodes with GPUs, of the partition that is asked for."""
        partitions = set((self.wanted or "").split(",")) - {""}
        return [
            node for node in self.nodes if node.gpus and (not partitions or not partitions.isdisjoint(node.partitions))
        ]


def cluster_devices(facts: ClusterFacts, held: Iterable[str], used: Mapping[str, UsedGpu]) -> tuple[DeviceSample, ...]:
    """Every GPU of the nodes, and those of our jobs that no answer told of."""
    ours = set(held)
    others = _others(facts)
    devices = {}
    for node in facts.shown:
        for index in range(node.gpus):
            word = device_word(node.name, index)
            processes = others.get(word, ()) if word not in ours else ()
            devices[word] = _device(word, node.gpu_type, used.get(word), processes)
    for word in sorted(ours - devices.keys()):
        devices[word] = _device(word, "", used.get(word), ())
    return tuple(devices.values())


def _device(word: str, kind: str, used: UsedGpu | None, processes: tuple[ProcessSample, ...]) -> DeviceSample:
    index = word.rpartition(":")[2]
    used = used or UsedGpu()
    return DeviceSample(
        index=int(index) if index.isdecimal() else 0,
        uuid=word,
        name=kind or "GPU",
        utilization=used.utilization,
        memory_used=used.memory_used,
        memory_total=used.memory_total,
        temperature=used.temperature,
        power=used.power,
        processes=processes,
    )


def _others(facts: ClusterFacts) -> dict[str, tuple[ProcessSample, ...]]:
    """A job of Slurm stands for its processes there: its number for the pid, which means nothing here."""
    processes: dict[str, tuple[ProcessSample, ...]] = {}
    for job in facts.jobs:
        if facts.session and facts.session in f"{job.comment} {job.name}":
            continue
        number = int(job.id) if job.id.isdecimal() else 0
        process = ProcessSample(pid=number, compute=True, user=facts.users.get(job.id), command=f"Slurm job {job.id}")
        for node, index in job.places:
            word = device_word(node, index)
            processes[word] = (*processes.get(word, ()), process)
    return processes


def cluster_nodes(facts: ClusterFacts, held: Iterable[str]) -> tuple[NodeSample, ...]:
    words_by_node: dict[str, set[str]] = {}
    reported = (device_word(node, index) for job in facts.jobs for node, index in job.places)
    for word in (*held, *reported):
        words_by_node.setdefault(node_of(word), set()).add(word)
    return tuple(
        NodeSample(
            name=node.name,
            standing=_STANDINGS[node.state],
            gpus=node.gpus,
            used=max(node.used, len(words_by_node.get(node.name, ()))),
            unplaced=max(0, node.used - len(words_by_node.get(node.name, ()))),
            reason=node.reason,
            closed_by=node.by,
            closed_at=node.since,
        )
        for node in facts.shown
    )
