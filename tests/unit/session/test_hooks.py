"""Hooks: told what happened, limited in number, time and output, and unable to hurt the owner."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.core import World
from support.waiting import PATIENCE, until

from gputui.core.events import Cause, EngineTrouble, PauseKind
from gputui.core.job import Attempt, Failed, Job, JobSpec
from gputui.session import hooks as hook_runner
from gputui.session.config import Config
from gputui.session.event_loop import Loop
from gputui.session.hooks import Hook, HookRunner, Hooks, Reactions
from gputui.session.job_directories import Directories
from gputui.session.store.event_log import EventRecorder


class Owner:
    """A loop in its own thread, as the owner has it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".gputui").mkdir(parents=True)
        self.loop = Loop()
        self.complaints: list[str] = []
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def hooks(self, timeout: float = 60.0, **commands: str) -> Hooks:
        found: dict[str, tuple[Any, str]] = {f"hooks.{event}": (command, "test") for event, command in commands.items()}
        found["hooks.timeout"] = (timeout, "test")
        return Hooks(self.loop, Config(found), str(self.root), self.complaints.append)

    def runner(self, timeout: float = 60.0) -> HookRunner:
        return HookRunner(self.loop, str(self.log), timeout, self.complaints.append)

    @property
    def log(self) -> Path:
        return self.root / ".gputui" / "hooks.log"

    def do(self, work: Callable[[], None]) -> None:
        """In the owner's thread, and done when this returns."""
        done = threading.Event()

        def do_it() -> None:
            work()
            done.set()

        self.loop.call_soon_threadsafe(do_it)
        assert done.wait(PATIENCE)

    def take_many(self, runner: HookRunner, count: int, script: str) -> None:
        def take() -> None:
            for _ in range(count):
                runner.take(Hook(script, "test", {}))

        self.do(take)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    made = Owner(tmp_path / "session")
    yield made
    made.close()


def a_job(state: Any, code: int | None = 3) -> Job:
    attempt = Attempt(2, ("0", "1"), 10.0, 12.5, Failed(3), code, "exit code 3", "digest")
    spec = JobSpec(command="python a.py", cwd="/", environment="digest", name="lr=0.1")
    return Job(5, spec, 0.0, 30, 0.0, state, attempts=(attempt,), issued=2)


FACTS = {
    "GPUTUI_OUT": "/o", "GPUTUI_ERR": "/e", "GPUTUI_RUNNING": "1", "GPUTUI_WAITING": "2", "GPUTUI_FAILED": "3",
}  # fmt: skip


def told(path: Path) -> dict[str, str]:
    until(path.exists, "the hook has run")
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if line.startswith("GPUTUI_"))


def dump(path: Path) -> str:
    """A command whose file is there only when it is whole."""
    return f"env >{path}.part; mv {path}.part {path}"


def test_the_end_of_a_job_is_passed_in_variables(owner: Owner, tmp_path: Path) -> None:
    hooks = owner.hooks(on_job_end=dump(tmp_path / "seen"))
    owner.do(lambda: hooks.job_ended(a_job(Failed(3)), FACTS))
    seen = told(tmp_path / "seen")
    assert seen["GPUTUI_EVENT"] == "job_end"
    assert seen["GPUTUI_SESSION"] == str(owner.root)
    assert (seen["GPUTUI_JOB_ID"], seen["GPUTUI_JOB_NAME"]) == ("5", "lr=0.1")
    assert (seen["GPUTUI_JOB_STATE"], seen["GPUTUI_EXIT_CODE"], seen["GPUTUI_CAUSE"]) == ("failed", "3", "exit code 3")
    assert (seen["GPUTUI_OUT"], seen["GPUTUI_ERR"]) == ("/o", "/e")
    assert (seen["GPUTUI_RUNNING"], seen["GPUTUI_WAITING"], seen["GPUTUI_FAILED"]) == ("1", "2", "3")
    assert seen["GPUTUI_SECONDS"] == "2.5"


def test_a_job_killed_by_a_signal_passes_the_signal(owner: Owner, tmp_path: Path) -> None:
    hooks = owner.hooks(on_job_end=dump(tmp_path / "seen"))
    owner.do(lambda: hooks.job_ended(a_job(Failed(137), 137), {}))
    assert told(tmp_path / "seen")["GPUTUI_SIGNAL"] == "9"


def test_a_pause_passes_its_cause(owner: Owner, tmp_path: Path) -> None:
    hooks = owner.hooks(on_pause=dump(tmp_path / "seen"))
    cause = Cause(PauseKind.CRASHES, "3 jobs crashed the same way", 0.0, (1, 2, 3), "OOM")
    owner.do(lambda: hooks.paused(cause, {}))
    seen = told(tmp_path / "seen")
    assert seen["GPUTUI_CAUSE"] == "3 jobs crashed the same way"
    assert (seen["GPUTUI_CAUSE_KIND"], seen["GPUTUI_JOBS"], seen["GPUTUI_SIGNATURE"]) == ("crashes", "1 2 3", "OOM")


def test_an_event_without_a_command_runs_nothing(owner: Owner, tmp_path: Path) -> None:
    hooks = owner.hooks(on_drained=dump(tmp_path / "seen"))
    owner.do(lambda: hooks.job_ended(a_job(Failed(3)), {}))
    owner.do(lambda: hooks.drained({}))
    assert told(tmp_path / "seen")["GPUTUI_EVENT"] == "drained"
    assert not owner.hooks().wanted


@pytest.mark.parametrize("saved", [True, False])
def test_a_hook_runs_after_the_end_is_saved_even_if_the_engine_does_not_respond(
    owner: Owner, tmp_path: Path, saved: bool
) -> None:
    hooks = owner.hooks(on_job_end=dump(tmp_path / "seen"))
    world = World("0")
    world.add()
    reactions = Reactions(hooks, Directories(str(owner.root)), world.scheduler.snapshot())
    recorder = EventRecorder(world.scheduler, 0)
    recorder.on_saved = reactions.note
    (job,) = world.start()
    world.do(EngineTrouble("Slurm not responding since"))
    world.end(job)
    snapshot = world.scheduler.snapshot()
    held_back = replace(snapshot, trouble="nothing new starts, running jobs go on: the disk is full")
    if not saved:
        owner.do(lambda: reactions.look(held_back))
        assert not hooks._runner._waiting
        assert not hooks._runner._starting
        assert not hooks._runner._watched
        snapshot = replace(snapshot, changed=frozenset(), trouble=None, unavailable="")
    else:
        snapshot = replace(snapshot, trouble=snapshot.unavailable)
    recorder.mark_saved(world.scheduler, recorder.collect(world.scheduler, 9.0))
    owner.do(lambda: reactions.look(snapshot))
    assert told(tmp_path / "seen")["GPUTUI_JOB_STATE"] == "succeeded"


def test_a_hook_has_no_terminal_no_input_and_a_session_of_its_own(owner: Owner, tmp_path: Path) -> None:
    script = f"cat; ps -o sid= -p $$ >{tmp_path}/part; echo $$ >>{tmp_path}/part; mv {tmp_path}/part {tmp_path}/seen"
    owner.do(lambda: owner.runner().take(Hook(script, "test", {})))
    until((tmp_path / "seen").exists, "the hook has run")
    session, pid = (tmp_path / "seen").read_text().split()
    assert session == pid


def test_the_output_of_a_hook_is_appended_to_the_log(owner: Owner) -> None:
    runner = owner.runner()
    owner.do(lambda: runner.take(Hook("echo out; echo err >&2", "test", {})))
    until(lambda: owner.log.exists() and owner.log.read_text() == "out\nerr\n", "both lines are in the log")


def test_a_failing_hook_is_complained_about(owner: Owner) -> None:
    runner = owner.runner()
    owner.do(lambda: runner.take(Hook("exit 3", "test", {})))
    until(lambda: owner.complaints, "it is complained about")
    assert owner.complaints == [f"hook on_test: exit 3; see {owner.log}"]


def test_a_hook_that_cannot_be_started_is_complained_about(owner: Owner) -> None:
    runner = owner.runner()
    owner.do(lambda: runner.take(Hook("x" * 4_000_000, "test", {})))
    until(lambda: owner.complaints, "it is complained about")
    assert "failed to start" in owner.complaints[0]


def test_a_hook_that_hangs_is_killed_with_its_children(owner: Owner, tmp_path: Path) -> None:
    runner = owner.runner(timeout=0.3)
    script = f"sleep 600 & echo $! >{tmp_path}/part; mv {tmp_path}/part {tmp_path}/child; trap '' TERM; wait"
    owner.do(lambda: runner.take(Hook(script, "test", {})))
    until(lambda: owner.complaints, "it is complained about")
    assert "hooks.timeout" in owner.complaints[0]
    child = int((tmp_path / "child").read_text())
    until(lambda: not _alive(child), "its child is gone")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_limited_number_run_at_once_and_all_run(owner: Owner, tmp_path: Path) -> None:
    runner = owner.runner()
    gate, done = tmp_path / "gate", tmp_path / "done"
    os.mkfifo(gate)
    script = f"echo x >>{tmp_path}/begun; read line <{gate}; echo x >>{done}"
    owner.take_many(runner, 20, script)
    begun = tmp_path / "begun"
    until(lambda: begun.exists() and len(begun.read_text().split()) == 8, "eight have begun")
    assert len(runner._watched) + runner._starting <= 8
    writer = os.open(gate, os.O_RDWR)
    os.write(writer, b"go\n" * 20)
    until(lambda: done.exists() and len(done.read_text().split()) == 20, "all have run")
    os.close(writer)


def test_too_many_waiting_hooks_are_dropped_and_counted(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_runner, "MOST_WAITING", 5)
    runner = owner.runner()
    owner.take_many(runner, 30, "true")
    until(lambda: len(owner.complaints) == 2, "their number is reported")
    assert owner.complaints[0].startswith("5 hooks are already queued")
    assert owner.complaints[1] == "17 hooks were dropped"


def test_the_owners_thread_never_waits_for_a_hook(owner: Owner) -> None:
    runner = owner.runner(timeout=600)
    owner.take_many(runner, 8, "sleep 600")
    until(lambda: len(runner._watched) == 8, "all are under way")
    owner.do(lambda: None)  # returns although all of them still run
    pids = [run._watch.pid for run in runner._watched]
    owner.do(runner.close)
    assert all(map(_alive, pids))
    for pid in pids:
        os.killpg(pid, 9)
        os.waitpid(pid, 0)


def test_those_that_wait_are_started_when_the_owner_leaves(owner: Owner, tmp_path: Path) -> None:
    runner = owner.runner()
    seen = tmp_path / "seen"

    def many_and_leave() -> None:
        for _ in range(20):
            runner.take(Hook(f"echo x >>{seen}", "test", {}))
        runner.close()

    owner.do(many_and_leave)
    until(lambda: seen.exists() and len(seen.read_text().split()) == 20, "all have run")


def test_the_log_is_bounded(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_runner, "LOG_LIMIT", 100)
    owner.log.write_text("x" * 101)
    runner = owner.runner()
    owner.do(lambda: runner.take(Hook("echo new", "test", {})))
    older = Path(f"{owner.log}.1")
    until(lambda: older.exists() and owner.log.exists() and owner.log.read_text() == "new\n", "the log is begun anew")
    assert len(older.read_text()) == 101


def test_a_hook_that_prints_without_end_is_killed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_runner, "RUNAWAY", 1000)
    monkeypatch.setattr(hook_runner, "LOOK_EVERY", 0.05)
    runner = owner.runner()
    owner.do(lambda: runner.take(Hook("while :; do echo printing; sleep 0.01; done", "test", {})))
    until(lambda: owner.complaints, "it is killed")
    assert "killed: too much output" in owner.complaints[0]


def test_the_users_own_command_gets_the_message_on_its_standard_input(owner: Owner, tmp_path: Path) -> None:
    file = tmp_path / "told"
    found: dict[str, tuple[Any, str]] = {"notify": (f"cat >> {file}; echo $GPUTUI_EVENT >> {file} # mine", "test")}
    found["hooks.timeout"] = (60.0, "test")
    hooks = Hooks(owner.loop, Config(found), str(owner.root), owner.complaints.append)
    assert hooks.wanted
    owner.do(lambda: hooks.notify("gputui sweep: paused: 'a' $HOME `id` \\n %s"))
    until(lambda: file.exists() and "notify" in file.read_text(), "it was told")
    assert file.read_text() == "gputui sweep: paused: 'a' $HOME `id` \\n %s\nnotify\n"
    assert owner.complaints == []
