"""A command that is undone leaves its jobs as they were, unless they have changed since."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.core import World, is_sentence, spec

from gputui.core import events
from gputui.core.events import Refusal
from gputui.core.job import Job, StateName
from gputui.core.scheduler import Undo


def carried_out(world: World, *commands: events.UserCommand) -> Undo:
    return world.scheduler.changes_of(lambda: [world.do(command) for command in commands])[1]


def take_back(world: World, undo: Undo) -> None:
    world.scheduler.handle(undo, world.now)


def jobs_of(world: World) -> list[Job]:
    return list(world.scheduler.book)


WAITING = 1


@pytest.mark.parametrize(
    "command",
    [
        events.Hold(job=WAITING),
        events.SetPriority(job=WAITING, priority=50),
        events.Edit(job=WAITING, spec=spec("other --lr 1", name="other", after=(0,))),
        events.Remove(job=WAITING),
        events.Kill(job=WAITING),
        events.Notify(job=WAITING),
        *(events.Move(job=WAITING, where=where, before=3) for where in events.MoveTarget),
    ],
    ids=lambda command: " ".join(filter(None, (type(command).__name__, getattr(command, "where", "")))),
)
def test_a_command_on_a_waiting_job_is_undone_and_what_it_did_to_others_as_well(command: events.UserCommand) -> None:
    world = World()
    world.add_many(2)
    world.add(spec(after=(WAITING,)), spec())
    before, line = jobs_of(world), [place.job for place in world.scheduler.book.line]
    undo = carried_out(world, command)
    assert jobs_of(world) != before
    take_back(world, undo)
    assert jobs_of(world) == before
    assert [place.job for place in world.scheduler.book.line] == line
    assert world.scheduler.history(WAITING)[-1].text == "undone by the user"


def test_a_released_job_is_held_again() -> None:
    world = World()
    world.add(spec(hold=True))
    take_back(world, carried_out(world, events.Release(job=0)))
    assert world.state(0) is StateName.HELD


def test_reruns_are_undone_until_they_start_and_the_pause_they_made_goes_with_them() -> None:
    world = World()
    world.add_many(2)
    for job in (0, 1):
        world.start()
        world.end(job, 1)
    before, breaker = jobs_of(world), world.scheduler.breaker
    reruns: list[events.UserCommand] = [events.Rerun(job=0), events.Rerun(job=1), events.TryFirst((0, 1))]
    undo = carried_out(world, *reruns)
    assert world.scheduler.breaker.paused_scopes
    take_back(world, undo)
    assert jobs_of(world) == before
    assert world.scheduler.breaker == breaker

    undo = carried_out(world, *reruns)
    world.start()
    assert world.state(0) is StateName.RUNNING
    take_back(world, undo)
    assert (world.state(0), world.state(1)) == (StateName.RUNNING, StateName.FAILED), "only the one that waits"
    with pytest.raises(Refusal, match="#0 has changed since: it is running now") as refused:
        take_back(world, undo)
    assert is_sentence(str(refused.value))


def test_added_jobs_are_removed_unless_they_have_started() -> None:
    world = World()
    undo = carried_out(world, events.AddJobs((spec(), spec())))
    world.start()
    take_back(world, undo)
    assert [job.archived for job in jobs_of(world)] == [False, True]


def test_a_job_waits_for_what_has_been_decided_meanwhile() -> None:
    """Its dependency has succeeded or failed since the command; it must neither wait for ever nor start too early."""
    for code, state in ((0, StateName.QUEUED), (1, StateName.SKIPPED)):
        world = World()
        world.add(spec(), spec(after=(0,)))
        undo = carried_out(world, events.Hold(job=1))
        world.start()
        world.end(0, code)
        take_back(world, undo)
        assert world.state(1) is state


def test_an_edit_that_broke_a_circle_is_not_undone_once_another_needs_it() -> None:
    world = World()
    world.add(spec(), spec(after=(0,)))
    undo = carried_out(world, events.Edit(job=1, spec=spec()))
    world.do(events.Edit(job=0, spec=spec(after=(1,))))
    before = jobs_of(world)
    with pytest.raises(Refusal, match="circ"):
        take_back(world, undo)
    assert jobs_of(world) == before


@pytest.mark.parametrize("command", [events.Kill(job=0), events.Requeue(job=0), events.Suspend(job=0)])
def test_what_happened_to_a_running_attempt_cannot_be_undone(command: events.UserCommand) -> None:
    world = World()
    world.add_many(1)
    world.start()
    undo = carried_out(world, command)
    assert not undo.possible
    before = jobs_of(world)
    with pytest.raises(Refusal):
        take_back(world, undo)
    assert jobs_of(world) == before


def test_only_the_attempt_number_is_never_taken_back() -> None:
    world = World()
    world.add_many(1)
    undo = carried_out(world, events.SetPriority(job=0, priority=50))
    job = world.job(0)
    world.scheduler.book.put(replace(job, issued=3))
    take_back(world, replace(undo, after={0: replace(job, issued=3)}))
    assert (world.job(0).priority, world.job(0).issued) == (30, 3)
