"""External processes and when their device is free again, replayed from samples."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputui.core.slots import DeviceKind
from gputui.gpus.external_processes import (
    ExternalProcesses,
    Free,
    HeldByExternalProcesses,
    Ours,
    Resting,
    Rules,
    Unusable,
    Verdict,
    ours_in,
)
from gputui.gpus.picture import why_blocked
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Status

GPU = "GPU-a"
GIB = 1024**3
NOTHING_OURS = Ours()


def process(pid: int, **changes: Any) -> ProcessSample:
    facts: dict[str, Any] = {"compute": True, "memory": 4 * GIB, "born": pid * 10, "user": "alice", "started": 0.0}
    return ProcessSample(pid=pid, **{**facts, **changes})


def seen(*processes: ProcessSample, foreign: bool = False, **device: Any) -> Sample:
    gpu = DeviceSample(index=0, uuid=GPU, name="A100", processes=processes, **device)
    return Sample(kind=DeviceKind.GPU, taken=0.0, devices=(gpu,), foreign_pids=foreign)


def replay(*moments: tuple[Any, ...]) -> list[Verdict]:
    """Verdicts about a device that was empty at first; a moment is a time, a sample, and what is ours, if anything."""
    judge = ExternalProcesses()
    judge.observe(seen(), NOTHING_OURS, 0.0)
    return [judge.observe(sample, ours[0] if ours else NOTHING_OURS, now)[GPU] for now, sample, *ours in moments]


def one(sample: Sample, ours: Ours = NOTHING_OURS, rules: Rules | None = None) -> Verdict:
    return ExternalProcesses(rules).observe(sample, ours, 1000.0)[GPU]


def is_held(verdict: Verdict) -> bool:
    return isinstance(verdict, HeldByExternalProcesses)


def rests_until(verdict: Verdict) -> float | None:
    return verdict.until if isinstance(verdict, Resting) else None


def test_an_external_process_blocks_the_device() -> None:
    verdict = one(seen(process(7)))
    assert isinstance(verdict, HeldByExternalProcesses)
    assert (verdict.by[0].pid, verdict.by[0].user, verdict.by[0].memory) == (7, "alice", 4 * GIB)


def test_the_users_own_notebook_is_an_external_process_too() -> None:
    assert is_held(one(seen(process(7, user="me"), process(8)), Ours({8: 1})))


def test_a_display_server_is_not_an_external_process() -> None:
    assert one(seen(process(7, compute=False, command="/usr/lib/xorg/Xorg :0"))) == Free()


def test_a_process_counts_as_soon_as_it_has_allocated_memory() -> None:
    small, large = process(7, memory=255 * 1024**2), process(7, memory=256 * 1024**2)
    first, second = replay((0, seen(small)), (1, seen(large)))
    assert first == Free()
    assert is_held(second)


def test_if_the_sizes_of_processes_are_unknown_the_whole_device_decides() -> None:
    unknown = process(7, memory=None)
    assert is_held(one(seen(unknown, memory_used=2 * GIB)))
    assert one(seen(unknown, memory_used=1024)) == Free()


def test_a_pid_that_does_not_exist_is_ignored() -> None:
    assert one(seen(process(7, alive=False, born=None))) == Free()


def test_our_pid_may_linger_after_its_job_has_ended() -> None:
    ours, sample = Ours({7: 1}, frozenset({GPU})), seen(process(7))
    assert replay((0, sample, ours), (1, sample), (2, sample), (3, seen())) == [Free()] * 4


def test_a_reused_pid_is_not_ours() -> None:
    assert is_held(replay((0, seen(process(7)), Ours({7: 1})), (1, seen(process(7, born=99_999))))[-1])


def test_an_adopted_job_is_ours_from_the_first_sample_on() -> None:
    wrapper, run = 400, "token-1"
    sample = seen(process(7, session=wrapper), process(8, session=8, run=run))
    pids = ours_in(sample, runs={run: 3}, wrappers={wrapper: 3})
    assert pids == {7: 3, 8: 3}
    assert one(sample, Ours(pids, frozenset({GPU}))) == Free()


def test_in_a_foreign_pid_namespace_all_processes_on_our_device_are_ours() -> None:
    unknown = seen(process(7, alive=False, born=None, user=None), foreign=True)
    assert replay((0, unknown, Ours(busy=frozenset({GPU}))), (1, unknown)) == [Free(), Free()], "also while it lingers"
    assert is_held(one(unknown)), "on a device without a job of ours it is an external process"
    assert is_held(one(unknown, Ours({7: 1}))), "our pids mean nothing there"


def test_a_short_visit_costs_five_seconds() -> None:
    held, left, resting, free = replay((10, seen(process(7))), (20, seen()), (24.9, seen()), (25, seen()))
    assert is_held(held)
    assert (rests_until(left), rests_until(resting), free) == (25.0, 25.0, Free())


def test_a_long_stay_costs_a_minute() -> None:
    assert rests_until(replay((10, seen(process(7))), (310, seen()))[-1]) == 370.0


def test_a_loop_of_short_jobs_counts_as_one_stay() -> None:
    visits = [((10.0 * n, seen(process(100 + n))), (10.0 * n + 8, seen())) for n in range(40)]
    assert rests_until(replay(*(moment for visit in visits for moment in visit))[-1]) == 10.0 * 39 + 8 + 60


def test_a_process_found_in_the_first_sample_counts_from_its_start() -> None:
    verdict = one(seen(process(7, started=400.0)))
    assert isinstance(verdict, HeldByExternalProcesses)
    assert verdict.since == 400.0


def test_a_device_that_does_not_answer_is_not_used_and_decides_nothing() -> None:
    stale = seen(process(7), status=Status.STALE, message="no response for 7 s")
    _, hung, back = replay((1, seen(process(7))), (5, stale), (20, seen()))
    assert hung == Unusable("no response for 7 s")
    assert rests_until(back) == 25.0, "it rests from the moment it was seen free"


def test_our_job_on_a_device_that_hung_is_still_ours_when_it_answers() -> None:
    stale = seen(status=Status.STALE, message="no response for")
    assert replay((0, seen(process(7)), Ours({7: 1})), (5, stale), (9, seen(process(7))))[-1] == Free()


def test_users_programs_and_pids_can_be_ignored() -> None:
    sample = seen(process(7, user="bob", command="/opt/bin/exporter --all"))
    for word in ("bob", "exporter", "7"):
        assert one(sample, rules=Rules(ignored=frozenset({word}))) == Free()
    assert is_held(one(sample, rules=Rules(ignored=frozenset({"alice"}))))
    assert one(sample, rules=Rules(ignore_all=True)) == Free()


def test_the_reason_of_a_blocked_gpu_names_user_pid_and_memory() -> None:
    verdict = ExternalProcesses().observe(seen(process(4121, memory=38 * GIB)), NOTHING_OURS, 5 * 3600.0)[GPU]
    assert why_blocked(verdict, 5 * 3600.0) == "used by alice (pid 4121, 38.0G, 5 h)"


@given(st.lists(st.tuples(st.floats(0.1, 400), st.booleans()), max_size=40))
def test_a_device_is_free_only_after_it_rested(steps: list[tuple[float, bool]]) -> None:
    judge, now, last_held = ExternalProcesses(), 1000.0, None
    judge.observe(seen(), NOTHING_OURS, now)
    for seconds, held in steps:
        now += seconds
        verdict = judge.observe(seen(process(7)) if held else seen(), NOTHING_OURS, now)[GPU]
        assert is_held(verdict) == held
        last_held = now if held else last_held
        if verdict == Free() and last_held is not None:
            assert now - last_held >= 5.0
