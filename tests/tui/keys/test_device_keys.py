"""Keys on a device: it is drained and enabled, and what runs on it is put back or killed, after a question."""

from __future__ import annotations

from support.stage import LONG, Stage, on_stage, simulated_lanes

from gputui.core.job import StateName
from gputui.tui.dialogs.ask import Ask
from gputui.tui.dialogs.device import DeviceScreen


async def on_device(stage: Stage, job: int) -> None:
    """The cursor of the first pane on the lane that runs this job."""
    await stage.press("1")
    await stage.until(lambda: stage.main.gpus.device is not None, "there is a device")
    for _ in range(5):
        device = stage.main.gpus.device
        if device is not None and job in device.jobs:
            return
        await stage.press("j")
    raise AssertionError(f"no device runs #{job}")


@on_stage(lanes=simulated_lanes(2))
async def test_d_drains_a_device_and_d_enables_it(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.until(lambda: any(job in device.jobs for device in stage.app.bridge.picture.devices), "it is seen")
    stage.main.look()
    await on_device(stage, job)
    await stage.press("d")
    await stage.told("is draining: #0 may end")
    await stage.until(lambda: len(stage.snapshot.lanes) == 1, "one lane is left")
    assert stage.state(job) is StateName.RUNNING
    await stage.shows("draining · #0")
    await stage.press("d")
    await stage.until(lambda: len(stage.snapshot.lanes) == 2, "both are back")


@on_stage(lanes=simulated_lanes(2))
async def test_d_drains_nothing_where_one_does_not_see_what(stage: Stage) -> None:
    await stage.until(lambda: stage.main.gpus.device is not None, "there is a device")
    for pane in ("2", "3"):
        await stage.press(pane, "d")
        await stage.told("1 goes to the GPUs; there d drains the one under the cursor")
        stage.said.clear()
    assert len(stage.snapshot.lanes) == 2
    await stage.press("1")
    await stage.shows("d Drain")
    await stage.press("d")
    await stage.told("GPU 0 is drained")
    await stage.shows("d Enable")


@on_stage(lanes=simulated_lanes(1))
async def test_what_runs_on_a_device_is_ended_only_after_a_question(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.until(lambda: any(job in device.jobs for device in stage.app.bridge.picture.devices), "it is seen")
    stage.main.look()
    await on_device(stage, job)
    await stage.press("enter")
    assert isinstance(stage.screen, DeviceScreen)
    await stage.press("K")
    await stage.until(lambda: isinstance(stage.screen, Ask), "it asks")
    assert "Kill what runs on" in stage.text
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


@on_stage(lanes=simulated_lanes(2))
async def test_a_adds_on_the_card_under_the_cursor(stage: Stage) -> None:
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


@on_stage(lanes=simulated_lanes(2))
async def test_k_among_the_cards_kills_what_runs_on_the_card_and_never_the_row_in_the_queue(stage: Stage) -> None:
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


@on_stage(lanes=simulated_lanes(2), size=(120, 40))
async def test_zoomed_the_cards_show_their_history_users_and_the_machine(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("1", "z")
    await stage.shows("-30 min")
    await stage.shows("Users")
    await stage.until(lambda: stage.app.bridge.machine.facts() is not None, "the machine was looked at")
    await stage.shows("load")
    await stage.press("z")
    await stage.until(lambda: not stage.main.gpus.full, "it is a pane again")
