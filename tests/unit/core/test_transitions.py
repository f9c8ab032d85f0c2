"""Every event has an answer in every state, and every refusal is one sentence."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace
from support.core import World, is_sentence, spec

from gputui.core import events
from gputui.core import job as states
from gputui.core.job import End, Ended, Killed, Lost, Refused, Skipped, State, StateName, TimedOut
from gputui.core.scheduler import ENDS, TRANSITIONS, Record, Scheduler

STATES: tuple[type, ...] = get_args(State)

COMMANDS: list[events.UserCommand] = [
    *(
        kind(job=0)
        for kind in (
            events.Hold,
            events.Release,
            events.Kill,
            events.Suspend,
            events.Continue,
            events.Requeue,
            events.Rerun,
            events.Remove,
            events.Notify,
        )
    ),
    *(events.Move(job=0, where=where, before=1) for where in events.MoveTarget),
    events.SetPriority(job=0, priority=50),
    events.Edit(job=0, spec=spec("other")),
]


def test_every_state_has_a_name() -> None:
    assert {state.name for state in STATES} == set(StateName)  # type: ignore[attr-defined]
    assert {state for state in STATES if issubclass(state, Ended)} == set(ENDS)


def in_state(name: StateName) -> World:
    """A job in this state, by way of events, and one that waits behind it."""
    world = World()
    world.add(spec(timeout=10.0), spec(hold=True))
    if name is StateName.BLOCKED:
        world.do(events.Edit(job=0, spec=spec(after=(1,))))
    elif name is StateName.DELAYED:
        world.do(events.Edit(job=0, spec=spec(not_before=9999.0)))
    elif name is StateName.HELD:
        world.do(events.Hold(job=0))
    elif name is StateName.SKIPPED:
        world.do(events.Edit(job=0, spec=spec(after=(1,))))
        world.do(events.Kill(job=1))
    elif name is not StateName.QUEUED:
        _started(world, name)
    assert world.state(0) is name
    return world


def _started(world: World, name: StateName) -> None:
    world.place()
    if name is not StateName.STARTING:
        world.spawned(0)
    if name is StateName.SUSPENDED:
        world.do(events.Suspend(job=0))
    elif name is StateName.STOPPING:
        world.do(events.Kill(job=0))
    elif name not in (StateName.STARTING, StateName.RUNNING):
        _ended(world, name)


def _ended(world: World, name: StateName) -> None:
    """Ends that need an engine's special word are put into the store's mouth."""
    codes = {StateName.SUCCEEDED: 0, StateName.FAILED: 1}
    world.end(0, codes.get(name, 1))
    others: dict[StateName, State] = {
        StateName.KILLED: Killed(),
        StateName.LOST: Lost("rebooted"),
        StateName.REFUSED: Refused("no such directory"),
        StateName.TIMED_OUT: TimedOut(5.0),
    }
    if name in others:
        jobs = list(world.scheduler.book)
        world.scheduler = Scheduler(world.scheduler.record(), [replace(jobs[0], state=others[name]), *jobs[1:]])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("name", list(StateName))
def test_impossible_commands_are_refused_with_a_reason(name: StateName, command: events.UserCommand) -> None:
    world = in_state(name)
    assert isinstance(command, events.JobCommand)
    only_in_a_cluster = name is StateName.STARTING and isinstance(command, events.Hold)
    if (type(world.job(0).state), type(command)) in TRANSITIONS and not only_in_a_cluster:
        _carried_out_or_refused(world, command)
        return
    sentence = world.refused(command)
    assert is_sentence(sentence)
    assert sentence.startswith(f"#0 {states.predicate(name)}: ")


def _carried_out_or_refused(world: World, command: events.UserCommand) -> None:
    waits_for_a_failure = isinstance(world.job(0).state, Skipped) and isinstance(command, events.Rerun)
    at_the_end = isinstance(command, events.Move) and command.where is not events.MoveTarget.TOP
    if waits_for_a_failure or at_the_end:
        return
    assert not any(isinstance(each, events.Start) for each in world.do(command))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_commands_on_changed_jobs_are_refused(command: events.UserCommand) -> None:
    world = World()
    world.add_many(2)
    seen = events.Seen(0, StateName.QUEUED)
    world.start()
    assert isinstance(command, events.JobCommand)
    sentence = world.refused(replace(command, seen=seen))
    assert sentence == "#0 just changed: it is running now (attempt 1)"
    assert "just changed" in world.refused(events.Kill(job=0, seen=events.Seen(2, StateName.RUNNING)))
    world.do(events.Kill(job=0, seen=events.Seen(1, StateName.RUNNING)))


def test_unknown_jobs_are_refused_by_number() -> None:
    world = World()
    world.add()
    for job in (-1, 1, 99):
        assert world.refused(events.Kill(job=job)) == f"no job #{job}"


@pytest.mark.parametrize(
    "bad", [spec(retries=-1), spec(timeout=0.0), spec(gpus=-1), spec(priority=100), spec(priority=-1)]
)
def test_an_invalid_spec_is_refused(bad: object) -> None:
    world = World()
    world.add()
    assert is_sentence(world.refused(events.AddJobs((spec(), bad))))  # type: ignore[arg-type]
    assert is_sentence(world.refused(events.Edit(job=0, spec=bad)))  # type: ignore[arg-type]


def test_every_end_has_a_description() -> None:
    ends: list[End] = [TimedOut(1.5), Lost("rebooted"), Refused("gone"), Skipped(3), Killed()]
    assert [states.describe_end(end) for end in ends] == [
        "timed out after 1.5 s", "rebooted", "gone", "skipped: #3 did not succeed", "killed",
    ]  # fmt: skip


def test_ids_may_start_at_another_number() -> None:
    world = World()
    world.scheduler = Scheduler(Record(first_id=100, slots=world.scheduler.board.slots))
    assert world.add(spec(), spec(after=(100,))) == [100, 101]
    assert world.refused(events.Kill(job=0)) == "no job #0"
    assert world.run() == 100
