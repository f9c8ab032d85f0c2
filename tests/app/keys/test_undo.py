"""`u` takes back what the keys did, the last first, and says what it took back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.app import LONG, Stage, on_stage
from textual.widgets import Input

from gputui.core.events import Pause
from gputui.core.job import Job, StateName

KEYS = {
    "hold": ("h",), "move": ("[",), "priority change": ("+",), "edit": ("e", "x", "enter"),
    "notification setting": ("b",), "removal": ("D", "y"),
}  # fmt: skip
"""The keys that change a waiting job, by what the change is called."""


def seen(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if not job.archived]


async def undoes(stage: Stage, what: str) -> None:
    stage.said.clear()
    await stage.press("u")
    await stage.told(f"undone: {what}")


@on_stage()
async def test_every_change_of_a_waiting_job_is_undone_in_order(stage: Stage) -> None:
    await stage.command(Pause())
    await stage.add(*["true"] * 3)
    await stage.go_to(1)
    states: list[list[Job]] = []
    for keys in KEYS.values():
        states.append(seen(stage.snapshot.jobs))
        await stage.press(*keys)
        await stage.back_on_main()
        await stage.until(lambda: seen(stage.snapshot.jobs) != states[-1], f"{keys} change something")
    for what in reversed(KEYS):
        await undoes(stage, f"{what} of #1")
        wanted = states.pop()
        await stage.until(lambda: seen(stage.snapshot.jobs) == wanted, f"the {what} is undone")  # noqa: B023
        assert stage.table.cursor == 1
    stage.said.clear()
    await stage.press("u")
    await stage.told("nothing to undo")


@on_stage(slots=1)
async def test_reruns_and_added_jobs_are_undone_unless_they_have_started(stage: Stage) -> None:
    failed = (await stage.add("exit 3"))[0]
    await stage.becomes(failed, StateName.FAILED)
    await stage.until(lambda: [*stage.directory.rglob("FAILURE")], "its marker is written")
    await stage.command(Pause())
    await stage.go_to(failed)
    await stage.press("r")
    await stage.becomes(failed, StateName.QUEUED)
    await undoes(stage, f"rerun of #{failed}")
    await stage.becomes(failed, StateName.FAILED)
    assert [*stage.directory.rglob("FAILURE")]

    await stage.press("a")
    stage.screen.query_one("#field-command", Input).value = LONG
    await stage.press("enter")
    await stage.becomes(1, StateName.QUEUED)
    await undoes(stage, "addition of #1")
    await stage.until(lambda: stage.snapshot[1].archived, "it is removed")

    await stage.press("a")
    stage.screen.query_one("#field-command", Input).value = LONG
    await stage.press("enter")
    await stage.becomes(2, StateName.QUEUED)
    await stage.press("p")
    await stage.becomes(2, StateName.RUNNING)
    stage.said.clear()
    await stage.press("u")
    await stage.told("resume and 1 command before it cannot be undone")
    await stage.press("u")
    await stage.told("nothing to undo")
    assert stage.job(2).state.name is StateName.RUNNING


@on_stage()
async def test_of_several_jobs_those_that_changed_since_stay_as_they_are(stage: Stage) -> None:
    await stage.add(*["true"] * 3, hold=True)
    await stage.press("*", "+")
    await stage.until(lambda: {job.priority for job in stage.snapshot} == {40}, "all are raised")
    await stage.press("escape")
    await stage.go_to(2)
    await stage.press("K", "enter")
    await stage.becomes(2, StateName.KILLED)
    await stage.press("u")
    await stage.told("kill of #2 cannot be undone; press again to undo: priority change of #0 #1 #2")
    await undoes(stage, "priority change of #0 #1 #2; changed since, so left as it is: #2")
    assert [job.priority for job in stage.snapshot] == [30, 30, 40]


@on_stage()
async def test_only_what_can_be_undone_is_offered(stage: Stage) -> None:
    [running] = await stage.add(LONG)
    [held] = await stage.add("true", hold=True)
    await stage.becomes(running, StateName.RUNNING)
    await stage.go_to(held)
    await stage.press("+")
    await stage.until(lambda: stage.job(held).priority == 40, "it is raised")
    await stage.go_to(running)
    for _ in range(2):
        await stage.press("S", "y")
        await stage.becomes(running, StateName.SUSPENDED)
        await stage.press("S")
        await stage.becomes(running, StateName.RUNNING)
    stage.said.clear()
    await stage.press("u")
    await stage.told(
        f"continuation of #{running} and 3 commands before it cannot be undone; "
        f"press again to undo: priority change of #{held}"
    )
    await undoes(stage, f"priority change of #{held}")


@on_stage()
async def test_a_refused_command_is_not_undone(stage: Stage) -> None:
    await stage.add("true", hold=True)
    await stage.press("[")
    await stage.told("already first")
    stage.said.clear()
    await stage.press("u")
    await stage.told("nothing to undo")


@pytest.mark.parametrize("count", [2, 5])
def test_what_was_undone_names_a_few_jobs_and_counts_many(count: int, tmp_path: Path) -> None:
    @on_stage()
    async def many(stage: Stage) -> None:
        await stage.command(Pause())
        await stage.add(*["true"] * count)
        await stage.press("*", "h")
        await stage.until(lambda: stage.snapshot.count(StateName.HELD) == count, "all are held")
        await undoes(stage, "hold of #0 #1" if count == 2 else "hold of 5 jobs")
        await stage.until(lambda: not stage.snapshot.count(StateName.HELD), "all are released")

    many(tmp_path)
