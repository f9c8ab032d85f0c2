"""An owner that fails says so and harms no job; the next owner finds everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec
from support.sessions import VICTIM, Session
from support.waiting import until

from gputui.session.owner import Owner
from gputui.session.ticket import Act, OwnerGone


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
