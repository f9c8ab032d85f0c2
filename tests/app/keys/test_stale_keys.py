"""A key applies to the job as it was painted: if it has changed since, the command is refused."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage

from gputui.core.events import Kill, Release, Rerun
from gputui.core.job import StateName
from gputui.session.messages import Commands


def unpainted(stage: Stage) -> None:
    """From now on the screen lags behind the session, as over a slow link."""
    stage.table.show = lambda snapshot, changed: None  # type: ignore[method-assign]


async def behind_the_screen(stage: Stage, *events: Kill | Release) -> None:
    owner = stage.app.bridge.owner
    assert owner is not None
    owner.do(Commands(events)).result(30)


@on_stage(slots=1)
async def test_a_job_that_started_meanwhile_is_not_edited_held_or_removed(stage: Stage) -> None:
    [job] = await stage.add(LONG, hold=True)
    await stage.press("e")
    unpainted(stage)
    await behind_the_screen(stage, Release(job=job))
    await stage.until(lambda: stage.state(job) is StateName.RUNNING, "it runs, unpainted")
    stage.screen.query_one("#field-priority").value = "90"  # type: ignore[attr-defined]
    await stage.press("enter")
    await stage.told("#0 just changed: it is running now")
    assert stage.job(job).priority == 30
    assert stage.state(job) is StateName.RUNNING


@on_stage(slots=5)
async def test_each_key_is_refused_for_a_job_that_started_meanwhile(stage: Stage) -> None:
    jobs = await stage.add(*[LONG] * 5, hold=True)
    unpainted(stage)
    await behind_the_screen(stage, *(Release(job=job) for job in jobs))
    await stage.until(lambda: all(stage.state(job) is StateName.RUNNING for job in jobs), "they run, unpainted")
    for job, keys in zip(jobs, ("h", "Dy", "+", "Ky", "}"), strict=True):
        await stage.go_to(job)
        await stage.press(*keys)
        await stage.told(f"#{job} just changed: it is running now")
    assert {stage.state(job) for job in jobs} == {StateName.RUNNING}
    assert {stage.job(job).priority for job in jobs} == {30}


@on_stage(slots=1)
async def test_a_dialog_does_not_apply_to_a_newer_attempt(stage: Stage) -> None:
    [job] = await stage.add(f"test -e second || {{ touch second; {LONG}; }}; {LONG}")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K")
    await behind_the_screen(stage, Kill(job=job, now=True))
    await stage.becomes(job, StateName.KILLED)
    await stage.command(Rerun(job=job))
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("K")
    await stage.until(lambda: stage.said, "it is refused")
    assert stage.state(job) is StateName.RUNNING
    assert stage.job(job).issued == 2
