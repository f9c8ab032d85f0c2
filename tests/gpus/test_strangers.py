"""Replays of what drivers show, second by second, and who counts as a stranger."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputui.core.lanes import DeviceKind
from gputui.gpus.picture import why_not
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Status
from gputui.gpus.strangers import Free, HeldByStrangers, Ours, Resting, Rules, Strangers, Unusable, Verdict, ours_in

GPU = "GPU-a"
GIB = 1024**3
NOBODY_OURS = Ours()


def process(pid: int, **changes: Any) -> ProcessSample:
    facts: dict[str, Any] = {"compute": True, "memory": 4 * GIB, "born": pid * 10, "user": "alice", "started": 0.0}
    return ProcessSample(pid=pid, **{**facts, **changes})


def seen(*processes: ProcessSample, foreign: bool = False, **device: Any) -> Sample:
    gpu = DeviceSample(index=0, uuid=GPU, name="A100", processes=processes, **device)
    return Sample(kind=DeviceKind.GPU, taken=0.0, devices=(gpu,), foreign_pids=foreign)


def verdicts(strangers: Strangers, *moments: tuple[float, Sample, Ours]) -> list[Verdict]:
    return [strangers.observe(sample, ours, now)[GPU] for now, sample, ours in moments]


def one(sample: Sample, ours: Ours = NOBODY_OURS, rules: Rules | None = None) -> Verdict:
    return Strangers(rules).observe(sample, ours, 1000.0)[GPU]


def test_a_process_of_somebody_else_holds_the_device() -> None:
    verdict = one(seen(process(7)))
    assert isinstance(verdict, HeldByStrangers)
    assert (verdict.by[0].pid, verdict.by[0].user, verdict.by[0].memory) == (7, "alice", 4 * GIB)


def test_our_own_process_does_not() -> None:
    assert one(seen(process(7)), Ours({7: 12})) == Free()


def test_the_users_own_notebook_is_a_stranger_too() -> None:
    assert isinstance(one(seen(process(7, user="me"), process(8)), Ours({8: 1})), HeldByStrangers)


def test_a_display_server_is_no_stranger() -> None:
    assert one(seen(process(7, compute=False, command="/usr/lib/xorg/Xorg :0"))) == Free()


def test_a_process_that_has_not_allocated_yet_does_not_count_until_it_has() -> None:
    strangers, small, large = Strangers(), process(7, memory=255 * 1024**2), process(7, memory=256 * 1024**2)
    first, second = verdicts(strangers, (0, seen(small), NOBODY_OURS), (1, seen(large), NOBODY_OURS))
    assert first == Free()
    assert isinstance(second, HeldByStrangers)


def test_where_sizes_of_processes_are_unknown_the_whole_device_decides() -> None:
    unknown = process(7, memory=None)
    assert isinstance(one(seen(unknown, memory_used=2 * GIB)), HeldByStrangers)
    assert one(seen(unknown, memory_used=1024)) == Free()


def test_a_pid_that_does_not_exist_is_nobody() -> None:
    assert one(seen(process(7, alive=False, born=None))) == Free()


def test_our_pid_may_linger_after_its_job_has_ended() -> None:
    ours = Ours({7: 1}, frozenset({GPU}))
    history = [(0.0, seen(process(7)), ours), (1.0, seen(process(7)), NOBODY_OURS)]
    history += [(2.0, seen(process(7)), NOBODY_OURS), (3.0, seen(), NOBODY_OURS)]
    assert verdicts(Strangers(), *history) == [Free()] * 4


def test_a_pid_given_out_anew_is_not_ours_any_more() -> None:
    reused = process(7, born=99_999)
    *_, last = verdicts(Strangers(), (0, seen(process(7)), Ours({7: 1})), (1, seen(reused), NOBODY_OURS))
    assert isinstance(last, HeldByStrangers)


def test_an_adopted_job_is_ours_from_the_first_sample_on() -> None:
    wrapper, run = 400, "token-1"
    child = process(7, session=wrapper)
    daemon = process(8, session=8, run=run)
    sample = seen(child, daemon)
    pids = ours_in(sample, runs={run: 3}, wrappers={wrapper: 3})
    assert pids == {7: 3, 8: 3}
    assert one(sample, Ours(pids, frozenset({GPU}))) == Free()


def test_in_a_foreign_pid_namespace_all_on_our_device_is_ours() -> None:
    unknown = process(7, alive=False, born=None, user=None)
    busy = Ours(busy=frozenset({GPU}))
    history = [(0.0, seen(unknown, foreign=True), busy), (1.0, seen(unknown, foreign=True), NOBODY_OURS)]
    assert verdicts(Strangers(), *history) == [Free(), Free()], "also while it lingers"
    assert isinstance(one(seen(unknown, foreign=True)), HeldByStrangers), (
        "on a device without a job of ours it is a stranger"
    )


def test_in_a_foreign_pid_namespace_our_pids_mean_nothing() -> None:
    unknown = process(7, alive=False, born=None)
    assert isinstance(one(seen(unknown, foreign=True), Ours({7: 1})), HeldByStrangers)


def test_a_short_visit_costs_five_seconds() -> None:
    strangers = Strangers()
    strangers.observe(seen(), NOBODY_OURS, 0.0)
    history = [(10.0, seen(process(7)), NOBODY_OURS), (20.0, seen(), NOBODY_OURS)]
    history += [(24.9, seen(), NOBODY_OURS), (25.0, seen(), NOBODY_OURS)]
    held, left, resting, free = verdicts(strangers, *history)
    assert isinstance(held, HeldByStrangers)
    assert isinstance(left, Resting)
    assert isinstance(resting, Resting)
    assert (left.until, resting.until, free) == (25.0, 25.0, Free())


def test_a_long_stay_costs_a_minute() -> None:
    strangers = Strangers()
    strangers.observe(seen(), NOBODY_OURS, 0.0)
    *_, left = verdicts(strangers, (10.0, seen(process(7)), NOBODY_OURS), (310.0, seen(), NOBODY_OURS))
    assert isinstance(left, Resting)
    assert left.until == 370.0


def test_a_colleagues_loop_of_short_jobs_counts_as_one_stay() -> None:
    strangers = Strangers()
    strangers.observe(seen(), NOBODY_OURS, 0.0)
    for number in range(40):
        strangers.observe(seen(process(100 + number)), NOBODY_OURS, 10.0 * number)
        verdict = strangers.observe(seen(), NOBODY_OURS, 10.0 * number + 8)[GPU]
    assert isinstance(verdict, Resting)
    assert verdict.until == 10.0 * 39 + 8 + 60


def test_who_was_there_before_us_has_been_there_since_it_started() -> None:
    verdict = Strangers().observe(seen(process(7, started=400.0)), NOBODY_OURS, 1000.0)[GPU]
    assert isinstance(verdict, HeldByStrangers)
    assert verdict.since == 400.0


def test_a_device_that_does_not_answer_is_not_used_and_decides_nothing() -> None:
    strangers = Strangers()
    strangers.observe(seen(), NOBODY_OURS, 0.0)
    stale = seen(process(7), status=Status.STALE, message="no answer for 7 s")
    history = [(1.0, seen(process(7)), NOBODY_OURS), (5.0, stale, NOBODY_OURS), (20.0, seen(), NOBODY_OURS)]
    _, hung, back = verdicts(strangers, *history)
    assert hung == Unusable("no answer for 7 s")
    assert isinstance(back, Resting)
    assert back.until == 25.0, "it rests from the moment it was seen free"


def test_our_job_on_a_device_that_hung_is_still_ours_when_it_answers() -> None:
    stale = seen(status=Status.STALE, message="no answer")
    history = [(0.0, seen(process(7)), Ours({7: 1})), (5.0, stale, NOBODY_OURS), (9.0, seen(process(7)), NOBODY_OURS)]
    assert verdicts(Strangers(), *history)[-1] == Free()


def test_ignored_are_users_programs_and_pids() -> None:
    sample = seen(process(7, user="bob", command="/opt/bin/exporter --all"))
    for word in ("bob", "exporter", "7"):
        assert one(sample, rules=Rules(ignored=frozenset({word}))) == Free()
    assert isinstance(one(sample, rules=Rules(ignored=frozenset({"alice"}))), HeldByStrangers)
    assert one(sample, rules=Rules(ignore_all=True)) == Free()


def test_a_waiting_job_can_say_who_holds_the_card() -> None:
    sample = seen(process(4121, memory=38 * GIB, started=0.0))
    verdict = Strangers().observe(sample, NOBODY_OURS, 5 * 3600.0)[GPU]
    sentence = why_not(verdict, 5 * 3600.0)
    assert sentence == "used by alice (pid 4121, 38.0G, 5 h)"


@given(st.lists(st.tuples(st.floats(0.1, 400), st.booleans()), max_size=40))
def test_a_device_is_free_only_after_it_rested(steps: list[tuple[float, bool]]) -> None:
    strangers, now, last_held = Strangers(), 1000.0, None
    strangers.observe(seen(), NOBODY_OURS, now)
    for seconds, held in steps:
        now += seconds
        verdict = strangers.observe(seen(process(7)) if held else seen(), NOBODY_OURS, now)[GPU]
        assert isinstance(verdict, HeldByStrangers) == held
        last_held = now if held else last_held
        if verdict == Free() and last_held is not None:
            assert now - last_held >= 5.0
