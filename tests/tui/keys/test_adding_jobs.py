"""Adding jobs and sweeps from the screen, and changing those that wait: what is typed is what the session gets."""

from __future__ import annotations

import os

from support.stage import LONG, Stage, on_stage, spec
from textual.widgets import Input, TextArea

from gputui.core.job import Request, StateName
from gputui.tui.screens.job_form import JobForm
from gputui.tui.screens.sweep_form import SweepForm

HELD = {"hold": True}


def field(stage: Stage, name: str) -> Input:
    prefix = "field-" if isinstance(stage.screen, JobForm) else ""
    return stage.screen.query_one(f"#{prefix}{name}", Input)


async def fill(stage: Stage, **texts: str) -> None:
    for name, text in texts.items():
        field(stage, name).value = text
    await stage.settle()


@on_stage()
async def test_a_job_that_is_typed_in_runs_with_all_its_settings(stage: Stage) -> None:
    await stage.press("a")
    assert isinstance(stage.screen, JobForm)
    await stage.type("echo $SEED")
    await fill(stage, name="mine", gpus="0", priority="77", variables="SEED=7", cwd=str(stage.folder), retries="2",
               timeout="1h")  # fmt: skip
    await stage.press("enter")
    await stage.told("added #0")
    await stage.becomes(0, StateName.SUCCEEDED)
    job = stage.job(0)
    assert (job.spec.command, job.spec.name, job.priority, job.spec.retries) == ("echo $SEED", "mine", 77, 2)
    assert (job.spec.timeout, job.spec.request, job.spec.cwd) == (3600.0, Request(gpus=0), str(stage.folder))
    files = stage.app.bridge.files(job, 1)
    assert files is not None
    with open(files.out) as out:
        assert out.read() == "7\n"


@on_stage()
async def test_what_is_wrong_is_said_while_one_types_and_nothing_is_added(stage: Stage) -> None:
    await stage.press("a", "enter")
    await stage.shows("command: what is to run?")
    await stage.type("true")
    await fill(stage, priority="900")
    await stage.shows("priority: 900 is out of range")
    await stage.press("enter")
    assert isinstance(stage.screen, JobForm)
    await fill(stage, priority="", after="nobody")
    await stage.press("enter")
    await stage.back_on_main()
    await stage.until(lambda: any("nobody" in said for said in stage.said), "the owner refuses an unknown name")
    assert len(stage.snapshot.jobs) == 0
    await stage.press("a", "escape")
    await stage.back_on_main()


@on_stage()
async def test_earlier_commands_come_back_with_the_arrow_keys(stage: Stage) -> None:
    await stage.add("echo one", "echo two", "echo one", **HELD)
    await stage.press("a")
    await stage.type("ec")
    await stage.press("up")
    assert field(stage, "command").value == "echo one"
    await stage.press("up")
    assert field(stage, "command").value == "echo two"
    await stage.press("up", "down", "down")
    assert field(stage, "command").value == "ec", "what was typed is not lost"
    await stage.press("tab", "x")
    assert field(stage, "name").value == "x"
    await stage.press("up")
    assert stage.app.focused is field(stage, "command")


@on_stage()
async def test_edit_changes_a_waiting_job_and_only_what_was_changed(stage: Stage) -> None:
    script = "for i in 1 2; do\n  echo $i\ndone"
    [job] = await stage.add(
        spec(script, str(stage.folder), hold=True, priority=40, group="g", params={"lr": "1"}, retries=3)
    )
    before = stage.job(job)
    await stage.press("e")
    assert isinstance(stage.screen, JobForm)
    assert field(stage, "priority").value == "40"
    await fill(stage, priority="50", name="renamed")
    await stage.press("enter")
    await stage.told("#0 changed")
    after = stage.job(job)
    assert (after.priority, after.spec.name, after.spec.command) == (50, "renamed", script)
    assert (after.spec.params, after.spec.group, after.spec.retries) == ({"lr": "1"}, "g", 3)
    assert after.spec.environment == before.spec.environment
    assert after.state.name is StateName.HELD


@on_stage()
async def test_a_running_job_cannot_be_edited_and_the_user_is_told_what_can(stage: Stage) -> None:
    [job] = await stage.add(LONG)
    await stage.becomes(job, StateName.RUNNING)
    await stage.press("e")
    await stage.told("only a waiting job can be changed; c adds one like it")
    assert stage.screen is stage.main


@on_stage()
async def test_a_copy_is_a_job_of_its_own_with_the_same_settings(stage: Stage) -> None:
    [job] = await stage.add(spec("true", str(stage.folder), hold=True, priority=44, variables={"A": "b c"}))
    await stage.press("c")
    assert field(stage, "command").value == "true"
    assert field(stage, "variables").value == "A='b c'"
    await stage.press("enter")
    await stage.told("added #1")
    await stage.becomes(1, StateName.SUCCEEDED)
    assert stage.job(1).priority == 44
    assert stage.job(1).spec.variables == {"A": "b c"}
    assert stage.state(job) is StateName.HELD
    assert stage.table.cursor == 1, "the cursor is on what was added"


@on_stage()
async def test_a_sweep_shows_what_it_would_add_and_adds_just_that(stage: Stage) -> None:
    await stage.press("p", "A")
    assert isinstance(stage.screen, SweepForm)
    field(stage, "pattern").value = "train --lr {lr} --seed {seed}"
    stage.screen.query_one("#parameters", TextArea).text = "lr 0.1 0.01\nseed 0..2"
    await stage.shows("6 commands, all combinations, in order")
    await stage.shows("train --lr 0.1 --seed 0")
    await stage.press("ctrl+g")
    await stage.shows("in random order")
    await stage.press("ctrl+g", "ctrl+s")
    await stage.told("added 6 jobs")
    jobs = [job.spec for job in stage.snapshot]
    assert [job.command for job in jobs][:2] == ["train --lr 0.1 --seed 0", "train --lr 0.1 --seed 1"]
    assert jobs[5].params == {"lr": "0.01", "seed": "2"}
    assert {job.cwd for job in jobs} == {os.getcwd()}


@on_stage()
async def test_a_sweep_that_makes_no_sense_says_why_and_cannot_be_added(stage: Stage) -> None:
    await stage.press("A")
    parameters = stage.screen.query_one("#parameters", TextArea)
    for pattern, values, said in [
        ("train {lr}", "", "values: one parameter per line"),
        ("train {lr}", "lr log:x:y:z", "lr"),
        ("train {lr}", "lr 'a", "line 1 of the values"),
        ("train {lr}", "lr 1\nlr 2", "lr is given twice"),
        ("train {lr}", "lr", "lr has none yet"),
    ]:
        field(stage, "pattern").value = pattern
        parameters.text = values
        await stage.press("ctrl+s")
        assert isinstance(stage.screen, SweepForm), (pattern, values)
        assert said in str(stage.screen.query_one(".complaint").render())
    for pattern in (
        "{lr",
        "{0}",
        "{lr.__class__}",
        "{lr!x}",
        "{lr:>{w}}",
        "{}",
        "}{",
        "[/nope] {lr} \x1b[2J",
        "{{lr}}",
    ):
        field(stage, "pattern").value = pattern
        parameters.text = "lr [/b] \x1b[2J"
        await stage.settle()
    field(stage, "samples").value = "many"
    await stage.shows("samples: 'many' is no whole number")
    await stage.press("escape")
    await stage.back_on_main()
    assert len(stage.snapshot.jobs) == 0
