"""An owner that fails says so and harms no job; the next owner finds everything."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec
from support.sessions import VICTIM, Session
from support.starving import no_threads
from support.waiting import until

from gputui.core.events import Kill
from gputui.session import lock as locks
from gputui.session.errors import SessionError
from gputui.session.event_loop import Act, OwnerGone
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner import turn as parts
from gputui.session.owner.owner import Owner
from gputui.session.ownership import acquisition as holding
from gputui.session.session_dir import Paths


def broken(owner: Owner) -> None:
    """Makes its next turn fail, as a defect of ours would."""

    def fail(act: Act) -> None:
        owner.scheduler.place = None  # type: ignore[method-assign, assignment]

    with pytest.raises(OwnerGone):
        owner.do(fail).result(60)


def test_a_defect_ends_the_owner_and_is_written_down_but_the_job_goes_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with owned(tmp_path / "s") as owner:
        [job_id] = add(owner, spec(f"until test -e {gate}; do sleep 0.01; done; exit 5"))
        until(lambda: owner.snapshot[job_id].state.name == "running", "the job runs")
        broken(owner)
        until(lambda: not owner.alive, "the owner has ended")
        assert owner.failure is not None
        assert "TypeError" in owner.failure
        assert "TypeError" in (tmp_path / "s/.gputui/scheduler.log").read_text()
        with pytest.raises(OwnerGone):
            owner.do(lambda act: None).result(60)
    gate.touch()
    with owned(tmp_path / "s") as owner:
        assert ended(owner, job_id).attempts[-1].exit_code == 5


def test_run_says_in_one_sentence_that_the_scheduler_failed(tmp_path: Path) -> None:
    session = Session(tmp_path)
    gate = tmp_path / "gate"
    jobs = session.write(session.told(0, f"until test -e {gate}; do sleep 0.01; done; exit 5"))
    orders = {"step": "watched", "nth": 1, "raise": True, "tally": str(tmp_path / "tally")}
    with session.running(jobs, gpus="0", program=VICTIM, env={"VICTIM": json.dumps(orders)}) as owner:
        assert owner.wait(60) == 1
        assert owner.stderr is not None
        complaint = owner.stderr.read()
        assert "the scheduler failed; its jobs run on: RuntimeError: a defect" in complaint
        assert "Traceback" not in complaint
        gate.touch()
        assert session.run(gpus="0").returncode == 1
    assert session.last(0).exit_code == 5
    assert session.runs() == {"0": 1}


@pytest.mark.parametrize("part", ["engine", "devices", "info_writer", "loop", "store"])
def test_whatever_fails_at_its_closing_the_owner_answers_everybody_and_ends(tmp_path: Path, part: str) -> None:
    def fail() -> None:
        raise RuntimeError("a defect in closing")

    with owned(tmp_path / "s") as owner:
        closed = getattr(owner.parts, part).close
        getattr(owner.parts, part).close = fail
        owner.on_leaving.append(fail)
        last_acts: list[str] = []
        owner.last_act = lambda: last_acts.append("the lock goes on")
        broken(owner)
        owner.wait(60)
        assert not owner.alive
        assert last_acts == ["the lock goes on"]
        with pytest.raises(OwnerGone):
            owner.do(lambda act: None).result(60)
        assert "a defect in closing" in (tmp_path / "s/.gputui/scheduler.log").read_text()
        assert "TypeError" in (owner.failure or "")  # what came first
        closed()


def open_files() -> list[str]:
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd))


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_an_owner_that_never_began_answers_everybody_and_holds_nothing(tmp_path: Path) -> None:
    with owned(tmp_path / "s"):
        pass
    paths = Paths(str(tmp_path / "s"))
    lock = locks.take(paths)
    assert lock is not None
    owner = Owner(paths, lock)
    ticket = owner.do(lambda act: None)
    owner.close()
    with pytest.raises(OwnerGone):
        ticket.result(60)
    lock.release()
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]


@pytest.mark.parametrize("part", ["News", "InfoWriter", "Devices", "Launcher"])
def test_an_owner_of_whom_a_part_cannot_be_made_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("too many open files")

    monkeypatch.setattr(parts, part, fail)
    with pytest.raises(OSError, match="too many open files"), owned(tmp_path / "s"):
        pass
    gone = [name for name in open_files() if name.startswith(str(tmp_path))]
    assert gone == [str(tmp_path / "s/.gputui/lock")]  # which is the caller's


def test_a_session_that_cannot_be_served_is_let_go_with_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no socket can be made")

    monkeypatch.setattr(holding, "Serving", fail)
    paths = Paths(str(tmp_path / "s"))
    with pytest.raises(OSError, match="no socket"):
        holding.Holding(paths, OwnerKind.RUN, keeper=False)
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]
    lock = locks.take(paths)
    assert lock is not None
    lock.release()


def test_whoever_fails_at_hearing_the_answer_keeps_it_from_nobody(tmp_path: Path) -> None:
    def fail(ticket: object) -> None:
        raise RuntimeError("a defect of whoever asked")

    with owned(tmp_path / "s") as owner:
        at_work, go_on = threading.Event(), threading.Event()

        def stop(_: None) -> None:
            at_work.set()
            go_on.wait(60)
            owner.loop.stop()

        owner.look(lambda owner: None, stop)
        assert at_work.wait(60)
        first, second = owner.do(lambda act: None), owner.do(lambda act: None)
        first.when_done(fail)
        go_on.set()
        with pytest.raises(OwnerGone):
            second.result(60)


def test_without_a_thread_to_be_had_jobs_run_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with no_threads(monkeypatch, but=("gputui-owner",)), owned(tmp_path / "s") as owner:
        jobs = add(owner, *(spec(f"exit {code}") for code in (0, 3, 0, 5)), spec("sleep 600"))
        assert [ended(owner, job).attempts[-1].exit_code for job in jobs[:4]] == [0, 3, 0, 5]
        owner.do(Commands((Kill(job=jobs[4], now=True),))).result(60)
        assert ended(owner, jobs[4]).state.name == "killed"
    assert (tmp_path / "s/job_0/SUCCESS").exists()
    assert (tmp_path / "s/job_3/FAILURE").exists()
    assert os.listdir(tmp_path / "s/.gputui/claims") == []


def test_an_owner_without_a_thread_of_its_own_says_so_and_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_threads(monkeypatch), pytest.raises(SessionError, match="no further thread"), owned(tmp_path / "s"):
        pass
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("true"))
        assert ended(owner, job).state.name == "succeeded"


def test_work_that_fails_beside_the_owner_fails_the_owner(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("a defect in the worker")

    with owned(tmp_path / "s") as owner:
        owner.look(lambda owner: owner.loop.run_in_thread(fail, lambda _: None), lambda _: None)
        owner.wait(60)
        assert "a defect in the worker" in (owner.failure or "")
