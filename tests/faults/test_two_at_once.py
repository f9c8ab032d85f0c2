"""Two `run`s on one session: one owns it, the other one is its client. Nothing runs twice."""

from __future__ import annotations

from pathlib import Path

from support.sessions import Session, listened
from support.waiting import until


def test_the_second_run_adds_its_jobs_to_the_first_and_waits_for_them(tmp_path: Path) -> None:
    session = Session(tmp_path)
    gate = tmp_path / "gate"
    first_jobs = session.write(session.told("a", f"until test -e {gate}; do sleep 0.01; done"))
    second_jobs = session.write(session.told("b", "exit 3"), name="more.txt")
    with session.running(first_jobs, gpus="0") as first:
        until(lambda: session.runs(), "the first one's job runs")
        with session.running(second_jobs, gpus="0") as second:
            told = listened(second)
            until(lambda: "1 in more.txt: 1 new" in "".join(told), "its job was added")
            assert second.poll() is None
            gate.touch()
            assert second.wait(60) == 1, told
        assert first.wait(60) == 0
    assert session.states() == ["succeeded", "failed"]
    assert session.runs() == {"a": 1, "b": 1}
