"""A session whose jobs have all ended costs next to nothing, and still shows what happens."""

from __future__ import annotations

from support.app import Stage, on_stage

from gputui.core.job import StateName


@on_stage(slots=1)
async def test_a_session_at_rest_is_painted_every_ten_seconds(stage: Stage) -> None:
    main, time = stage.main, [1_000_000.0]
    main.now = lambda: time[0]
    await stage.becomes((await stage.add("true"))[0], StateName.SUCCEEDED)
    await stage.until(main._is_at_rest, "nothing changes")
    time[0] += 9
    assert main._is_at_rest()
    time[0] += 1
    assert not main._is_at_rest()


@on_stage(slots=1)
async def test_the_log_of_an_ended_job_is_read_when_it_grows(stage: Stage) -> None:
    job = (await stage.add("echo first"))[0]
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.shows("first")
    files = stage.app.bridge.files(stage.job(job), 1)
    assert files is not None
    with open(files.out, "a") as out:
        out.write("written by a process that the job left behind\n")
    await stage.shows("written by a process")
