"""Every event has an answer in every state, and every refusal is one sentence."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from msgspec.structs import replace
from support.core_world import World, is_sentence, spec

from gputui.core.events import (
    AddJobs,
    Continue,
    Edit,
    Hold,
    JobCommand,
    Kill,
    Move,
    MoveTarget,
    Release,
    Remove,
    Requeue,
    Rerun,
    Seen,
    SetPriority,
    Start,
    Suspend,
    UserCommand,
    words,
)
from gputui.core.job import (
    End,
    Ended,
    Killed,
    Lost,
    Refused,
    Skipped,
    State,
    StateName,
    TimedOut,
    predicate,
)
from gputui.core.scheduler import Record, Scheduler
from gputui.core.transitions import ADVICE, ENDS, TRANSITIONS

STATES: tuple[type, ...] = get_args(State)
JOB_COMMANDS = [kind for kind in get_args(UserCommand) if issubclass(kind, JobCommand)]

COMMANDS: list[UserCommand] = [
    *(kind(job=0) for kind in (Hold, Release, Kill, Suspend, Continue, Requeue, Rerun, Remove)),
    *(Move(job=0, where=where, before=1) for where in MoveTarget),
    SetPriority(job=0, priority=50),
    Edit(job=0, spec=spec("other")),
]


@pytest.mark.parametrize(("state", "command"), list(product(STATES, JOB_COMMANDS)))
def test_every_command_in_every_state_is_carried_out_or_answered_with_advice(state: type, command: type) -> None:
    assert (state, command) in TRANSITIONS or is_sentence(ADVICE[command])


def test_every_advice_is_given_somewhere() -> None:
    assert all(any((state, command) not in TRANSITIONS for state in STATES) for command in ADVICE)


def test_every_state_has_its_own_word() -> None:
    assert {state.name for state in STATES} == set(StateName)  # type: ignore[attr-defined]
    assert {state for state in STATES if issubclass(state, Ended)} == set(ENDS)


def in_state(name: StateName) -> World:
    """A job in this state, by way of events, and one that waits behind it."""
    world = World()
    world.add(spec(timeout=10.0), spec(hold=True))
    if name is StateName.BLOCKED:
        world.do(Edit(job=0, spec=spec(after=(1,))))
    elif name is StateName.DELAYED:
        world.do(Edit(job=0, spec=spec(not_before=9999.0)))
    elif name is StateName.HELD:
        world.do(Hold(job=0))
    elif name is StateName.SKIPPED:
        world.do(Edit(job=0, spec=spec(after=(1,))))
        world.do(Kill(job=1))
    elif name is not StateName.QUEUED:
        _started(world, name)
    assert world.state(0) is name
    return world


def _started(world: World, name: StateName) -> None:
    world.place()
    if name is not StateName.STARTING:
        world.spawned(0)
    if name is StateName.SUSPENDED:
        world.do(Suspend(job=0))
    elif name is StateName.STOPPING:
        world.do(Kill(job=0))
    elif name not in (StateName.STARTING, StateName.RUNNING):
        _ended(world, name)


def _ended(world: World, name: StateName) -> None:
    """Ends that need an engine's special word are put into the store's mouth."""
    codes = {StateName.SUCCEEDED: 0, StateName.FAILED: 1, StateName.CRASHED: 139}
    world.end(0, codes.get(name, 1))
    others: dict[StateName, State] = {
        StateName.KILLED: Killed(),
        StateName.LOST: Lost("rebooted"),
        StateName.REFUSED: Refused("no such folder"),
        StateName.TIMED_OUT: TimedOut(5.0),
    }
    if name in others:
        jobs = list(world.scheduler.book)
        world.scheduler = Scheduler(world.scheduler.record(), [replace(jobs[0], state=others[name]), *jobs[1:]])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("name", list(StateName))
def test_what_cannot_be_done_is_refused_with_the_state_and_a_reason(name: StateName, command: UserCommand) -> None:
    world = in_state(name)
    assert isinstance(command, JobCommand)
    only_in_a_cluster = name is StateName.STARTING and isinstance(command, Hold)
    if (type(world.job(0).state), type(command)) in TRANSITIONS and not only_in_a_cluster:
        _carried_out_or_refused(world, command)
        return
    sentence = world.refused(command)
    assert is_sentence(sentence)
    assert sentence.startswith(f"#0 {predicate(name)}: ")


def _carried_out_or_refused(world: World, command: UserCommand) -> None:
    waits_for_a_failure = isinstance(world.job(0).state, Skipped) and isinstance(command, Rerun)
    at_the_end = isinstance(command, Move) and command.where is not MoveTarget.TOP
    if waits_for_a_failure or at_the_end:
        return
    assert not any(isinstance(each, Start) for each in world.do(command))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_request_about_what_has_changed_meanwhile_is_refused(command: UserCommand) -> None:
    world = World()
    world.add_many(2)
    seen = Seen(0, StateName.QUEUED)
    world.start()
    assert isinstance(command, JobCommand)
    sentence = world.refused(replace(command, seen=seen))
    assert sentence == "#0 just changed: it is running now (attempt 1)"
    assert "just changed" in world.refused(Kill(job=0, seen=Seen(2, StateName.RUNNING)))
    world.do(Kill(job=0, seen=Seen(1, StateName.RUNNING)))


def test_what_does_not_exist_is_refused_by_its_number() -> None:
    world = World()
    world.add()
    for job in (-1, 1, 99):
        assert world.refused(Kill(job=job)) == f"there is no job #{job}"


@pytest.mark.parametrize(
    "bad", [spec(retries=-1), spec(timeout=0.0), spec(gpus=-1), spec(priority=100), spec(priority=-1)]
)
def test_a_spec_that_makes_no_sense_is_refused_at_add_and_at_edit(bad: object) -> None:
    world = World()
    world.add()
    assert is_sentence(world.refused(AddJobs((spec(), bad))))  # type: ignore[arg-type]
    assert is_sentence(world.refused(Edit(job=0, spec=bad)))  # type: ignore[arg-type]


def test_every_end_can_be_said_in_words() -> None:
    ends: list[End] = [TimedOut(1.5), Lost("rebooted"), Refused("gone"), Skipped(3), Killed()]
    assert [words(end) for end in ends] == [
        "timed out after 1.5 s", "rebooted", "gone", "skipped: #3 did not succeed", "killed",
    ]  # fmt: skip


def test_ids_may_begin_elsewhere() -> None:
    world = World()
    world.scheduler = Scheduler(Record(first_id=100, lanes=world.scheduler.board.lanes))
    assert world.add(spec(), spec(after=(100,))) == [100, 101]
    assert world.refused(Kill(job=0)) == "there is no job #0"
    assert world.run() == 100
