"""`gputui demo` on a real terminal: the tour, and nothing is left afterwards, whatever ended it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.sessions import GPUTUI, all_pids, environment_of, owned
from support.terminal import CTRL_C, RecordedTerminal, recorded
from support.waiting import PATIENCE, until

from gputui.core.events import Cause, Mode, PauseKind
from gputui.core.job import StateName
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.demo.stage import FORGOTTEN, Stage, drafts
from gputui.demo.tour import BEFORE_FAILURE, FAILURE, STEPS, Tour
from gputui.gpus import simulated
from gputui.gpus.history import LoadOwner, read_history
from gputui.session.session_dir import Paths

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
        terminal.shows("A100 40G")
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
    tour, calm = Tour(fix=lambda: None, first_job=24), Scheduler().snapshot()
    assert tour.hint(calm, 24).startswith("1/8")
    tour.progress.actions.add("summary")
    assert STEPS[1].hint in tour.hint(calm, 25)
    tour.progress.actions.add("timeline")
    assert tour.hint(calm, 25) == f"4/8  {STEPS[3].hint}"
    tour.progress.actions.add("metric")
    assert BEFORE_FAILURE in tour.hint(calm, 25)


def test_the_numbers_of_the_hints_only_increase() -> None:
    calm, paused = Scheduler().snapshot(), paused_by_crashes()
    keys = ("timeline", "summary", "metric", "failures", "add")
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
    tour.progress.actions |= {"timeline", "summary", "metric", "failures", "add"}
    assert tour.hint(calm, 1).startswith("8/8")


def test_every_hint_fits_a_narrow_terminal() -> None:
    assert all(len(f" demo 1/8  {hint}") <= NARROW for hint in (*(step.hint for step in STEPS), BEFORE_FAILURE))


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


# The evening before


def test_the_demo_begins_with_an_evening_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "card", simulated.card)
    stage, now = Stage(str(tmp_path)), time.time()
    stage.set_up()
    count = stage.prepare()
    with owned(Path(stage.session)) as owner:
        until(lambda: len(owner.snapshot.results) == count, "the logs are read")
        jobs = list(owner.snapshot)
        assert [job.id for job in jobs] == list(range(count))
        assert Counter(job.state.name for job in jobs) == {StateName.SUCCEEDED: count - 1, StateName.FAILED: 1}
        assert all(now - 5000 < job.attempts[-1].ended < now - 60 for job in jobs)
        assert all(owner.snapshot.results[job.id]["val_loss"].best < 2.5 for job in jobs)
    assert _owners_of_the_history(stage) >= set(LoadOwner)


def _owners_of_the_history(stage: Stage) -> set[int]:
    tracks = read_history(Paths(stage.session).history).tracks.values()
    return {owner for levels in tracks for track in levels for owner in track.figures[1]}
