"""Pausing, and the ways to quit: commands are committed before the screen closes."""

from __future__ import annotations

import signal

from support.app import LONG, Stage, on_stage

from gputui.core.events import Mode, PauseKind
from gputui.core.job import StateName
from gputui.demo.tour import Tour, guide
from gputui.tui.bridge import Way
from gputui.tui.dialogs.ask import Ask


async def left(stage: Stage) -> Way | None:
    """How the app was left."""
    await stage.until(lambda: stage.app._exit, "the app has left")
    return stage.app.return_value


@on_stage(slots=1)
async def test_p_pauses_and_p_resumes_and_marks_stay(stage: Stage) -> None:
    [running, waiting] = await stage.add(LONG, "true")
    await stage.becomes(running, StateName.RUNNING)
    await stage.press("space", "p")
    await stage.until(lambda: stage.snapshot.mode is Mode.PAUSED, "it is paused")
    await stage.shows("‖ PAUSED")
    await stage.shows("by you")
    await stage.shows("p Resume")
    assert stage.state(running) is StateName.RUNNING, "running jobs go on"
    assert stage.table.marks == {running}
    await stage.press("p")
    await stage.until(lambda: stage.snapshot.mode is Mode.RUNNING, "it is resumed")
    await stage.until(lambda: "PAUSED" not in stage.text, "the banner is gone")
    assert stage.state(waiting) is StateName.QUEUED


@on_stage()
async def test_q_quits_at_once_when_nothing_is_running(stage: Stage) -> None:
    await stage.press("q")
    assert await left(stage) is Way.DETACH


@on_stage()
async def test_q_asks_while_a_job_is_running_and_escape_stays(stage: Stage) -> None:
    job = await stage.running()
    await stage.press("q")
    assert isinstance(stage.screen, Ask)
    await stage.shows("1 running")
    await stage.press("escape")
    await stage.back_on_main()
    await stage.press("ctrl+c")
    assert isinstance(stage.screen, Ask)
    await stage.press("q")
    assert await left(stage) is Way.DETACH
    assert stage.state(job) is StateName.RUNNING
    assert stage.snapshot.mode is Mode.RUNNING


@on_stage(slots=1)
async def test_drain_is_committed_before_the_screen_closes(stage: Stage) -> None:
    [job, waiting] = await stage.add(LONG, "true")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("q", "r")
    assert await left(stage) is Way.DRAIN
    assert stage.snapshot.mode is Mode.DRAINING
    assert (stage.state(job), stage.state(waiting)) == (StateName.RUNNING, StateName.QUEUED)


@on_stage(slots=1)
async def test_stop_requeues_running_jobs_and_quits(stage: Stage) -> None:
    [job, waiting] = await stage.add(LONG, "true")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("q", "s")
    assert await left(stage) is Way.STOP
    cause = stage.snapshot.cause
    assert cause is not None
    assert cause.kind is PauseKind.STOPPED
    assert (stage.state(job), stage.state(waiting)) == (StateName.QUEUED, StateName.QUEUED)


@on_stage(slots=1)
async def test_q_while_stopping_quits_at_once(stage: Stage) -> None:
    [job] = await stage.add("trap '' TERM; touch here; while :; do sleep 0.05; done")
    await stage.until(lambda: (stage.directory / "here").exists(), "it ignores SIGTERM")
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("q", "s")
    await stage.told("stopping: running jobs are requeued gracefully")
    await stage.becomes(job, StateName.STOPPING)
    await stage.press("q", "q")
    assert await left(stage) is Way.STOP


@on_stage()
async def test_ctrl_c_asks_and_sigusr1_drains(stage: Stage) -> None:
    await stage.running()
    stage.app.asked_to_leave(signal.SIGINT)
    await stage.until(lambda: isinstance(stage.screen, Ask), "Ctrl-C asks")
    stage.app.asked_to_leave(signal.SIGINT)
    await stage.back_on_main()
    stage.app.asked_to_leave(signal.SIGUSR1)
    assert await left(stage) is Way.DRAIN
    assert stage.snapshot.mode is Mode.DRAINING


@on_stage()
async def test_sigterm_detaches(stage: Stage) -> None:
    stage.app.asked_to_leave(signal.SIGTERM)
    assert await left(stage) is Way.DETACH
    assert stage.app.return_code == 143


@on_stage(size=(80, 24), toasts=True)
async def test_a_notification_is_shown_once_and_above_the_hint_of_the_tour(stage: Stage) -> None:
    guide(stage.main, Tour(lambda: None), lambda: None)
    stage.app.notify("only once", timeout=600)
    await stage.shows("only once")
    for keys in ((), ("?",), ("escape", "a"), ("escape",)):
        await stage.press(*keys)
        await stage.shows("only once")
        assert stage.text.count("only once") == 1, keys
        toast = next(number for number, line in enumerate(stage.lines()) if "only once" in line)
        assert toast < 22, "the hint stands below it"


@on_stage(slots=1)
async def test_b_notifies_the_user_when_the_job_ends(stage: Stage) -> None:
    calls: list[str] = []
    stage.app.alert = calls.append  # type: ignore[method-assign,assignment]
    [job, _] = await stage.add("until test -e go; do sleep 0.05; done", "sleep 600")
    await stage.becomes(job, StateName.RUNNING)
    await stage.go_to(job)
    await stage.press("b")
    await stage.until(lambda: stage.job(job).notify is True, "it is marked")
    await stage.press("b")
    await stage.until(lambda: stage.job(job).notify is False, "and no longer")
    await stage.press("b")
    await stage.until(lambda: stage.job(job).notify is True, "and again")
    (stage.directory / "go").write_text("")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.until(lambda: calls, "the user is called")
    assert "#0" in calls[0]
    assert "succeeded" in calls[0]
