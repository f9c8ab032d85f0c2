"""Samples of a cluster: its nodes as Slurm tells of them, and the figures that supervisors write beside their jobs.

All that may block (Slurm's commands, files on a shared disk) happens in a thread of its own, which is never waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from gputui.core.lanes import DeviceKind
from gputui.engines.slurm.commands import SlurmCommands, SlurmError
from gputui.gpus.nodes import ClusterSample
from gputui.gpus.sample import Sample
from gputui.process.threads import NoThread, begin

from .cluster_facts import ClusterFacts, cluster_devices, cluster_nodes
from .gpu_use import UsedGpu, gpu_use

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
