"""Keys on a GPU: drain and enable it, add a job to it, requeue or kill its jobs after a question."""

from __future__ import annotations

from support.app import LONG, Stage, on_stage
from support.sessions import simulated_slots

from gputui.core.job import StateName
from gputui.tui.dialogs.ask import Ask
from gputui.tui.dialogs.device import DeviceScreen


async def on_device(stage: Stage, job: int) -> None:
    """The cursor of the first pane on the slot that runs this job."""
    await stage.press("1")
    await stage.until(lambda: stage.main.gpus.device is not None, "there is a device")
    for _ in range(5):
        device = stage.main.gpus.device
        if device is not None and job in device.jobs:
            return
        await stage.press("j")
    raise AssertionError(f"no device runs #{job}")


@on_stage(slots=simulated_slots(2))
async def test_d_drains_a_device_and_d_enables_it(stage: Stage) -> None:
    job = await stage.running()
    await stage.until(lambda: any(job in device.jobs for device in stage.app.bridge.picture.devices), "it is seen")
    stage.main.look()
    await on_device(stage, job)
    await stage.press("d")
    await stage.told("draining: #0 may finish")
    await stage.until(lambda: len(stage.snapshot.slots) == 1, "one slot is left")
    assert stage.state(job) is StateName.RUNNING
    await stage.shows("draining · #0")
    await stage.press("d")
    await stage.until(lambda: len(stage.snapshot.slots) == 2, "both are back")


@on_stage(slots=simulated_slots(2))
async def test_d_drains_nothing_outside_the_gpu_pane(stage: Stage) -> None:
    await stage.until(lambda: stage.main.gpus.device is not None, "there is a device")
    for pane in ("2", "3"):
        await stage.press(pane, "d")
        await stage.told("press 1 for the GPUs, then d to drain the selected one")
        stage.said.clear()
    assert len(stage.snapshot.slots) == 2
    await stage.press("1")
    await stage.shows("d Drain")
    await stage.press("d")
    await stage.told("GPU 0 drained")
    await stage.shows("d Enable")


@on_stage(slots=simulated_slots(1))
async def test_jobs_on_a_device_are_stopped_only_after_a_question(stage: Stage) -> None:
    job = await stage.running()
    await stage.until(lambda: any(job in device.jobs for device in stage.app.bridge.picture.devices), "it is seen")
    stage.main.look()
    await on_device(stage, job)
    await stage.press("enter")
    assert isinstance(stage.screen, DeviceScreen)
    await stage.press("K")
    await stage.until(lambda: isinstance(stage.screen, Ask), "it asks")
    assert "Kill the jobs on" in stage.text
    await stage.press("escape")
    await stage.back_on_main()
    assert stage.state(job) is StateName.RUNNING
    await stage.press("enter", "B")
    await stage.until(lambda: isinstance(stage.screen, Ask), "it asks")
    await stage.press("y")
    await stage.until(lambda: stage.job(job).issued == 2, "a new attempt was made")
    await stage.becomes(job, StateName.RUNNING)
    stage.main.look()
    await stage.press("enter", "K")
    await stage.until(lambda: isinstance(stage.screen, Ask), "it asks")
    await stage.press("y")
    await stage.becomes(job, StateName.KILLED)


@on_stage(slots=simulated_slots(2))
async def test_a_adds_a_job_on_the_gpu_under_the_cursor(stage: Stage) -> None:
    await stage.press("1")
    await stage.until(lambda: len(stage.app.bridge.picture.devices) == 2, "both cards are seen")
    stage.main.look()
    await stage.press("j", "a")
    await stage.shows("Add a job on GPU 1")
    await stage.type(LONG)
    await stage.press("enter")
    await stage.until(lambda: len(stage.snapshot.jobs) == 1, "it was added")
    assert stage.snapshot[0].request.devices == ("1",)
    await stage.becomes(0, StateName.RUNNING)
    assert stage.snapshot[0].active is not None
    assert stage.snapshot[0].active.gpus == ("1",)


@on_stage(slots=simulated_slots(2))
async def test_k_in_the_gpu_pane_kills_the_job_of_the_gpu_and_not_the_row_in_the_queue(stage: Stage) -> None:
    first, second = await stage.add(LONG, LONG)
    await stage.becomes(second, StateName.RUNNING)
    await stage.until(lambda: any(second in each.jobs for each in stage.app.bridge.picture.devices), "it is seen")
    stage.main.look()
    await stage.go_to(first)
    await on_device(stage, second)
    await stage.press("K")
    await stage.until(lambda: isinstance(stage.app.screen, Ask), "it asks")
    await stage.shows(f"#{second}")
    await stage.press("K")
    await stage.becomes(second, StateName.KILLED)
    assert stage.state(first) is StateName.RUNNING
