"""Parses what Slurm's commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from msgspec import Struct

# ---- The pieces that Slurm's answers are made of ----


NOTHING = ("", "(null)", "N/A", "NONE", "None", "Unknown", "n/a")
"""How Slurm says that there is none."""


def host_list(text: str) -> list[str]:
    """`n[1-3,07-08],login`: each node by its name; widths are kept. What is no list is taken as it is."""
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        names += _expanded(part)
    return [name for name in names if name not in NOTHING]


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
    """`0-1,3`."""
    return [int(each) for each in _ranged(text) if each.isdigit()]


def facts_of(line: str) -> dict[str, str]:
    """The first of each name: what follows in a free text is no fact."""
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


# ---- What Slurm's commands print, as values ----


QUEUE_FORMAT = "%i|%T|%V|%S|%e|%r|%P|%N|%k|%j"
"""squeue's: the free texts come last, and ours hold no `|`."""
BUSY_FORMAT = "%i|%u|%N"
ENDED_FIELDS = "JobIDRaw,State,ExitCode,Start,End,NodeList,JobName"
"""sacct's."""


class Phase(Enum):
    """Where a job is on its way, whatever Slurm calls it."""

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
    """A line of the queue. `id` is for orders and people: a job of ours is known by its comment and name."""

    id: str
    state: str
    """Slurm's word, such as PENDING."""
    reason: str | None = None
    submitted: float | None = None
    started: float | None = None
    """For one that waits: when Slurm expects it to start, if it says so."""
    ends: float | None = None
    partition: str = ""
    nodes: tuple[str, ...] = ()
    comment: str = ""
    name: str = ""

    @property
    def phase(self) -> Phase:
        """A state that a later Slurm may add is taken as running: whoever asks goes on looking."""
        return PHASES.get(self.state, Phase.RUNNING)


class BusyJob(Struct, frozen=True):
    """A running job of anybody."""

    id: str
    user: str
    nodes: tuple[str, ...]


class SlurmEnd(Struct, frozen=True, kw_only=True):
    """A job as scontrol or sacct tell of it, during or after its life."""

    id: str
    state: str
    code: int
    """Of its batch script."""
    signal: int
    reason: str | None = None
    started: float | None = None
    ended: float | None = None
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    name: str = ""
    comment: str = ""
    places: tuple[tuple[str, int], ...] = ()
    """Its GPUs as node and index, while it has them."""


class NodeState(Enum):
    UP = auto()
    DRAINING = auto()
    """Closed, and jobs run there still."""
    DRAINED = auto()
    DOWN = auto()


class SlurmNode(Struct, frozen=True, kw_only=True):
    name: str
    state: NodeState
    said: str
    """Slurm's own words for its state."""
    gpus: int = 0
    gpu_type: str = ""
    used: int = 0
    used_at: tuple[int, ...] | None = None
    """Which GPUs are taken; None: Slurm says only how many."""
    memory: int = 0
    """Bytes of main memory."""
    partitions: tuple[str, ...] = ()
    booted: float | None = None
    """By the controller's clock, as all times here."""
    reason: str | None = None
    by: str | None = None
    """Who closed it, and when."""
    since: float | None = None


# Questions and answers


def version(text: str) -> tuple[int, int] | None:
    """Of `sbatch --version`: `slurm-wlm 22.05.8`, `slurm 24.11.0-0rc1`."""
    numbers = re.search(r"slurm\S*\s+(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def submitted_id(text: str) -> str | None:
    """Of `sbatch --parsable`: the number, perhaps with its cluster after a semicolon and a plugin's words before."""
    words = [word for word in text.split() if re.fullmatch(r"\d+(;\S+)?", word)]
    return words[-1].partition(";")[0] if words else None


def parse_queue(text: str) -> list[SlurmJob]:
    """Of squeue with QUEUE_FORMAT and times in seconds; lines that are no jobs are not read."""
    fields = (line.split("|", 9) for line in text.splitlines())
    return [_job(each) for each in fields if len(each) == 10 and each[0][:1].isdigit()]


def _job(fields: list[str]) -> SlurmJob:
    id, state, submitted, started, ends, reason, partition, nodes, comment, name = fields
    return SlurmJob(
        id=id,
        state=state,
        reason=known(reason.strip("()")),
        submitted=time_of(submitted),
        started=time_of(started),
        ends=time_of(ends),
        partition=partition,
        nodes=tuple(host_list(nodes)),
        comment=known(comment) or "",
        name=name,
    )


def busy(text: str) -> list[BusyJob]:
    """Of squeue with BUSY_FORMAT."""
    fields = (line.split("|") for line in text.splitlines())
    return [BusyJob(each[0], each[1], tuple(host_list(each[2]))) for each in fields if len(each) == 3]


def ended(text: str) -> list[SlurmEnd]:
    """Of sacct with ENDED_FIELDS, `-n -P -X`."""
    fields = (line.split("|", 6) for line in text.splitlines())
    return [_ended(each) for each in fields if len(each) == 7 and each[0].isdigit()]


def _ended(fields: list[str]) -> SlurmEnd:
    id, state, ending, started, ends, nodes, name = fields
    code, signal = exit_of(ending)
    return SlurmEnd(
        id=id, state=state.split()[0] if state else "", code=code, signal=signal, started=time_of(started),
        ended=time_of(ends), nodes=tuple(host_list(nodes)), name=name,
    )  # fmt: skip


def details(text: str) -> list[SlurmEnd]:
    """Of `scontrol -o show job -d`."""
    return [_details(line) for line in text.splitlines() if line.startswith("JobId=")]


def _details(line: str) -> SlurmEnd:
    """A job's name is anybody's free text, and no fact may be read from it."""
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
    """Nodes that have the same indices are told of together."""
    for nodes, gres in re.findall(r" Nodes=(\S+) .*?GRES=(\S*)", line):
        for node in host_list(nodes):
            for indices in re.findall(r"gpu[^,(]*\(IDX:([^)]*)\)", gres):
                for index in numbers(indices):
                    yield node, index


def nodes(text: str) -> list[SlurmNode]:
    """Of `scontrol -o show node -d`."""
    return [_node(line) for line in text.splitlines() if line.startswith("NodeName=")]


def _node(line: str) -> SlurmNode:
    line, reason, by, since = _closed(line)
    facts = facts_of(line)
    total, kind = _gpus(facts.get("Gres", ""))
    used = facts.get("GresUsed")
    in_use = _gpus(used)[0] if used is not None else _allocated(facts.get("AllocTRES", ""))
    return SlurmNode(
        name=facts["NodeName"],
        state=_node_state(facts.get("State", "")),
        said=facts.get("State", ""),
        gpus=total,
        gpu_type=kind,
        used=in_use,
        used_at=_used_at(used or "", in_use),
        memory=int(facts.get("RealMemory", "0")) * 1024**2,
        partitions=tuple(name for name in facts.get("Partitions", "").split(",") if name),
        booted=time_of(facts.get("BootTime", "")),
        reason=reason,
        by=by,
        since=since,
    )


def _closed(line: str) -> tuple[str, str | None, str | None, float | None]:
    """The admin's words are free text: they end with who said them and when."""
    closed = re.search(r" Reason=(.*) \[([^\]@]*)@([^\]]*)\]", line)
    if closed is None:
        plain = re.search(r" Reason=(.*?)(?: Comment=| *$)", line)
        return (line[: plain.start()], known(plain[1]), None, None) if plain else (line, None, None, None)
    return line[: closed.start()] + line[closed.end() :], closed[1], closed[2], time_of(closed[3])


def _node_state(said: str) -> NodeState:
    """`IDLE+DRAIN`, `MIXED+DRAIN`, `DOWN*+NOT_RESPONDING`, `IDLE+POWERED_DOWN` (which starts when it is needed)."""
    base, *flags = said.replace("*", "").split("+")
    if base in ("DOWN", "ERROR", "FUTURE", "INVAL", "INVALID") or "NOT_RESPONDING" in flags or "FAIL" in flags:
        return NodeState.DOWN
    if "DRAIN" in flags or "DRAINED" in flags or "MAINTENANCE" in flags or "INVALID_REG" in flags:
        return NodeState.DRAINING if base in ("MIXED", "ALLOCATED") or "COMPLETING" in flags else NodeState.DRAINED
    return NodeState.UP


def _gpus(gres: str) -> tuple[int, str]:
    """`gpu:a100:4(S:0-1),gpu:h100:2`: how many and of what type, if there is one type."""
    counts = re.findall(r"(?:^|,)gpu(?::([^:,(]+))?:(\d+)", re.sub(r"\([^)]*\)", "", gres))
    types = {kind for kind, _ in counts if kind}
    return sum(int(count) for _, count in counts), types.pop() if len(types) == 1 else ""


def _allocated(tres: str) -> int:
    gpus = re.search(r"gres/gpu=(\d+)", tres)
    return int(gpus[1]) if gpus else 0


def _used_at(gres: str, used: int) -> tuple[int, ...] | None:
    lists = [each for each in re.findall(r"gpu[^,(]*\(IDX:([^)]*)\)", gres) if each != "N/A"]
    indices = tuple(sorted(index for each in lists for index in numbers(each)))
    return indices if len(indices) == used else None


def largest(all_nodes: list[SlurmNode]) -> SlurmNode | None:
    """The one with most GPUs, closed or not: a node that is drained today is there tomorrow."""
    return max(all_nodes, key=lambda node: node.gpus, default=None)


def settings(text: str) -> dict[str, str]:
    """Of `scontrol show config`."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, sign, value in pairs if sign}
