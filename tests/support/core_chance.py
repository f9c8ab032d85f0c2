"""Anything that can happen to a scheduler, by chance, small enough that events meet on the same jobs."""

from __future__ import annotations

from random import Random
from typing import Any

from gputui.core.events import (
    Continue,
    DevicesSeen,
    Drain,
    Edit,
    Event,
    Exited,
    Hold,
    Kill,
    Move,
    MoveTarget,
    NeverRan,
    NodeFailed,
    NoRoom,
    NotStarted,
    Outcome,
    Pause,
    PauseKind,
    Release,
    Remove,
    Requeue,
    Rerun,
    Seen,
    SetLanes,
    SetPriority,
    Settings,
    Suspend,
    UserCommand,
    Vanished,
)
from gputui.core.job import URGENT_PRIORITY, CrashKind, Job, JobId, JobSpec, OnHang, OnOom, Request, StateName
from gputui.core.lanes import DeviceFacts
from gputui.core.transitions import TRANSITIONS
from support.core_world import lanes

NAMES = ("prepare", "train", "evaluate")
LANES = ("0", "0 1", "0 0 1", "0 1 2 3", "0 1 2 3", "0+1 2+3", "0+1 2", "cpu cpu", "0 cpu", "")
COUNTS = (None, None, None, None, 0, 1, 1, 2, 2, 9)
DEVICES = ((), (), (), (), (), ("0",), ("0", "1"), ("7",))
OUTCOMES = (
    NodeFailed("its node failed"),
    Vanished("rebooted"),
    NeverRan(),
    NotStarted("its folder is gone"),
    NoRoom("the disk is full"),
)


def any_spec(chance: Random, first: JobId) -> JobSpec:
    """`first` is the id from which on there are no jobs yet."""
    priority = chance.choice([30, 30, 30, 0, 99])
    return JobSpec(
        command=f"c{first}",
        cwd="/",
        environment=chance.choice(["e1", "e2"]),
        name=chance.choice([None, None, *NAMES]),
        group=chance.choice(["", "sweep"]),
        request=Request(chance.choice(COUNTS), chance.choice(DEVICES), chance.choice([None, None, None, 6])),
        priority=priority,
        preempt=priority >= URGENT_PRIORITY and chance.random() < 0.7,
        retries=chance.choice([0, 0, 1, 2]),
        retry_on=chance.choice([(), (), ("oom", "exit:1"), ("signal", "node", "hang")]),
        on_oom=chance.choice(list(OnOom)),
        hang_after=chance.choice([0.0, 60.0]),
        on_hang=chance.choice(list(OnHang)),
        checkpoint=chance.random() < 0.5,
        timeout=chance.choice([None, None, 5.0, 60.0]),
        after=_any_earlier(chance, first),
        after_any=chance.random() < 0.3,
        not_before=chance.choice([None, None, None, 1010.0, 2000.0]),
        hold=chance.random() < 0.1,
    )


def _any_earlier(chance: Random, first: JobId) -> tuple[JobId | str, ...]:
    """Mostly jobs that exist, sometimes one that is being added too, a name, or none there is."""
    if chance.random() < 0.1:
        unsure: list[JobId | str] = [chance.choice(NAMES), first + chance.randrange(4)]
        return (chance.choice(unsure),)
    count = chance.choice([0, 0, 1, 2, 3])
    return tuple(chance.randrange(max(0, first - 8), first) for _ in range(count)) if first else ()


def any_outcome(chance: Random) -> Outcome:
    if chance.random() < 0.75:
        return Exited(chance.choice([0, 0, 0, 1, 1, 137, 255]))
    return chance.choice(OUTCOMES)


def any_kind(chance: Random) -> CrashKind | None:
    return chance.choice([None, CrashKind.OOM_GPU, CrashKind.OOM_GPU, CrashKind.EXCEPTION])


def any_signature(chance: Random) -> str | None:
    return chance.choice([None, "CUDA out of memory", "No module named 'timm'"])


def any_seen(chance: Random, job: Job) -> Seen | None:
    if chance.random() < 0.1:
        return Seen(chance.randrange(3), chance.choice(list(StateName)))
    return chance.choice([None, Seen(job.issued, job.state.name)])


def any_command(chance: Random, job: Job, end: JobId) -> UserCommand:
    """What a user can ask of a job, mostly what can be done in its state."""
    about: dict[str, Any] = {"job": job.id, "seen": any_seen(chance, job)}
    every: list[UserCommand] = [
        *(kind(**about) for kind in (Hold, Release, Suspend, Continue, Requeue, Remove)),
        Kill(**about, now=chance.random() < 0.3),
        Rerun(**about, environment=chance.choice([None, "e3"])),
        Move(**about, where=chance.choice(list(MoveTarget)), before=chance.randrange(end)),
        SetPriority(**about, priority=chance.choice([-1, 0, 30, 99])),
        _any_edit(chance, job, end, about),
    ]
    possible = [command for command in every if (type(job.state), type(command)) in TRANSITIONS]
    return chance.choice(possible if chance.random() < 0.9 else every)


def _any_edit(chance: Random, job: Job, end: JobId, about: dict[str, Any]) -> Edit:
    spec = any_spec(chance, end)
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__} | {"command": job.spec.command}
    return Edit(**about, spec=JobSpec(**fields))


def any_change_of_scene(chance: Random) -> Event:
    settings = Settings(
        pause_after=chance.choice([0, 1, 3]),
        grace=chance.choice([0.0, 30.0]),
        cpu_jobs=chance.choice([0, 1, 3]),
        patience=chance.choice([0.0, 300.0]),
        at_most=chance.choice([None, None, 1, 2]),
        keep_free=chance.choice([0, 0, 1]),
        probe=chance.choice([None, 0.0, 5.0, 600.0]),
    )
    new_lanes = SetLanes(lanes(chance.choice(LANES)))
    seen = DevicesSeen({device: _any_facts(chance) for device in "0123"})
    events: list[Event] = [settings, new_lanes, seen, seen, Drain(), Pause(), Pause(PauseKind.STOPPED)]
    return chance.choice(events)


def _any_facts(chance: Random) -> DeviceFacts:
    """Mostly free, ten bytes large; of some the driver says nothing."""
    return DeviceFacts(
        blocked=chance.choice([None, None, None, "used by alice"]),
        memory_total=chance.choice([None, 10, 10, 20]),
        crowded=chance.random() < 0.2,
        memory_used=chance.choice([None, 0, 0, 3, 8]),
    )
