"""Adding jobs and sweeps, and editing waiting jobs."""

from __future__ import annotations

import os

from support.app import HELD, Stage, on_stage
from support.sessions import spec
from textual.widgets import Input, TextArea

from gputui.core.job import Request, StateName
from gputui.tui.dialogs.forms import JobForm, SweepForm


def field(stage: Stage, name: str) -> Input:
    prefix = "field-" if isinstance(stage.screen, JobForm) else ""
    return stage.screen.query_one(f"#{prefix}{name}", Input)


def complaint(stage: Stage) -> str:
    return str(stage.screen.query_one(".complaint").render())


async def fill(stage: Stage, **texts: str) -> None:
    for name, text in texts.items():
        field(stage, name).value = text
    await stage.settle()


@on_stage()
async def test_a_typed_job_runs_with_all_its_settings(stage: Stage) -> None:
    await stage.press("a")
    assert isinstance(stage.screen, JobForm)
    await stage.type("echo $SEED")
    await fill(stage, name="mine", gpus="0", priority="77", variables="SEED=7", cwd=str(stage.directory), retries="2",
               timeout="1h")  # fmt: skip
    await stage.press("enter")
    await stage.told("added #0")
    await stage.becomes(0, StateName.SUCCEEDED)
    job = stage.job(0)
    assert (job.spec.command, job.spec.name, job.priority, job.spec.retries) == ("echo $SEED", "mine", 77, 2)
    assert (job.spec.timeout, job.spec.request, job.spec.cwd) == (3600.0, Request(gpus=0), str(stage.directory))
    files = stage.app.bridge.files(job, 1)
    assert files is not None
    with open(files.out) as out:
        assert out.read() == "7\n"


@on_stage()
async def test_errors_are_shown_while_typing_and_nothing_is_added(stage: Stage) -> None:
    await stage.press("a", "enter")
    await stage.shows("command: enter a command")
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
async def test_edit_changes_only_what_was_edited(stage: Stage) -> None:
    script = "for i in 1 2; do\n  echo $i\ndone"
    [job] = await stage.add(
        spec(script, cwd=str(stage.directory), hold=True, priority=40, group="g", params={"lr": "1"}, retries=3)
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
async def test_a_running_job_cannot_be_edited(stage: Stage) -> None:
    await stage.running()
    await stage.press("e")
    await stage.told("only waiting jobs can be changed")
    assert stage.screen is stage.main


@on_stage()
async def test_a_copy_is_a_new_job_with_the_same_settings(stage: Stage) -> None:
    [job] = await stage.add(spec("true", cwd=str(stage.directory), hold=True, priority=44, variables={"A": "b c"}))
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
async def test_a_sweep_adds_what_its_preview_shows(stage: Stage) -> None:
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
async def test_an_invalid_sweep_says_why_and_is_not_added(stage: Stage) -> None:
    await stage.press("A")
    for pattern, values, samples, error in [
        ("train {lr}", "", "", "values: one parameter per line, name first, e.g. lr 0.1 0.01"),
        ("train {lr}", "lr log:x:y:z", "", "lr"),
        ("train {lr}", "lr 'a", "", "line 1 of the values"),
        ("train {lr}", "lr 1\nlr 2", "", "lr is given twice"),
        ("train {lr}", "lr", "", "values: none yet for lr"),
        ("train {lr}", "lr 1", "0", "samples: 0 would add no jobs; leave it empty for all"),
        ("train {lr}", "lr 1", "many", "samples: 'many' is not a whole number"),
        ("train 0.1", "lr 1", "", "lr is not in the command: write {lr} where its value goes"),
        *((odd, "lr [/b] \x1b[2J", "", "") for odd in ("{lr", "{lr!x}", "{lr:>{w}}", "}{", "[/nope] {lx} \x1b[2J")),
    ]:
        field(stage, "pattern").value, field(stage, "samples").value = pattern, samples
        stage.screen.query_one("#parameters", TextArea).text = values
        await stage.press("ctrl+s")
        assert isinstance(stage.screen, SweepForm), (pattern, values)
        assert error in complaint(stage)
    await stage.press("escape")
    await stage.back_on_main()
    assert len(stage.snapshot.jobs) == 0


@on_stage()
async def test_a_key_puts_the_parameters_of_a_sweep_into_the_command(stage: Stage) -> None:
    await stage.add("train --lr 0.1 --bs=32", **HELD)
    await stage.press("A")
    assert field(stage, "pattern").value == "train --lr 0.1 --bs=32"
    stage.screen.query_one("#parameters", TextArea).text = "lr 0.5 0.7\nbs 8"
    await stage.press("ctrl+s")
    assert complaint(stage) == "lr is not in the command: ^t turns --lr 0.1 into --lr {lr}"
    await stage.press("ctrl+t")
    assert field(stage, "pattern").value == "train --lr {lr} --bs={bs}"
    await stage.press("ctrl+s")
    await stage.told("added 2 jobs")
    swept = [stage.job(job).spec for job in (1, 2)]
    assert [job.command for job in swept] == ["train --lr 0.5 --bs=8", "train --lr 0.7 --bs=8"]
    assert [job.params for job in swept] == [{"lr": "0.5", "bs": "8"}, {"lr": "0.7", "bs": "8"}]


SWEPT = {"params": {"lr": "0.1", "bs": "32"}, "name": "lr0.1-bs32", "group": "g", "hold": True}


@on_stage(size=(160, 40))
async def test_parameters_and_name_follow_an_edited_command(stage: Stage) -> None:
    [job] = await stage.add("train --lr 0.1 --bs 32", **SWEPT)
    await stage.press("e")
    await fill(stage, command="train --lr 0.9 --bs 32")
    assert field(stage, "name").value == "", "the name told the old value"
    await stage.press("enter")
    await stage.told("#0 changed")
    assert (stage.job(job).spec.params, stage.job(job).spec.name) == ({"lr": "0.9", "bs": "32"}, None)
    await stage.until(lambda: "lr=0.9 bs=32" in stage.text, "the log's title tells the new value")
    assert "0.1" not in stage.text
    await stage.press("e")
    await fill(stage, command="make all")
    await stage.press("enter")
    await stage.until(lambda: stage.job(job).spec.command == "make all", "it is changed")
    assert stage.job(job).spec.params == {}
    await stage.until(lambda: "bs" not in stage.table.render_line(0).text, "no column is left for what nobody has")


@on_stage()
async def test_no_form_opens_with_an_error(stage: Stage) -> None:
    await stage.add("train --lr 0.1", **HELD)
    for key in ("a", "A", "e", "c"):
        await stage.press(key)
        assert isinstance(stage.screen, JobForm | SweepForm)
        assert complaint(stage) == "", key
        await stage.press("escape")
        await stage.back_on_main()
