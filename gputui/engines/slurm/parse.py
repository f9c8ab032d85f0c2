"""Parse the output of Slurm's commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from msgspec import Struct

from gputui.core.slots import NodeState

NOTHING = ("", "(null)", "N/A", "NONE", "None", "Unknown", "n/a")
"""Strings that Slurm prints for a missing value."""


def host_list(text: str) -> list[str]:
    """Expand `n[1-3,07-08],login` to a list of node names, keeping leading zeros."""
    parts = re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text)
    return [name for part in parts for name in _expanded(part) if name not in NOTHING]


def _expanded(part: str) -> list[str]:
    brackets = re.search(r"\[([^\]]*)\]", part)
    if brackets is None:
        return [part]
    tails = _expanded(part[brackets.end() :])
    return [part[: brackets.start()] + each + tail for each in _ranged(brackets[1]) for tail in tails]


def _ranged(text: str) -> Iterator[str]:
    for each in text.split(","):
        first, sign, last = each.partition("-")
        if sign and first.isdigit() and last.isdigit():
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
        else:
            yield each


def numbers(text: str) -> list[int]:
    """Expand `0-1,3` to a list of numbers."""
    return [int(number) for number in _ranged(text) if number.isdigit()]


def facts_of(line: str) -> dict[str, str]:
    """Parse `Name=value …`. The first value of a name counts, because later ones may be part of free text."""
    facts: dict[str, str] = {}
    names = list(re.finditer(r"(?:^|\s)([A-Za-z][\w/:.]*)=", line))
    for name, following in zip(names, [*names[1:], None], strict=True):
        facts.setdefault(name[1], line[name.end() : following.start() if following else None].strip())
    return facts


def exit_of(text: str) -> tuple[int, int]:
    codes = re.fullmatch(r"(\d+):(\d+)", text)
    return (int(codes[1]), int(codes[2])) if codes else (0, 0)


def known(text: str) -> str | None:
    return None if text in NOTHING else text


def time_of(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{6,}", text) else None


# The values


QUEUE_FORMAT = "%i|%T|%V|%S|%e|%r|%P|%N|%k|%j"
"""Output format for squeue. Fields with free text come last. The comment and name that gputui sets contain no `|`."""
BUSY_FORMAT = "%i|%u|%N"
ENDED_FIELDS = "JobIDRaw,State,ExitCode,Start,End,NodeList,JobName"
"""Output fields for sacct."""


class Phase(Enum):
    """Phase of a job, derived from Slurm's many states."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()


PHASES = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"), Phase.WAITING
    ),
    **dict.fromkeys(
        ("CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "COMPLETING", "STAGE_OUT"),
        Phase.RUNNING,
    ),
    **dict.fromkeys(
        ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL",
         "DEADLINE", "REVOKED", "LAUNCH_FAILED"),
        Phase.ENDED,
    ),
}  # fmt: skip


class SlurmJob(Struct, frozen=True, kw_only=True):
    """A row of Slurm's queue. gputui's jobs are identified by their comment or name because job ids are reused."""

    id: str
    state: str
    """Slurm's name for the state, such as PENDING."""
    reason: str | None = None
    submitted: float | None = None
    started: float | None = None
    """Time of the start. For a waiting job, the time at which Slurm expects it to start, if known."""
    ends: float | None = None
    partition: str = ""
    nodes: tuple[str, ...] = ()
    comment: str = ""
    name: str = ""

    @property
    def phase(self) -> Phase:
        """The phase of the job. Unknown states count as running."""
        return PHASES.get(self.state, Phase.RUNNING)


class BusyJob(Struct, frozen=True):
    """A running job of any user."""

    id: str
    user: str
    nodes: tuple[str, ...]


class SlurmEnd(Struct, frozen=True, kw_only=True):
    """A running or ended job as described by scontrol or sacct."""

    id: str
    state: str
    code: int
    """The exit code of the batch script."""
    signal: int
    reason: str | None = None
    started: float | None = None
    ended: float | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    name: str = ""
    comment: str = ""
    places: tuple[tuple[str, int], ...] = ()
    """Node and index of each GPU of the job while it runs."""


class SlurmNode(Struct, frozen=True, kw_only=True):
    name: str
    state: NodeState
    said: str
    """Slurm's name for the state of the node."""
    gpus: int = 0
    gpu_type: str = ""
    used: int = 0
    memory: int = 0
    """Main memory in bytes."""
    partitions: tuple[str, ...] = ()
    booted: float | None = None
    """Boot time, by the controller's clock like all other times here."""
    reason: str | None = None
    by: str | None = None
    """Name of the user who closed the node."""
    since: float | None = None
    """Time when the node was closed."""


# The parsers


def parse_version(text: str) -> tuple[int, int] | None:
    """Parse the output of `sbatch --version`, such as `slurm-wlm 22.05.8` or `slurm 24.11.0-0rc1`."""
    numbers = re.search(r"slurm\S*\s+(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def parse_submitted_id(text: str) -> str | None:
    """Parse the job id in the output of `sbatch --parsable`. Messages of plugins and a final `;CLUSTER` are ignored."""
    words = [word for word in text.split() if re.fullmatch(r"\d+(;\S+)?", word)]
    return words[-1].partition(";")[0] if words else None


def parse_queue(text: str) -> list[SlurmJob]:
    """Parse the output of squeue with QUEUE_FORMAT and times in seconds. Lines in other formats are skipped."""
    rows = (line.split("|", 9) for line in text.splitlines())
    return [_job(fields) for fields in rows if len(fields) == 10 and fields[0][:1].isdigit()]


def _job(fields: list[str]) -> SlurmJob:
    id, state, submitted, started, ends, reason, partition, nodes, comment, name = fields
    return SlurmJob(
        id=id, state=state, reason=known(reason.strip("()")), submitted=time_of(submitted), started=time_of(started),
        ends=time_of(ends), partition=partition, nodes=tuple(host_list(nodes)), comment=known(comment) or "", name=name,
    )  # fmt: skip


def parse_busy_jobs(text: str) -> list[BusyJob]:
    """Parse the output of squeue with BUSY_FORMAT."""
    rows = (line.split("|") for line in text.splitlines())
    return [BusyJob(fields[0], fields[1], tuple(host_list(fields[2]))) for fields in rows if len(fields) == 3]


def parse_accounting(text: str) -> list[SlurmEnd]:
    """Parse the output of `sacct -n -P -X` with ENDED_FIELDS."""
    rows = (line.split("|", 6) for line in text.splitlines())
    return [_ended(fields) for fields in rows if len(fields) == 7 and fields[0].isdigit()]


def _ended(fields: list[str]) -> SlurmEnd:
    id, state, ending, started, ends, nodes, name = fields
    code, signal = exit_of(ending)
    return SlurmEnd(
        id=id, state=state.split()[0] if state else "", code=code, signal=signal, started=time_of(started),
        ended=time_of(ends), nodes=tuple(host_list(nodes)), name=name,
    )  # fmt: skip


def parse_job_details(text: str) -> list[SlurmEnd]:
    """Parse the output of `scontrol -o show job -d`."""
    return [_details(line) for line in text.splitlines() if line.startswith("JobId=")]


def _details(line: str) -> SlurmEnd:
    # A job's name is free text and must not be parsed as facts.
    job_name = re.search(r" JobName=(.*?)(?= UserId=\S+\(\d+\) GroupId=)", line)
    name = job_name[1] if job_name is not None else ""
    line = line[: job_name.start()] + line[job_name.end() :] if job_name is not None else line
    facts = facts_of(line)
    code, signal = exit_of(facts.get("ExitCode", ""))
    return SlurmEnd(
        id=facts["JobId"],
        state=facts.get("JobState", ""),
        code=code,
        signal=signal,
        reason=known(facts.get("Reason", "")),
        started=time_of(facts.get("StartTime", "")),
        ended=time_of(facts.get("EndTime", "")),
        restarts=int(facts.get("Restarts", "0")),
        nodes=tuple(host_list(facts.get("NodeList", ""))),
        name=name,
        comment=known(facts.get("Comment", "")) or "",
        places=tuple(_places(line)),
    )


def _places(line: str) -> Iterator[tuple[str, int]]:
    """Yield the GPUs of a job. Slurm prints nodes with the same GPU indices as one group."""
    for nodes, gres in re.findall(r" Nodes=(\S+) .*?GRES=(\S*)", line):
        for node in host_list(nodes):
            for indices in re.findall(r"gpu[^,(]*\(IDX:([^)]*)\)", gres):
                for index in numbers(indices):
                    yield node, index


def parse_nodes(text: str) -> list[SlurmNode]:
    """Parse the output of `scontrol -o show node -d`."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> SlurmNode:
    line, reason, by, since = _closed(line)
    facts = facts_of(line)
    total, kind = _gpus(facts.get("Gres", ""))
    used = facts.get("GresUsed")
    allocated = re.search(r"gres/gpu=(\d+)", facts.get("AllocTRES", ""))
    in_use = _gpus(used)[0] if used is not None else int(allocated[1]) if allocated else 0
    return SlurmNode(
        name=facts["NodeName"],
        state=_node_state(facts.get("State", "")),
        said=facts.get("State", ""),
        gpus=total,
        gpu_type=kind,
        used=in_use,
        memory=int(facts.get("RealMemory", "0")) * 1024**2,
        partitions=tuple(name for name in facts.get("Partitions", "").split(",") if name),
        booted=time_of(facts.get("BootTime", "")),
        reason=reason,
        by=by,
        since=since,
    )


def _closed(line: str) -> tuple[str, str | None, str | None, float | None]:
    """Split off the admin's reason, its user and its time from a line. The reason is free text before `[USER@TIME]`."""
    closed = re.search(r" Reason=(.*) \[([^\]@]*)@([^\]]*)\]", line)
    if closed is None:
        plain = re.search(r" Reason=(.*?)(?: Comment=| *$)", line)
        return (line[: plain.start()], known(plain[1]), None, None) if plain else (line, None, None, None)
    return line[: closed.start()] + line[closed.end() :], closed[1], closed[2], time_of(closed[3])


def _node_state(said: str) -> NodeState:
    """Parse states such as `MIXED+DRAIN` and `DOWN*+NOT_RESPONDING`. `IDLE+POWERED_DOWN` is started on demand."""
    base, *flags = said.replace("*", "").split("+")
    if base in ("DOWN", "ERROR", "FUTURE", "INVAL", "INVALID") or "NOT_RESPONDING" in flags or "FAIL" in flags:
        return NodeState.DOWN
    if "DRAIN" in flags or "DRAINED" in flags or "MAINTENANCE" in flags or "INVALID_REG" in flags:
        return NodeState.DRAINING if base in ("MIXED", "ALLOCATED") or "COMPLETING" in flags else NodeState.DRAINED
    return NodeState.UP


def _gpus(gres: str) -> tuple[int, str]:
    """Parse `gpu:a100:4(S:0-1),gpu:h100:2`. Return the number of GPUs, and their type if all have the same type."""
    counts = re.findall(r"(?:^|,)gpu(?::([^:,(]+))?:(\d+)", re.sub(r"\([^)]*\)", "", gres))
    types = {kind for kind, _ in counts if kind}
    return sum(int(count) for _, count in counts), types.pop() if len(types) == 1 else ""


def largest(all_nodes: list[SlurmNode]) -> SlurmNode | None:
    """Return the node with the most GPUs. Closed nodes are included because they may be opened again."""
    return max(all_nodes, key=lambda node: node.gpus, default=None)


def parse_settings(text: str) -> dict[str, str]:
    """Parse the output of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}
