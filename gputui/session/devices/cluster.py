"""The Slurm cluster of a session: its limits, and the sampling of its nodes and their GPUs."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from gputui.core.slots import DeviceKind, NodeSize
from gputui.engines.slurm.client import NoSlurm, SlurmCommands, SlurmError, SlurmRefused, SlurmSilent
from gputui.engines.slurm.messages import LATER, OURS, sbatch_options
from gputui.engines.slurm.parse import SlurmEnd, SlurmNode, largest
from gputui.gpus.sample import (
    ClusterSample,
    DeviceSample,
    NodeSample,
    ProcessSample,
    Sample,
    device_word,
    node_of,
)
from gputui.gpus.slots import MOST_IN_SLURM
from gputui.process.watch import NoThread, start_thread

# The figures of GPUs, which jobs write on their nodes


GPU_USE_FILE = "gpu_use.csv"
FRESH = 15.0
"""Seconds after which figures are outdated. This leaves room for clocks that differ between nodes and for caches of
shared disks.
"""
_MOST = 64 * 1024
"""Maximum number of bytes to read, because a job may write anything into its own directory."""


class UsedGpu(Struct, frozen=True, kw_only=True):
    """The figures of one GPU as nvidia-smi reported them on its node; None for figures that it could not report."""

    utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    power: float | None = None


def gpu_use(held: Mapping[str, str]) -> dict[str, UsedGpu]:
    """Read the figures that jobs write on their nodes. Missing, outdated and damaged files are ignored.

    `held` gives the file for each GPU. Its keys and those of the result are the GPUs' names (`node:index`).
    """
    now = time.time()
    read = {path: _read(path, now) for path in set(held.values())}
    return {word: used for word, path in held.items() if (used := read[path].get(word.rpartition(":")[2])) is not None}


def _read(path: str, now: float) -> dict[str, UsedGpu]:
    try:
        # O_NONBLOCK: a job could put a pipe there.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="ascii", errors="replace") as file:
            if now - os.fstat(file.fileno()).st_mtime > FRESH:
                return {}
            lines = file.read(_MOST).splitlines()
    except OSError:
        return {}
    fields = (line.split(",") for line in lines)
    return {each[0].strip(): _used(each) for each in fields if len(each) == 6}


def _used(fields: list[str]) -> UsedGpu:
    _, load, used, total, heat, power = (_number(field) for field in fields)
    return UsedGpu(
        utilization=None if load is None else round(load),
        memory_used=None if used is None else round(used * 1024**2),
        memory_total=None if total is None else round(total * 1024**2),
        temperature=None if heat is None else round(heat),
        power=power,
    )


def _number(text: str) -> float | None:
    """Parse a figure. Return None for `[N/A]`, `[Not Supported]` and the like, and for infinity."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None


# The nodes


FIGURES_EVERY, NODES_EVERY, NODES_SELDOM = 2.0, 10.0, 30.0
"""Seconds between readings of the figures, between queries of the nodes, and between queries of a slow or silent
cluster. Such a cluster is queried less often because frequent queries burden it.
"""
SLOW = 0.5
"""Seconds that an answer may take before the cluster counts as slow."""

FigureFiles = Mapping[str, str]
"""The files with the figures of the GPUs that jobs of this session hold, keyed by the GPU's name (`node:index`)."""


class ClusterFacts(Struct, frozen=True, kw_only=True):
    """The latest answers of the cluster. They are kept while the cluster does not answer."""

    name: str = ""
    partition: str | None = None
    """The cluster's default partition."""
    wanted: str | None = None
    """The partitions whose nodes are shown, separated by commas; None for all."""
    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[SlurmEnd, ...] = ()
    users: Mapping[str, str] = {}
    """Users who own the jobs, by the job id in Slurm."""
    session: str = ""
    """The session's uuid. Its own jobs are left out of the answers, because the session knows sooner which GPUs they
    hold.
    """
    asked: float | None = None
    silent: str | None = None

    @property
    def shown(self) -> list[SlurmNode]:
        """The nodes that have GPUs and are in the wanted partitions."""
        partitions = set((self.wanted or "").split(",")) - {""}
        return [
            node for node in self.nodes if node.gpus and (not partitions or not partitions.isdisjoint(node.partitions))
        ]


def cluster_devices(facts: ClusterFacts, held: Iterable[str], used: Mapping[str, UsedGpu]) -> tuple[DeviceSample, ...]:
    """Return every GPU of the shown nodes, and those GPUs of other nodes that our jobs hold."""
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
    figures = asdict(used) if used is not None else {}
    number = int(index) if index.isdecimal() else 0
    return DeviceSample(index=number, uuid=word, name=kind or "GPU", processes=processes, **figures)


def _others(facts: ClusterFacts) -> dict[str, tuple[ProcessSample, ...]]:
    """Represent each Slurm job of others as one process. The Slurm job id takes the place of the pid, because pids of
    other machines mean nothing here.
    """
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
            standing=node.state,
            gpus=node.gpus,
            used=max(node.used, len(words_by_node.get(node.name, ()))),
            unplaced=max(0, node.used - len(words_by_node.get(node.name, ()))),
            reason=node.reason,
            closed_by=node.by,
            closed_at=node.since,
        )
        for node in facts.shown
    )


class ClusterSampler:
    """A sampler of a cluster's nodes that runs in a thread of its own.

    The nodes are queried only if `asks` is set, because somebody watches them. Otherwise only the GPUs of our jobs are
    measured, from the files that the jobs write.
    """

    def __init__(self, held: Callable[[], FigureFiles], session: str, *, partition: str | None, asks: bool) -> None:
        self._held_now = held
        self._partition = partition
        self._asks = asks
        self._held: FigureFiles = {}
        self._commands = SlurmCommands()
        self._facts = ClusterFacts(session=session)
        self._next_question = 0.0
        self._newest: Sample | None = None
        self._given: Sample | None = None
        self._over = threading.Event()
        with suppress(NoThread):  # jobs also run without samples
            start_thread(self._run, "gputui-cluster")

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
            started = time.monotonic()
            if self._asks and started >= self._next_question:
                self._ask(started)
            self._newest = self._sample(gpu_use(self._held))
            self._over.wait(max(0.1, FIGURES_EVERY - (time.monotonic() - started)))

    def _ask(self, started: float) -> None:
        try:
            self._facts = _query(self._commands, self._facts, self._partition)
        except SlurmError as error:
            self._facts = replace(self._facts, silent=str(error))
        slow = self._facts.silent is not None or time.monotonic() - started > SLOW
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


def _query(commands: SlurmCommands, before: ClusterFacts, partition: str | None) -> ClusterFacts:
    nodes = commands.nodes()
    # The list of jobs is long on a large cluster.
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
    """Sample the cluster once, without a session. Raise SlurmError if it does not answer."""
    facts = _query(SlurmCommands(patience=patience), ClusterFacts(), partition)
    cluster = ClusterSample(
        name=facts.name, partition=partition or facts.partition, nodes=cluster_nodes(facts, {}), asked=facts.asked
    )
    return Sample(
        kind=DeviceKind.SLURM, taken=time.time(), devices=cluster_devices(facts, {}, {}), foreign_pids=True,
        cluster=cluster,
    )  # fmt: skip


# Checks before a session uses the cluster


PATIENCE = 12.0
"""Seconds to wait for the Slurm controller."""


class ClusterError(Exception):
    """Raised when the cluster cannot be used. The message is shown to the user."""


class ClusterLimits(Struct, frozen=True):
    most_jobs: int = MOST_IN_SLURM
    """Maximum number of jobs that one user may have in the cluster at the same time."""
    largest: NodeSize | None = None
    trouble: str = ""
    """Reason why the cluster did not answer, or an empty string if it did."""


def inspect_cluster(options: Mapping[str, Any]) -> ClusterLimits:
    """Return the cluster's limits. Raise ClusterError if there is no cluster or if it lacks something that the options
    name, such as a partition.
    """
    _check_options(options.get("sbatch_opt") or ())
    commands = SlurmCommands(patience=PATIENCE)
    try:
        partitions = commands.run("sinfo", "-h", "-o", "%R").split()
        for name in (options.get("partition") or "").split(","):
            if name and name not in partitions:
                known = ", ".join(dict.fromkeys(partitions))
                raise ClusterError(f"no partition {name}; available: {known}")
        most = largest(commands.nodes())
        _try_out(commands, options)
        return ClusterLimits(_most_jobs(commands), NodeSize(most.name, most.gpus) if most is not None else None)
    except NoSlurm as error:
        raise ClusterError(f"--gpus slurm: {error}") from None
    except SlurmSilent as error:
        return ClusterLimits(trouble=f"{error}: jobs wait until it responds")
    except SlurmRefused as error:
        raise ClusterError(f"rejected by Slurm: {error}") from None


def _check_options(written: tuple[str, ...]) -> None:
    for option in written:
        name = option.partition("=")[0]
        if not option.startswith("-") or name in OURS:
            why = "set by gputui" if name in OURS else "not an option: use --sbatch-opt=--mem=16G"
            raise ClusterError(f"--sbatch-opt {option}: {why}")


def _try_out(commands: SlurmCommands, options: Mapping[str, Any]) -> None:
    """Ask Slurm whether it would accept a job with these options. Raise SlurmRefused if it would not, unless it may
    accept the same job later.
    """
    try:
        commands.run("sbatch", "--test-only", *sbatch_options(options), "--output=/dev/null", "--wrap", "true")
    except SlurmRefused as error:
        if not any(words in error.words.lower() for words in LATER):
            raise


def _most_jobs(commands: SlurmCommands) -> int:
    limits = [MOST_IN_SLURM]
    limits += _integers(commands.settings().get("MaxJobCount", ""))
    user = pwd.getpwuid(os.geteuid()).pw_name
    question = ("show", "assoc", f"user={user}", "format=MaxSubmitJobs")
    with suppress(SlurmError):  # without accounting there is no limit
        limits += _integers(commands.run("sacctmgr", "-n", "-P", *question))
    return max(1, min(limits))


def _integers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]
