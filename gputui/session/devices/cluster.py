"""Samples of a cluster's nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from gputui.core.lanes import DeviceKind
from gputui.engines.slurm.client import SlurmCommands, SlurmError
from gputui.engines.slurm.parse import NodeState, SlurmEnd, SlurmNode
from gputui.gpus.sample import (
    ClusterSample,
    DeviceSample,
    NodeSample,
    NodeStanding,
    ProcessSample,
    Sample,
    device_word,
    node_of,
)
from gputui.process.watch import NoThread, begin

from .picture import UsedGpu, gpu_use

# ---- Puts together what a cluster said of its nodes and jobs with what our own jobs hold ----


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


# ---- Samples of a cluster ----


FIGURES_EVERY, NODES_EVERY, NODES_SELDOM = 2.0, 10.0, 30.0
"""Seconds. Admins dislike to be asked often: a cluster that is slow or silent is asked seldom."""
SLOW = 0.5
"""Seconds for an answer, from which on a cluster is slow."""

Held = Mapping[str, str]
"""The file with the figures of each GPU that a job of ours holds, by the GPU's word."""


class ClusterSampler:
    """`asks`: somebody looks at the nodes; else only the GPUs of our jobs are measured, and Slurm is left alone, but
    for its name."""

    def __init__(self, held: Callable[[], Held], session: str, *, partition: str | None, asks: bool) -> None:
        self._held_now = held
        self._partition = partition
        self._asks = asks
        self._held: Held = {}
        self._commands = SlurmCommands()
        self._facts = ClusterFacts(session=session)
        self._next_question = 0.0
        self._newest: Sample | None = None
        self._given: Sample | None = None
        self._over = threading.Event()
        with suppress(NoThread):  # without one there are no samples, and jobs run all the same
            begin(self._run, "gputui-cluster")

    # In the owner's thread

    def fileno(self) -> int | None:
        return None

    def patience(self) -> float:
        return 0.5

    def read(self) -> Sample | None:
        self._held = self._held_now()
        newest = self._newest
        if newest is None or newest is self._given:
            return None
        self._given = newest
        return newest

    def close(self) -> None:
        self._over.set()

    # In a thread of its own

    def _run(self) -> None:
        if not self._asks:
            with suppress(SlurmError):
                self._facts = replace(self._facts, name=self._commands.settings().get("ClusterName", ""))
        while not self._over.is_set():
            begun = time.monotonic()
            if self._asks and begun >= self._next_question:
                self._ask(begun)
            self._newest = self._sample(gpu_use(self._held))
            self._over.wait(max(0.1, FIGURES_EVERY - (time.monotonic() - begun)))

    def _ask(self, begun: float) -> None:
        try:
            self._facts = _asked(self._commands, self._facts, self._partition)
        except SlurmError as error:
            self._facts = self._facts.silenced(str(error))
        slow = self._facts.silent is not None or time.monotonic() - begun > SLOW
        self._next_question = time.monotonic() + (NODES_SELDOM if slow else NODES_EVERY)

    def _sample(self, used: Mapping[str, UsedGpu]) -> Sample:
        facts, held = self._facts, self._held
        return Sample(
            kind=DeviceKind.SLURM,
            taken=time.time(),
            devices=cluster_devices(facts, held, used),
            complete=facts.asked is not None or facts.silent is not None or not self._asks,
            foreign_pids=True,
            cluster=ClusterSample(
                name=facts.name,
                partition=self._partition or facts.partition,
                nodes=cluster_nodes(facts, held),
                asked=facts.asked,
                silent=facts.silent,
            ),
        )


def _asked(commands: SlurmCommands, before: ClusterFacts, partition: str | None) -> ClusterFacts:
    nodes = commands.nodes()
    # Whose jobs are where is a long answer on a large cluster: only if there are any.
    busy = any(node.used for node in nodes)
    return ClusterFacts(
        session=before.session,
        name=before.name or commands.settings().get("ClusterName", ""),
        partition=before.partition or commands.default_partition(),
        wanted=partition,
        nodes=tuple(nodes),
        jobs=tuple(commands.details()) if busy else (),
        users={job.id: job.user for job in commands.busy()} if busy else {},
        asked=time.time(),
    )


def sampled_once(partition: str | None, patience: float) -> Sample:
    """For whoever has no session: what the cluster says now. Raises SlurmError."""
    facts = _asked(SlurmCommands(patience=patience), ClusterFacts(), partition)
    cluster = ClusterSample(
        name=facts.name, partition=partition or facts.partition, nodes=cluster_nodes(facts, {}), asked=facts.asked
    )
    return Sample(
        kind=DeviceKind.SLURM, taken=time.time(), devices=cluster_devices(facts, {}, {}), foreign_pids=True,
        cluster=cluster,
    )  # fmt: skip
