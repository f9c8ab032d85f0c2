"""`gputui` and `gputui FILE`, from the command line to the screen and back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.app import Stage, opened

from gputui.core.job import StateName
from gputui.gpus.hardware import Hardware
from gputui.tui.dialogs.ask import Ask
from gputui.tui.dialogs.forms import JobForm
from gputui.tui.dialogs.help import HelpScreen


def test_a_file_is_loaded_run_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.txt").write_text("echo one\necho two\nexit 3\n")

    async def history(stage: Stage) -> None:
        await stage.told("3")
        await stage.until(lambda: len(stage.snapshot.jobs) == 3, "the jobs are there")
        await stage.becomes(2, StateName.FAILED)
        await stage.becomes(1, StateName.SUCCEEDED)
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, "jobs.txt", "--gpus", "cpu:2", history=history) == 0

    async def again(stage: Stage) -> None:
        await stage.told("1 failed")
        assert stage.state(2) is StateName.FAILED, "a failed job is not run again by itself"
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, "jobs.txt", history=again) == 0


def test_a_monitor_starts_a_session_when_a_job_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def history(stage: Stage) -> None:
        await stage.until(lambda: stage.main.gpus.size.height > 30, "the devices have the whole screen")
        assert not (tmp_path / "gputui_run").exists(), "looking creates nothing"
        await stage.press("p", "R", "1", "2", "3", "z", "escape")
        await stage.press("?")
        assert isinstance(stage.screen, HelpScreen)
        await stage.press("escape", "a")
        assert isinstance(stage.screen, JobForm)
        await stage.press("escape")
        assert not (tmp_path / "gputui_run").exists(), "and so does thinking better of it"
        await stage.press("a")
        await stage.type("echo first")
        await stage.press("enter")
        await stage.told("added #0")
        await stage.becomes(0, StateName.SUCCEEDED)
        assert stage.table.display
        assert stage.app.focused is stage.table
        assert (tmp_path / "gputui_run" / ".gputui").exists()
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, "--gpus", "cpu:1", history=history) == 0


def test_in_the_monitor_enter_and_the_arrows_work_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def history(stage: Stage) -> None:
        await stage.until(lambda: stage.main.bridge.picture.sample is not None, "the machine is seen")
        assert stage.app.focused is stage.main.gpus
        for key in ("tab", "2", "3", "escape"):
            await stage.press(key)
            assert stage.app.focused is stage.main.gpus, key
        await stage.press("enter")
        assert "no job selected" not in stage.said
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, history=history) == 0


def test_a_session_started_by_the_monitor_says_which_slots_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputui.cli.run.session_options.find_hardware", lambda: Hardware(cores=2))

    async def history(stage: Stage) -> None:
        await stage.press("a")
        await stage.type("true")
        await stage.press("enter")
        await stage.told("no NVIDIA GPU found")
        await stage.becomes(0, StateName.SUCCEEDED)
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, history=history) == 0


def test_the_keymap_of_the_settings_is_used_and_an_invalid_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / ".config" / "gputui" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[keys]\nhelp = "f5"\n')

    async def history(stage: Stage) -> None:
        await stage.press("f5")
        assert isinstance(stage.screen, HelpScreen)
        await stage.press("escape", "q")

    assert opened(monkeypatch, tmp_path, history=history) == 0
    settings.write_text('[keys]\nhelpp = "f5"\n')
    assert opened(monkeypatch, tmp_path, history=history) == 2
    assert "did you mean help?" in capsys.readouterr().err


def test_reload_asks_and_applies_changes_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("echo one\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    async def history(stage: Stage) -> None:
        await stage.until(lambda: len(stage.snapshot.jobs) == 1, "the job is there")
        jobs.write_text("echo one\n#: snapshot\necho two\n")
        await stage.press("ctrl+r")
        await stage.until(lambda: isinstance(stage.screen, Ask), "it asks")
        assert len(stage.snapshot.jobs) == 1
        await stage.press("enter")
        await stage.until(lambda: len(stage.snapshot.jobs) == 2, "the new line is a job")
        await stage.becomes(1, StateName.SUCCEEDED)
        await stage.press("q")

    assert opened(monkeypatch, tmp_path, "jobs.txt", "--gpus", "cpu:1", history=history) == 0
