"""Concurrent starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.engines import Machine
from support.machines import no_threads

from gputui.core.events import Exited, NotStarted
from gputui.engines.local.spawn import Crew


def test_tasks_run_concurrently() -> None:
    meeting = threading.Barrier(4)

    def meet(task: int) -> int:
        meeting.wait(60)
        return task * 10

    crew = Crew(meet)
    assert dict(crew.each(range(1, 5))) == {1: 10, 2: 20, 3: 30, 4: 40}
    crew.close()


def test_a_single_task_runs_in_the_calling_thread() -> None:
    crew: Crew[int, threading.Thread] = Crew(lambda task: threading.current_thread())
    assert list(crew.each([1])) == [(1, threading.current_thread())]
    assert list(crew.each([])) == []
    crew.close()


def test_a_task_starts_while_later_ones_are_prepared() -> None:
    begun = threading.Event()

    def tasks() -> Iterator[int]:
        yield 1
        yield 2
        assert begun.wait(60)
        yield 3

    crew: Crew[int, None] = Crew(lambda task: begun.set())
    assert len(list(crew.each(tasks()))) == 3
    crew.close()


def test_a_defect_in_a_thread_is_not_waited_for() -> None:
    def work(task: int) -> int:
        if task == 1:
            raise RuntimeError("a defect")
        return task

    crew = Crew(work)
    with pytest.raises(RuntimeError, match="a defect"):
        list(crew.each([1, 2, 3]))
    crew.close()


def test_without_threads_all_tasks_run_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    crew: Crew[int, threading.Thread] = Crew(lambda task: threading.current_thread())
    with no_threads(monkeypatch):
        assert dict(crew.each(range(4))) == dict.fromkeys(range(4), threading.current_thread())
    crew.close()


def test_fewer_threads_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    crew: Crew[int, int] = Crew(lambda task: task * 10)
    with no_threads(monkeypatch, but=("gputui-crew-0",)):
        assert dict(crew.each(range(9))) == {task: task * 10 for task in range(9)}
        crew.close()


def test_many_starts_at_once_each_run_once(machine: Machine) -> None:
    machine.engine.start(machine.launch("sh -c 'exit 3'" if job % 2 else "true", job) for job in range(30))
    assert len(machine.spawned()) == 30
    for job in range(30):
        assert machine.end_of(job) == Exited(3 if job % 2 else 0)
        assert len(machine.ends(job)) == 1


def test_a_start_that_fails_among_others_fails_alone(machine: Machine) -> None:
    launches = [machine.launch("true", job) for job in range(3)]
    launches.insert(1, machine.launch("true\0", 7))
    machine.engine.start(launches)
    assert isinstance(machine.end_of(7), NotStarted)
    for job in range(3):
        assert machine.end_of(job) == Exited(0)
