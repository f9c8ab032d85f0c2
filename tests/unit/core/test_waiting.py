"""Why jobs wait, and when they will have ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.core import World, busy, is_sentence, slots, spec

from gputui.core.eta import NeverStarts, Outlook, SteadyEnd, estimate_outlook, job_eta, progress_of, silent_since
from gputui.core.events import AddJobs, Drain, Hold, NoRoom, Pause, SetSlots, Settings, Silence, Suspend
from gputui.core.job import Request
from gputui.core.results import JobResults, Paces
from gputui.views.waiting import waiting_reason


def test_held_blocked_and_delayed_jobs_say_what_they_wait_for() -> None:
    world = busy(
        "0 1 2 3 4", *(spec() for _ in range(5)), spec(hold=True), spec(after=(0,)), spec(after=tuple(range(5)))
    )
    world.add(spec(not_before=1030.0))
    assert world.why(5) == "held by you; release it to run"
    assert world.why(6) == "waiting for #0 (running)"
    assert world.why(7) == "waiting for #0 (running), #1 (running), #2 (running) and 2 more"
    assert world.why(8) == "start time not reached; starts in 30 s"


def test_a_queued_job_says_what_is_in_its_way() -> None:
    world = busy("0 1", jobs=2)
    world.add(spec(gpus=2), spec(), spec())
    assert world.why(2) == "waiting for 2 GPUs: all 2 busy"
    assert world.why(3) == "1 job ahead of it"
    assert world.why(4) == "2 jobs ahead of it"
    world.do(Hold(job=2))
    assert world.why(3) == "waiting for a GPU: all 2 busy"


def test_waiting_for_ones_turn_is_routine() -> None:
    world = busy("0 1", jobs=2)
    world.add(spec(devices=("1",)), spec(), spec(hold=True))
    reasons = [waiting_reason(world.scheduler, world.job(job), world.now) for job in (2, 3, 4)]
    assert [reason.routine for reason in reasons if reason is not None] == [False, True, True]


def test_a_job_for_one_gpu_names_only_that_gpu() -> None:
    world = busy("0 1", spec(devices=("0",)), spec(devices=("1",)))
    world.add(spec(gpus=1, devices=("1",)))
    assert world.why(2) == "waiting for GPU 1: busy"


def test_a_removed_slot_in_use_is_still_an_obstacle() -> None:
    world = busy("0 0", jobs=3)
    world.do(SetSlots(slots("0")))
    world.end(0)
    assert world.why(2) == "waiting for a GPU: 0 busy"


@pytest.mark.parametrize(
    ("gpus", "has"), [("0 1", "GPU 0, 1"), ("cpu cpu", "2 slots without a GPU"), ("cpu", "1 slot"), ("", "no slots")]
)
def test_a_job_that_can_never_run_here_says_so(gpus: str, has: str) -> None:
    world = World(gpus)
    world.add(spec(gpus=3))
    reason = world.why(0)
    assert reason is not None
    assert reason.startswith(f"needs 3 GPUs; this session has {has}")


def test_cpu_jobs_wait_for_each_other_only() -> None:
    world = World("0")
    world.add_many(5)
    world.add_many(3, gpus=0)
    assert world.why(5) == "0 CPU jobs running, limit 1"
    world.start()
    assert world.why(6) == "1 CPU job running, limit 1"
    assert world.why(7) == "1 job ahead of it"


def test_a_job_beyond_its_budget_is_not_ahead_of_others() -> None:
    world = World("0")
    world.add(*[spec(group="sweep", gpus=1, budget=50.0)] * 2, *[spec(group="other")] * 2)
    assert world.start() == [0]
    world.now += 60
    world.end(0)
    assert world.start() == [2]
    assert world.why(1) == "group sweep has used its budget: 0.0167 of 0.0139 GPU-hours"
    assert world.why(3) == "waiting for a GPU: 0 busy"


def test_a_waiting_job_says_what_stops_the_scheduler() -> None:
    world = World("0 1")
    world.add_many(3)
    assert world.why(0) == "a slot is free: starts next"
    world.start()
    world.end(1, NoRoom("the disk is full"))
    assert world.why(1) == "the disk is full; starts in 5 s"
    assert world.why(2) == "cannot start jobs now (out of resources); retrying in 5 s"
    world.do(Drain())
    assert world.why(2) == "scheduler draining: no new jobs start"
    world.do(Pause())
    assert world.why(2) == "scheduler paused by you"
    assert all(is_sentence(world.why(job) or "none") for job in range(3))


def test_the_estimate_spreads_typical_times_over_the_slots() -> None:
    world = World("0 1")
    world.add_many(6)
    world.run(seconds=100)
    world.start()
    assert world.outlook().at == world.now + 250, "#1 is due and has 50 s more, #2 needs 100 s, then #3 to #5"
    world.now += 40
    assert world.outlook().at == world.now + 280, "#1 is late: 120 s are typical by now, for all behind it"


def test_the_estimate_knows_groups_and_leaves_held_jobs_out() -> None:
    world = World("0")
    world.add(spec(group="quick"), spec(group="slow"))
    world.run(seconds=10)
    world.run(seconds=1000)
    world.add(*(spec(group="quick") for _ in range(3)), spec(group="slow"))
    assert world.outlook().at == world.now + 1030
    world.do(Hold(job=5))
    assert world.outlook().at == world.now + 30


def test_an_estimate_for_ten_thousand_jobs_is_exact_enough() -> None:
    world = World("0 1 2 3")
    world.add()
    world.run(seconds=8)
    world.scheduler.handle(AddJobs(tuple(spec() for _ in range(10_000))), world.now)
    eta = world.outlook().at
    assert eta is not None
    assert eta - world.now == pytest.approx(20_000, rel=0.01)


def test_progress_gives_an_estimate() -> None:
    world = busy("0", jobs=3)
    world.now += 100
    quarter = JobResults(1, progress=0.25, progress_at=world.now)
    assert world.outlook() == Outlook()
    assert job_eta(world.job(0), quarter, world.now) == world.now + 300
    assert world.outlook({0: quarter}) == Outlook(world.now + 300 + 2 * 400, 3)
    other_attempt = JobResults(2, progress=0.25, progress_at=world.now)
    assert job_eta(world.job(0), other_attempt, world.now) is None
    assert (progress_of(world.job(0), quarter), progress_of(world.job(0), other_attempt)) == (0.25, None)
    assert job_eta(world.job(0), JobResults(1), world.now) is None
    assert job_eta(world.job(1), quarter, world.now) is None, "it waits"


def test_running_jobs_count_for_the_typical_duration() -> None:
    world = busy("0 1", jobs=6)
    world.now += 10
    long_one = JobResults(1, progress=0.1, progress_at=world.now)
    world.end(0)
    by_both = world.outlook({1: long_one}).at
    assert by_both is not None
    assert by_both - world.now > 100, "the one that runs will take a hundred seconds"


def test_a_late_job_is_unknown_and_its_slot_not_counted() -> None:
    world = busy("0 1", jobs=4)
    world.now += 60
    world.end(0)
    world.start()
    outlooks = []
    for _ in range(20):
        outlooks.append(world.outlook())
        world.now += 10
    on_time, late = outlooks[0], outlooks[5]
    assert (on_time.jobs, on_time.unknown) == (3, ())
    assert all(seen.at is None or seen.at > world.now - 200 for seen in outlooks)
    assert (late.jobs, late.unknown) == (2, (1,)), "twice as long as any job took"
    assert outlooks[-1].unknown == (1, 2)
    assert (outlooks[-1].at, outlooks[-1].jobs) == (None, 0), "no usable slot is left"


def test_short_jobs_are_not_late_after_a_second() -> None:
    world = World("0")
    world.add_many(3)
    world.run(seconds=1)
    world.start()
    world.now += 8
    assert world.outlook().unknown == ()
    world.now += 4
    assert world.outlook().unknown == (1,)


@pytest.mark.parametrize("trouble", ["hung", "suspended"])
def test_the_end_of_a_hung_or_suspended_job_is_unknown(trouble: str) -> None:
    world = busy("0 1", *[spec(hang_after=10)] * 4)
    world.now += 60
    world.end(0)
    world.do(Suspend(job=1) if trouble == "suspended" else Silence(job=1, attempt=1, since=world.now - 30))
    assert world.outlook().unknown == (1,)
    assert world.outlook().jobs == 2


def test_jobs_that_can_never_run_are_not_counted() -> None:
    world = World("0 1 2 3")
    world.add()
    world.run(seconds=60)
    world.add_many(8)
    (big,) = world.add(spec(gpus=99, name="big"))
    (after_it,) = world.add(spec(after=("big",)))
    world.start()
    end = world.now + 120
    assert world.outlook() == Outlook(end, 8, never=(NeverStarts(big, Request(99)),))
    for _ in range(5):
        world.now += 10
        assert world.outlook().at == end, "it does not slide along"
    assert world.state(after_it) == "blocked"


def test_the_estimate_respects_gpus_cpu_jobs_and_limits() -> None:
    world = World("0 1 2 3", cpu_jobs=1)
    world.add(spec())
    world.run(seconds=100)
    world.add(spec(gpus=4), spec(gpus=4))
    assert world.outlook().at == world.now + 200, "side by side they do not fit"
    world.add(spec(gpus=0), spec(gpus=0), spec(gpus=0))
    assert world.outlook() == Outlook(world.now + 300, 5)
    world.do(Settings(cpu_jobs=1, max_gpus=3))
    assert world.outlook() == Outlook(world.now + 300, 3), "four GPUs are more than it may use"
    world.do(Hold(job=5))
    assert world.outlook().jobs == 2


def test_a_paused_group_is_not_counted() -> None:
    world = World("0", pause_after=1)
    world.add(spec(group="good"), *(spec(group="bad") for _ in range(5)), *(spec(group="good") for _ in range(3)))
    world.run(seconds=100)
    world.run(outcome=1, signature="boom")
    assert world.outlook().jobs == 3


def test_the_displayed_end_moves_slowly() -> None:
    shown = SteadyEnd()

    def take(at: float | None, now: float, jobs: int, slots: int, *unknown: int) -> float | None:
        return shown.update(Outlook(at, jobs, unknown), now, slots).at

    assert take(700.0, 0.0, 30, 4) == 700.0
    near = take(60.0, 1.0, 29, 4)
    assert near is not None
    assert 650 < near < 700, "one estimate does not make it jump"
    for second in range(2, 120):
        near = take(300.0, float(second), 29, 4)
    assert near == pytest.approx(300.0, abs=5)
    late = take(1200.0, 120.0, 29, 4)
    assert late == 1200.0, "an end that is too early is corrected at once"
    assert take(900.0, 120.0, 60, 4) == 900.0, "jobs were added"
    assert take(500.0, 121.0, 60, 8) == 500.0, "there are more slots"
    assert take(400.0, 122.0, 59, 8, 7) == 400.0, "one of them is no longer counted on"
    assert take(None, 123.0, 59, 8, 7) is None


def test_the_displayed_end_is_never_earlier_than_a_running_job_or_the_queue() -> None:
    world = busy("0 1 2", jobs=12)
    shown = SteadyEnd()
    previous = None
    for second in range(1, 60):
        now = world.now = 1000.0 + second
        # The jobs slow down, so that each of them ends later than first estimated.
        progress = 0.6 * (1 - 0.9**second)
        results = {job: JobResults(1, progress=progress, progress_at=now, written_at=now) for job in range(3)}
        seen = estimate_outlook(world.scheduler, now, results)
        outlook = shown.update(seen, now, 3)
        snapshot = replace(world.scheduler.snapshot(), results=results, outlook=outlook)
        ends = [end for job in range(3) if (end := snapshot.job_eta(world.job(job), now)) is not None]
        assert outlook.at is not None
        assert seen.at is not None
        assert outlook.at >= seen.at >= max(ends) + 3 * (max(ends) - 1000.0) - 1.0
        stale = replace(snapshot, outlook=previous) if previous is not None else snapshot
        assert (stale.with_latest_eta(now).outlook.at or 0.0) >= max(ends), "the outlook may be older than the results"
        previous = outlook


@pytest.mark.parametrize(
    ("printed", "pace", "silent_after"),
    [
        (None, None, None),  # nothing is known of its pace
        (None, 49.0, 3 * 49.0),  # it never printed, its siblings took so long
        (JobResults(1, written_at=1100.0, longest_pause=5.0, outputs=3), None, None),  # too few lines
        (JobResults(1, written_at=1100.0, longest_pause=5.0, outputs=50), None, 100 + 60.0),  # a minute at least
        (JobResults(1, written_at=1100.0, longest_pause=40.0, outputs=50), None, 100 + 120.0),
        (JobResults(1, written_at=1100.0, longest_pause=40.0, outputs=50), 60.0, 100 + 180.0),
        (JobResults(2, written_at=1100.0, longest_pause=40.0, outputs=50), 60.0, 180.0),  # of another attempt
    ],
)
def test_a_job_is_silent_after_three_times_the_usual_pause(
    printed: JobResults | None, pace: float | None, silent_after: float | None
) -> None:
    world = busy("0", spec())
    job = world.job(0)
    began = 1000.0
    if silent_after is None:
        assert silent_since(job, printed, pace, began + 100_000) is None
        return
    assert silent_since(job, printed, pace, began + silent_after - 1) is None
    heard = 1100.0 if printed is not None and printed.attempt == 1 else began
    assert silent_since(job, printed, pace, began + silent_after + 1) == heard


def test_the_usual_pause_is_learned_from_succeeded_jobs() -> None:
    world = World("0")
    paces = Paces()
    world.add(spec(group="quiet"), spec(group="quiet"), spec(group="talks"), spec(group="talks"))
    for job in range(4):
        world.run(seconds=49, outcome=int(job == 3))
        talks = JobResults(1, written_at=world.now - 4, longest_pause=7.0 + job, outputs=9)
        paces.note(world.job(job), talks if job > 1 else None)
    assert paces.usual() == {"quiet": 49.0, "talks": 9.0}, "what failed tells nothing"
