"""`Enter`: the details of a job: error, settings, attempts side by side, history, curves; `d` compares logs."""

from __future__ import annotations

import subprocess
import threading
from unittest.mock import patch

from msgspec.structs import replace
from support.app import HELD, Stage, on_stage

from gputui.core.events import Edit, Pause, Rerun, Settings
from gputui.core.job import StateName
from gputui.logs.line_index import read_tail
from gputui.session.devices import recording
from gputui.tui.layout import Pane
from gputui.tui.views import job_facts
from gputui.tui.views.details import DetailsView
from gputui.tui.views.job_facts import TailDiffView

FAILS = 'echo step 1; echo step 2; echo "ValueError: no such size" >&2; exit 3'
PRINTS = "python3 -c \"for e in range(1, 9): print(f'epoch {e} val_loss={2 / e:.4f} acc={e}')\""


async def details(stage: Stage, job: int) -> DetailsView:
    await stage.go_to(job)
    await stage.press("enter")
    view = await stage.opens(DetailsView)
    await stage.shows("History")
    return view


@on_stage()
async def test_a_running_job_shows_its_pid_directory_and_command(stage: Stage) -> None:
    await stage.running()
    view = await details(stage, 0)
    await stage.until(lambda: view.details is not None and view.details.pid is not None, "its pid is known")
    assert view.details is not None
    await stage.shows(f"pid       {view.details.pid}")
    for words in ("sleep 600", "priority  30", "requests", str(stage.directory), "added", "attempt 1 started"):
        assert words in stage.text, words


@on_stage()
async def test_a_failed_job_shows_its_error_and_l_opens_its_log(stage: Stage) -> None:
    await stage.command(Settings(pause_after=0))
    await stage.add(FAILS)
    await stage.becomes(0, StateName.FAILED)
    await details(stage, 0)
    await stage.shows("✗ ValueError: no such size")
    await stage.press("l")
    await stage.back_on_main()
    await stage.until(lambda: stage.main.zoomed is Pane.LOG, "its log is there")


@on_stage()
async def test_attempts_are_side_by_side_with_their_differences(stage: Stage) -> None:
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", "-C", str(stage.directory), *words], check=True)
    await stage.command(Settings(pause_after=0))
    await stage.add(FAILS + "; true --bs 256")
    await stage.becomes(0, StateName.FAILED)
    info = stage.directory / "gputui_run/job_0/INFO"
    await stage.until(lambda: info.exists() and "git commit" in info.read_text(), "INFO is written")
    spec = replace(stage.job(0).spec, command="echo step 1; echo step 3; true --bs 128")
    await stage.command(Rerun(job=0), Edit(job=0, spec=spec))
    await stage.becomes(0, StateName.SUCCEEDED)
    await details(stage, 0)
    await stage.shows("→")
    name = subprocess.check_output(["git", "-C", str(stage.directory), "rev-parse", "HEAD"], text=True)[:7]
    await stage.until(lambda: sum(name in line for line in stage.lines()) >= 2, "both commits are told")
    await stage.press("d")
    await stage.opens(TailDiffView)
    await stage.shows("- step 2")
    await stage.shows("+ step 3")
    await stage.shows("- ValueError: no such size")
    await stage.press("escape", "escape")
    await stage.back_on_main()


@on_stage()
async def test_logs_are_compared_in_a_thread_and_reread_only_while_they_grow(stage: Stage) -> None:
    gate = stage.directory / "gate"
    await stage.command(Settings(pause_after=0))
    await stage.add(f"echo first; test -e once || {{ touch once; exit 1; }}; until test -e {gate}; do sleep 0.01; done")
    await stage.becomes(0, StateName.FAILED)
    await stage.command(Rerun(job=0))
    await stage.becomes(0, StateName.RUNNING)
    await details(stage, 0)
    readers: list[threading.Thread] = []

    def read(path: str, limit: int) -> bytes:
        readers.append(threading.current_thread())
        return read_tail(path, limit)

    with patch.object(job_facts, "read_tail", read):
        await stage.press("d")
        await stage.shows("   first")
        view = await stage.opens(TailDiffView)
        log = stage.directory / "gputui_run/job_0/attempts/2/OUT"
        log.write_text(log.read_text() + "second\n")
        await stage.shows("+ second")
        gate.touch()
        await stage.becomes(0, StateName.SUCCEEDED)
        await stage.until(lambda: not view._reading, "it is compared")
        before = len(readers)
        for _ in range(5):
            view.paint()
            await stage.settle()
        assert len(readers) == before
    assert threading.main_thread() not in readers


@on_stage()
async def test_curves_are_beside_the_facts_and_tab_changes_the_page(stage: Stage) -> None:
    await stage.add(PRINTS)
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.until(lambda: 0 in stage.main.snapshot.results, "results are read")
    await details(stage, 0)
    for words in ("best 0.25", "val_loss   by step", " acc ", "epoch 8 val_loss=0.2500 acc=8"):
        await stage.shows(words)
    assert any("│" in line and "⠤" in line for line in stage.lines()), "a curve beside the facts"
    await stage.press("m")
    await stage.shows("acc   by step")
    await stage.press("tab")
    await stage.until(lambda: "by step" not in stage.text, "only the facts are shown")
    await stage.press("tab", "m")
    await stage.pilot.resize_terminal(80, 24)
    for words in ("val_loss   by step", "last 0.25", "│ acc", "epoch 8 val_loss=0.2500 acc=8"):
        await stage.shows(words)
    assert "History" not in stage.text
    assert all(len(line) <= 80 for line in stage.lines())
    await stage.press("tab")
    await stage.shows("History")


def sweep(offset: float, then: str = "") -> str:
    """A job that prints twelve epochs of a loss, which is higher by `offset`."""
    return f"for e in 1 2 3 4 5 6 7 8 9 10 11 12; do echo epoch $e loss=$((20 - e + {offset})); done; {then}"


@on_stage()
async def test_a_job_is_compared_with_its_siblings_at_the_same_step(stage: Stage) -> None:
    done = await stage.add(*(sweep(number) for number in range(6)))
    for job in done:
        await stage.becomes(job, StateName.SUCCEEDED)
    [slow] = await stage.add(sweep(40, "exec sleep 600"))
    await stage.becomes(slow, StateName.RUNNING)
    await stage.until(lambda: all(job in stage.main.snapshot.results for job in (*done, slow)), "results are read")
    await details(stage, slow)
    await stage.shows("« behind its siblings")
    await stage.shows("median of 6 others")
    await stage.shows("median 10.5")
    for label in (" median", " ★ #0", f" #{slow}"):
        assert any(line.endswith(label) for line in stage.lines()), f"{label} is at the end of its curve"


@on_stage()
async def test_what_an_attempt_used_is_drawn_and_kept_after_its_end(stage: Stage) -> None:
    gate = stage.directory / "gate"
    with patch.object(recording, "HOST_FIRST", 0.2), patch.object(recording, "HOST_EVERY", 0.2):
        await stage.add(f"until test -e {gate}; do :; done")
        await stage.becomes(0, StateName.RUNNING)
        await details(stage, 0)
        for name in ("CPU %", "RAM G"):
            await stage.shows(name)
        gate.touch()
        await stage.becomes(0, StateName.SUCCEEDED)
    await stage.press("escape")
    await stage.until(lambda: (stage.directory / "gputui_run/.gputui/usage/0.1").exists(), "it is stored")
    view = await details(stage, 0)
    await stage.shows("CPU %")
    cpu = next(curve for curve in view.curves[1] if curve.name == "CPU %")
    assert max(point.value for point in cpu.points) > 2, "it was busy all the time"


@on_stage()
async def test_the_end_of_the_log_follows_the_job(stage: Stage) -> None:
    gate = stage.directory / "gate"
    await stage.command(Settings(pause_after=0))
    await stage.add(f"echo first; until test -e {gate}; do sleep 0.01; done; echo second; echo wrong >&2; exit 3")
    await stage.becomes(0, StateName.RUNNING)
    await details(stage, 0)
    await stage.shows(" first")
    gate.touch()
    await stage.becomes(0, StateName.FAILED)
    await stage.shows("ERR, last lines")
    await stage.shows(" wrong")


@on_stage()
async def test_a_waiting_rerun_shows_the_end_of_the_attempt_that_failed(stage: Stage) -> None:
    await stage.command(Settings(pause_after=0))
    await stage.add("echo wrong >&2; exit 3")
    await stage.becomes(0, StateName.FAILED)
    await stage.command(Pause(), Rerun(job=0))
    await stage.becomes(0, StateName.QUEUED)
    await stage.go_to(0)
    await stage.shows("attempt 1/1 · next attempt not started")
    await details(stage, 0)
    await stage.shows("ERR, last lines")
    await stage.shows(" wrong")


@on_stage()
async def test_j_and_k_go_to_other_jobs_and_actions_apply_to_the_shown_one(stage: Stage) -> None:
    await stage.add("true 1", "true 2", **HELD)
    view = await details(stage, 0)
    await stage.press("j")
    await stage.until(lambda: view.job == 1 and "true 2" in stage.text, "the next job is shown")
    await stage.press("h")
    await stage.becomes(1, StateName.SUCCEEDED)
    assert stage.state(0) is StateName.HELD
    await stage.press("k")
    assert view.job in (0, 1)
