"""The end of an owner after any failure, and clock steps: no job is harmed, all requests are answered."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from support.machines import no_threads
from support.sessions import add, change_settings, ended, owned, spec
from support.waiting import until

from gputui.core import steps
from gputui.core.events import Kill, Release
from gputui.core.job import CrashKind
from gputui.core.steps import Step
from gputui.session import lock as locks
from gputui.session.control.handlers import shown_attempt
from gputui.session.errors import SessionError
from gputui.session.event_loop import OwnerGone, TurnContext
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner import owner as parts
from gputui.session.owner.owner import Owner
from gputui.session.ownership import acquisition
from gputui.session.session_dir import Paths


def break_next_turn(owner: Owner) -> None:
    def fail(act: TurnContext) -> None:
        owner.scheduler.place = None  # type: ignore[method-assign, assignment]

    with pytest.raises(OwnerGone):
        owner.do(fail).result(60)


def open_files(directory: Path) -> list[str]:
    files = []
    for fd in os.listdir("/proc/self/fd"):
        if os.path.lexists(f"/proc/self/fd/{fd}"):
            files.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [name for name in files if name.startswith(str(directory))]


def test_a_defect_ends_the_owner_and_is_logged_but_the_job_continues(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with owned(tmp_path / "s") as owner:
        [job_id] = add(owner, spec(f"until test -e {gate}; do sleep 0.01; done; exit 5"))
        until(lambda: owner.snapshot[job_id].state.name == "running", "the job runs")
        break_next_turn(owner)
        until(lambda: not owner.alive, "the owner has ended")
        assert "TypeError" in (owner.failure or "")
        assert "TypeError" in (tmp_path / "s/.gputui/scheduler.log").read_text()
        with pytest.raises(OwnerGone):
            owner.do(lambda act: None).result(60)
    gate.touch()
    with owned(tmp_path / "s") as owner:
        assert ended(owner, job_id).attempts[-1].exit_code == 5


@pytest.mark.parametrize("part", ["engine", "devices", "info_writer", "loop", "store"])
def test_an_owner_answers_every_request_and_ends_even_if_a_part_fails_to_close(tmp_path: Path, part: str) -> None:
    def fail() -> None:
        raise RuntimeError("a defect in closing")

    with owned(tmp_path / "s") as owner:
        close = getattr(owner, part).close
        getattr(owner, part).close = fail
        owner.on_leaving.append(fail)
        last_acts: list[str] = []
        owner.on_closed = lambda: last_acts.append("closed")
        break_next_turn(owner)
        owner.wait(60)
        assert not owner.alive
        assert last_acts == ["closed"]
        with pytest.raises(OwnerGone):
            owner.do(lambda act: None).result(60)
        assert "a defect in closing" in (tmp_path / "s/.gputui/scheduler.log").read_text()
        assert "TypeError" in (owner.failure or ""), "the first error is kept"
        close()


def test_no_request_waits_forever_for_an_owner_that_died_without_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without memory, not even the closing methods can be called."""

    def no_memory() -> None:
        raise MemoryError

    with owned(tmp_path / "s") as owner:
        monkeypatch.setattr(owner, "_fail", no_memory)
        monkeypatch.setattr(owner, "_release_all", no_memory)
        break_next_turn(owner)
        with pytest.raises(OwnerGone):
            owner.do(lambda act: None).result()
        assert not owner.alive
        assert "without a traceback" in (owner.failure or "")
        monkeypatch.undo()
        owner._release_all()


def test_an_owner_that_never_started_answers_requests_and_closes_all_files(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path / "s"))
    with owned(tmp_path / "s"):
        pass
    lock = locks.take(paths)
    assert lock is not None
    owner = Owner(paths, lock)
    ticket = owner.do(lambda act: None)
    owner.close()
    with pytest.raises(OwnerGone):
        ticket.result(60)
    lock.release()
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("part", ["Loop", "InfoWriter", "Devices", "Launcher"])
def test_an_owner_that_cannot_be_created_closes_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(parts, part, fail)
    with pytest.raises(OSError, match="too many open files"), owned(tmp_path / "s"):
        pass
    assert open_files(tmp_path) == [str(tmp_path / "s/.gputui/lock")]  # which is the caller's
    monkeypatch.undo()
    monkeypatch.setattr(acquisition, "OwnerServer", fail)
    paths = Paths(str(tmp_path / "other"))
    with pytest.raises(OSError, match="too many open files"):
        acquisition.OwnedSession(paths, OwnerKind.RUN, daemon=False)
    assert not [name for name in open_files(tmp_path) if "/other/" in name]
    lock = locks.take(paths)
    assert lock is not None
    lock.release()


def test_a_failing_callback_of_one_request_does_not_keep_others_from_their_answers(tmp_path: Path) -> None:
    def fail(ticket: object) -> None:
        raise RuntimeError("a defect of the caller")

    with owned(tmp_path / "s") as owner:
        at_work, gate = threading.Event(), threading.Event()

        def stop(_: None) -> None:
            at_work.set()
            gate.wait(60)
            owner.loop.stop()

        owner.query(lambda owner: None, stop)
        assert at_work.wait(60)
        first, second = owner.do(lambda act: None), owner.do(lambda act: None)
        first.when_done(fail)
        gate.set()
        with pytest.raises(OwnerGone):
            second.result(60)


def test_jobs_run_although_no_further_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with no_threads(monkeypatch, but=("gputui-owner",)), owned(tmp_path / "s") as owner:
        jobs = add(owner, *(spec(f"exit {code}") for code in (0, 3, 0, 5)), spec("sleep 600"))
        assert [ended(owner, job).attempts[-1].exit_code for job in jobs[:4]] == [0, 3, 0, 5]
        owner.do(Commands((Kill(job=jobs[4], now=True),))).result(60)
        assert ended(owner, jobs[4]).state.name == "killed"
    assert (tmp_path / "s/job_0/SUCCESS").exists()
    assert (tmp_path / "s/job_3/FAILURE").exists()
    assert os.listdir(tmp_path / "s/.gputui/claims") == []


def test_an_owner_that_cannot_start_its_thread_says_why_and_frees_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = r"cannot start .*thread.*ulimit -u"
    with no_threads(monkeypatch), pytest.raises(SessionError, match=why), owned(tmp_path / "s"):
        pass
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("true"))
        assert ended(owner, job).state.name == "succeeded"


def test_a_failing_worker_thread_ends_the_owner(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("a defect in the worker")

    with owned(tmp_path / "s") as owner:
        owner.query(lambda owner: owner.loop.run_in_thread(fail, lambda _: None), lambda _: None)
        owner.wait(60)
        assert "a defect in the worker" in (owner.failure or "")


def test_a_clock_set_back_during_a_turn_does_not_prolong_a_back_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead, real_time = [0.0], time.time
    monkeypatch.setattr(time, "time", lambda: real_time() + lead[0])
    with owned(tmp_path / "s", slots=1) as owner:

        def set_back(step: Step) -> None:
            """In the turn that handled the first attempt's end."""
            if step is Step.COMMITTED and owner.scheduler.book[0].attempts:
                lead[0] = -5 * 3600.0

        [job] = add(owner, spec("sleep 0.5; exit 3", retries=1, hold=True))
        steps.watch(set_back)
        try:
            owner.do(lambda act: act.handle(Release(job=job))).result(60)
            assert len(ended(owner, job).attempts) == 2
        finally:
            steps.watch(None)


CRASHES = [
    ("echo \"KeyError: 'depth'\" >&2; exit 1", CrashKind.EXCEPTION, "KeyError: 'depth'"),
    ("pyhton train.py", CrashKind.NOT_FOUND, "pyhton: "),
    ("kill -9 $$", CrashKind.SIGNAL, "killed by signal 9 (SIGKILL)"),
    ("echo 'Loss is nan, stopping training'; exit 1", CrashKind.EXIT_ONLY, "Loss is nan, stopping training"),
    ("exit 3", CrashKind.EXIT_ONLY, "exit code 3"),
]


def test_the_kind_of_an_error_is_kept_for_the_next_owner(tmp_path: Path) -> None:
    with owned(tmp_path) as owner:
        change_settings(owner, pause_after=0)
        jobs = add(owner, *(spec(command) for command, _, _ in CRASHES), spec("true"))
        for job_id in jobs:
            ended(owner, job_id)
    with owned(tmp_path) as owner:
        kept = [owner.snapshot[job_id] for job_id in jobs]
        shown = [shown_attempt(job, job.attempts[-1], owner.directories, {}) for job in kept]
    assert [attempt.kind for attempt in shown] == [*(kind for _, kind, _ in CRASHES), None]
    for attempt, (_, _, words) in zip(shown, CRASHES, strict=False):
        assert words in (attempt.message or "")
