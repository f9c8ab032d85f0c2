"""`gputui demo` on a real terminal: the tour, and nothing is left afterwards, whatever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.core import World, spec
from support.sessions import GPUTUI, all_pids, environment_of
from support.terminal import CTRL_C, RecordedTerminal, recorded
from support.waiting import PATIENCE, until

from gputui.core.events import Cause, Mode, PauseKind
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.demo.stage import FORGOTTEN, Stage, drafts
from gputui.demo.tour import BEFORE_FAILURE, FAILURE, STEPS, Tour

NARROW = 80


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its temporary directory."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    return made


@contextmanager
def demo(speed: int = 1) -> Iterator[RecordedTerminal]:
    with recorded([*GPUTUI, "demo", "--speed", str(speed)], size=(120, 40)) as terminal:
        yield terminal


def processes_of(directory: Path) -> list[int]:
    """Jobs of the demo and whatever else was told of its directory, this test and its terminal aside."""
    mark = os.fsencode(directory / "gputui-demo-")
    return [pid for pid in all_pids() if mark in words_of(pid) or b"GPUTUI_SESSION=" + mark in environment_of(pid)]


def words_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def nothing_is_left(directory: Path) -> None:
    until(lambda: not list(directory.iterdir()) and not processes_of(directory), "nothing of the demo is left")


def runs(terminal: RecordedTerminal, directory: Path) -> None:
    terminal.shows("▶ 4 run")
    until(lambda: len(processes_of(directory)) > 4, "jobs run, and the broom waits")


def test_the_demo_pauses_after_its_errors_and_resumes_when_fixed(directory: Path) -> None:
    with demo(speed=12) as terminal:
        terminal.shows("1/8")
        terminal.shows("● running")
        terminal.press("j")
        terminal.shows("2/8")
        terminal.shows("same error")
        terminal.shows("2/8  the vit jobs lacked a file")
        terminal.press("R")
        terminal.shows("Enter: ")
        terminal.press("\r")
        terminal.shows("▶")
        terminal.press("/vit\r")
        terminal.shows("augmentation: RandAugment")
        terminal.press("q")
        terminal.shows("end the demo")
        terminal.press("q")
        terminal.shows("Demo ended and cleaned up. For your own jobs: gputui jobs.txt, one command per line.")
        assert terminal.status() == 0
        assert not list(directory.iterdir())
        assert not processes_of(directory)
    assert not (Path(os.environ["XDG_STATE_HOME"]) / "gputui").exists()


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda terminal: terminal.send_signal(signal.SIGTERM), id="SIGTERM"),
        pytest.param(lambda terminal: terminal.send_signal(signal.SIGKILL), id="SIGKILL"),
        pytest.param(RecordedTerminal.hang_up, id="hang-up"),
        pytest.param(lambda terminal: terminal.press(CTRL_C + CTRL_C), id="Ctrl-C"),
    ],
)
def test_whatever_ends_the_demo_nothing_is_left(directory: Path, end: Callable[[RecordedTerminal], None]) -> None:
    with demo() as terminal:
        runs(terminal, directory)
        end(terminal)
        terminal.process.wait(PATIENCE)
        nothing_is_left(directory)


def test_without_a_terminal_it_refuses_as_the_app_does(directory: Path) -> None:
    for extra, sentence in (({"TERM": "dumb"}, "TERM=dumb"), ({}, "no terminal")):
        done = subprocess.run(
            [*GPUTUI, "demo"],
            capture_output=True,
            text=True,
            env={**os.environ, "TERM": "xterm", **extra},
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "gputui run" in done.stderr
    assert not list(directory.iterdir())


def test_hooks_of_the_user_do_not_run_for_fake_jobs(directory: Path, tmp_path: Path) -> None:
    settings = Path(os.environ["HOME"]) / ".config" / "gputui"
    settings.mkdir(parents=True)
    called = tmp_path / "called"
    (settings / "config.toml").write_text(f'[hooks]\non_job_end = "touch {called}"\non_pause = "touch {called}"\n')
    with demo(speed=20) as terminal:
        terminal.shows("✓ ok")
        terminal.press(CTRL_C + CTRL_C)
        assert terminal.status() == 0
    assert not called.exists()


# The tour


def paused_by_crashes() -> Snapshot:
    cause = Cause(PauseKind.CRASHES, "three crashed", 0.0, (5, 6, 7))
    return replace(Scheduler().snapshot(), mode=Mode.PAUSED, cause=cause)


def test_each_hint_goes_when_its_key_was_used_also_out_of_turn() -> None:
    tour, calm = Tour(fix=lambda: None), Scheduler().snapshot()
    assert tour.hint(calm, 0).startswith("1/8")
    tour.progress.actions.add("priority_up")
    assert STEPS[1].hint in tour.hint(calm, 1)
    tour.progress.actions.add("full_log")
    assert tour.hint(calm, 1) == f"4/8  {STEPS[3].elsewhere}"
    tour.progress.actions.add("kill")
    assert BEFORE_FAILURE in tour.hint(calm, 1)


def test_a_hint_speaks_of_the_job_under_the_cursor_or_of_the_way_to_one() -> None:
    world = World("0")
    world.add(spec("a"), spec("b"))
    world.place()
    tour = Tour(fix=lambda: None)
    tour.progress.actions.add("full_log")
    snapshot = world.scheduler.snapshot()
    assert STEPS[2].hint in tour.hint(snapshot, 1), "it waits"
    assert STEPS[2].elsewhere in tour.hint(snapshot, 0), "it runs"
    tour.progress.actions.add("priority_up")
    assert STEPS[3].hint in tour.hint(snapshot, 0)
    assert STEPS[3].elsewhere in tour.hint(snapshot, 1)


def test_the_numbers_of_the_hints_only_increase() -> None:
    calm, paused = Scheduler().snapshot(), paused_by_crashes()
    keys = ("full_log", "priority_up", "kill", "add", "focus_gpus")
    for crash_after in range(len(keys) + 1):
        tour = Tour(fix=lambda: None)
        numbers = [tour.hint(calm, 0)[0]]
        for number, key in enumerate(keys):
            if number == crash_after:
                numbers += [tour.hint(paused, 7)[0], tour.hint(paused, 7)[0], tour.hint(calm, 1)[0]]
            tour.progress.actions.add(key)
            numbers.append(tour.hint(calm, 1)[0])
        assert numbers == sorted(numbers)


def test_the_failure_comes_first_and_is_fixed_once() -> None:
    mended: list[bool] = []
    tour, calm, paused = Tour(lambda: mended.append(True)), Scheduler().snapshot(), paused_by_crashes()
    tour.hint(calm, 0)
    assert not mended
    for _ in range(3):
        assert FAILURE.hint in tour.hint(paused, 0)
    assert mended == [True]
    assert tour.hint(calm, 0) == f"2/8  {STEPS[0].hint}"
    assert FAILURE.hint not in tour.hint(paused, 0), "the tour tells it once"
    tour.hint(calm, 0)
    tour.progress.actions |= {"full_log", "priority_up", "kill", "add", "focus_gpus"}
    assert tour.hint(calm, 1).startswith("8/8")


def test_every_hint_fits_a_narrow_terminal() -> None:
    assert all(
        len(f" demo 1/8  {hint}") <= NARROW
        for hint in (*(hint for step in STEPS for hint in (step.hint, step.elsewhere)), BEFORE_FAILURE)
    )


# The fake training runs


def train(stage: Stage, net: str, directory: Path) -> subprocess.CompletedProcess[bytes]:
    words = [sys.executable, "train.py", "--net", net, "--lr", "0.1", "--bs", "64", "--epochs", "2"]
    environment = stage.environment(dict(os.environ)) | {"GPUTUI_CHECKPOINT_DIR": str(directory)}
    return subprocess.run(words, cwd=stage.directory, env=environment, capture_output=True, check=False)


def test_a_vit_job_fails_until_the_missing_file_is_there(tmp_path: Path) -> None:
    stage = Stage(str(tmp_path), speed=100)
    stage.set_up()
    crashed = train(stage, "vit", tmp_path)
    assert crashed.returncode == 1
    assert crashed.stderr.endswith(b"ModuleNotFoundError: No module named 'augment_v2'\n")
    stage.fix()
    assert (tmp_path / FORGOTTEN).exists()
    mended = train(stage, "vit", tmp_path)
    assert mended.returncode == 0
    assert b"epoch 2/2  loss" in mended.stdout
    assert b"\repoch 1/2:   0%|" in mended.stderr
    assert b"resuming after epoch 2" in train(stage, "vit", tmp_path).stdout


def test_the_demo_has_forty_jobs_each_once() -> None:
    commands = [draft.command for draft in drafts()]
    assert len(set(commands)) == len(commands) == 40
