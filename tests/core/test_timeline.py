"""The timeline: which attempt a cell shows, gaps with their reasons, ticks, what is expected; cheap at any length."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace
from support.operations import operations
from support.owning import spec

from gputui.core.eta import Outlook
from gputui.core.events import (
    AddJobs,
    AttemptEnded,
    Cause,
    Exited,
    Hold,
    Mode,
    Move,
    MoveTarget,
    PauseKind,
    Release,
    SetLanes,
    Spawned,
    cause_of,
)
from gputui.core.job import Attempt, Failed, Job, Succeeded
from gputui.core.lanes import Lane
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Caution, Snapshot
from gputui.core.spans import DeviceUse, RecordedSpan, SpanKind, SpanRecord
from gputui.views.idle_time import GapReason, expected, gaps
from gputui.views.timeline import (
    TICK_COLUMNS,
    TICKS,
    Bar,
    LanePlace,
    Timeline,
    Window,
    cells,
    moved_to_show,
    running,
    ticks,
    whole,
    zoomed,
)

LANES = (Lane(0, ("0",)), Lane(1, ("1",)))
ZERO = 1_800_000_000.0


def job(number: int, *runs: tuple[float, float, str, int], added: float = ZERO) -> Job:
    """A job with attempts (start, end, device, exit code) in seconds from ZERO."""
    attempts = tuple(
        Attempt(at, (device,), ZERO + start, ZERO + end, Failed(code) if code else Succeeded(), code, None, "",
                lanes=(int(device),))
        for at, (start, end, device, code) in enumerate(runs, 1)
    )  # fmt: skip
    return Job(number, spec(f"job {number}"), added, 30, float(number), attempts[-1].end, attempts=attempts)


def read(*jobs: Job) -> tuple[Timeline, Scheduler]:
    scheduler = Scheduler()
    scheduler.handle(SetLanes(LANES), ZERO)
    timeline = Timeline()
    timeline.read(jobs)
    timeline.settle(scheduler.snapshot())
    return timeline, scheduler


def minutes(columns: int) -> Window:
    """Of columns of 50 seconds."""
    return Window(ZERO, TICKS.index(600), columns)


def test_a_cell_shows_the_attempt_that_has_most_of_it_and_a_crash_always_wins() -> None:
    timeline, _ = read(job(0, (0, 500, "0", 0)), job(1, (500, 502, "0", 7)), job(2, (502, 1000, "0", 0)))
    row = timeline.row(LanePlace("0", 0))
    shown = cells(row, minutes(22), ZERO + 1000)
    assert [cell.bar.job for cell in shown[:10] if cell.bar] == [0] * 10
    assert shown[10].bar == Bar(1, 1, ZERO + 500, ZERO + 502, True)
    assert shown[11].bar is not None
    assert shown[11].bar.job == 2
    assert shown[10].first
    assert shown[11].first
    assert not shown[12].first
    assert shown[21].bar is None


def test_attempts_shorter_than_a_cell_are_told_by_their_share() -> None:
    timeline, _ = read(*(job(n, (n * 10, n * 10 + 5, "0", 0)) for n in range(60)))
    shown = cells(timeline.row(LanePlace("0", 0)), minutes(13), ZERO + 1000)
    assert all(cell.many and cell.share == pytest.approx(0.5, abs=0.06) for cell in shown[:12])
    assert shown[12].bar is None


def test_attempts_that_an_older_version_noted_without_lanes_are_in_their_devices_row() -> None:
    old = Attempt(1, ("1",), ZERO, ZERO + 9, Succeeded(), 0, None, "")
    timeline, scheduler = read(Job(0, spec("x"), ZERO, 30, 0.0, Succeeded(), attempts=(old,)))
    assert timeline.places(scheduler.snapshot()) == [LanePlace("0", 0), LanePlace("1", 1)]
    assert len(timeline.row(LanePlace("1", 1))) == 1


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (RecordedSpan(number=1, kind=SpanKind.STRANGER, since=ZERO + 100, until=ZERO + 290, device="0", user="alice",
                      text="python", pid=7, memory=2 << 30), GapReason.STRANGER),
        (RecordedSpan(number=1, kind=SpanKind.PAUSE, since=ZERO + 110, text="paused by you"), GapReason.PAUSE),
        (RecordedSpan(number=1, kind=SpanKind.STRANGER, since=ZERO + 100, device="1", user="bob"), GapReason.NOTHING),
        (RecordedSpan(number=1, kind=SpanKind.AWAY, since=ZERO + 120, until=ZERO + 300), GapReason.AWAY),
    ],
)  # fmt: skip
def test_a_gap_has_the_reason_that_covers_it(span: RecordedSpan, reason: GapReason) -> None:
    timeline, _ = read(job(0, (0, 100, "0", 0)), job(1, (300, 400, "0", 0), added=ZERO + 299))
    found = gaps(timeline, LanePlace("0", 0), [span], ZERO, ZERO + 400, now=ZERO + 400, shortest=30, active=None)
    assert [(gap.since - ZERO, gap.until - ZERO, gap.reason) for gap in found] == [(100, 300, reason)]
    if reason is GapReason.STRANGER:
        assert found[0].words == "alice: python, pid 7, 2.0 G"


def test_ticks_are_twelve_columns_apart_at_every_zoom() -> None:
    window = whole(ZERO + 100, ZERO + 3000, None, 90)
    for _ in range(len(TICKS)):
        places = [tick.column for tick in ticks(window)]
        assert all(later - earlier == TICK_COLUMNS for earlier, later in itertools.pairwise(places))
        window = zoomed(window, 1, ZERO)


@pytest.mark.parametrize("lasted", [5, 50, 3600, 86400, 62 * 3600, 86400 * 100])
def test_the_whole_of_a_session_fits_from_its_beginning_to_now(lasted: float) -> None:
    window = whole(ZERO, ZERO + lasted, None, 60)
    assert 0 <= window.column(ZERO) < window.column(ZERO + lasted) + 1 <= 60


def test_a_window_is_moved_only_as_far_as_it_must() -> None:
    window = Window(ZERO, 5, 50)
    assert moved_to_show(window, ZERO + 100, ZERO + 200) is window
    assert moved_to_show(window, ZERO - 500, ZERO - 400).column(ZERO - 500) >= 0
    later = moved_to_show(window, ZERO + 9000, ZERO + 9100)
    assert later.column(ZERO + 9000) >= 0
    assert later.column(ZERO + 9100) < later.columns


def at_work() -> tuple[Timeline, Snapshot]:
    """Six jobs on two lanes; one has ended after a minute, two run."""
    scheduler = Scheduler()
    scheduler.handle(SetLanes(LANES), ZERO)
    scheduler.handle(AddJobs(tuple(spec(f"echo {n}") for n in range(6))), ZERO)
    scheduler.place(ZERO)
    for number in (0, 1):
        scheduler.handle(Spawned(job=number, attempt=1, pid=7), ZERO)
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=ZERO + 60), ZERO + 60)
    scheduler.place(ZERO + 60)
    snapshot = scheduler.snapshot()
    timeline = Timeline()
    timeline.read(snapshot.jobs)
    timeline.settle(snapshot)
    return timeline, snapshot


def test_what_is_expected_follows_the_queue_over_the_lanes() -> None:
    timeline, snapshot = at_work()
    made = expected(timeline, snapshot, ZERO + 61, ZERO + 1000, {1: ZERO + 70})
    assert [(each.job, each.start - ZERO) for each in made[LanePlace("1", 1)]] == [(3, 70), (5, 130)]
    assert [(each.job, each.start - ZERO) for each in made[LanePlace("0", 0)]] == [(4, 120)]
    assert {place.slot: bar.job for place, bar in running(snapshot)} == {"0": 2, "1": 1}


def test_nothing_is_expected_on_a_lane_that_others_use_nor_after_a_job_whose_end_is_unknown() -> None:
    timeline, snapshot = at_work()
    silent = replace(snapshot, outlook=Outlook(unknown=(1,)))
    made = expected(timeline, silent, ZERO + 61, ZERO + 1000, {})
    assert {place.slot: [each.job for each in row] for place, row in made.items()} == {"0": [3, 4, 5]}
    free = {lane: job for lane, job in snapshot.holders.items() if job != 2}
    strangers = replace(snapshot, holders=free, blocked=frozenset({0}))
    made = expected(timeline, strangers, ZERO + 61, ZERO + 1000, {})
    assert {place.slot: [each.job for each in row] for place, row in made.items()} == {"1": [3, 4, 5]}


def test_nothing_is_expected_while_a_pause_has_no_end_and_after_its_end_the_tried_one_comes_first() -> None:
    timeline, running_snapshot = at_work()
    user = replace(running_snapshot, mode=Mode.PAUSED, cause=cause_of(PauseKind.USER, ZERO))
    now, until = ZERO + 61, ZERO + 1000
    assert expected(timeline, user, now, until, {}) == {}
    cause = Cause(PauseKind.CRASHES, "3 jobs crashed", ZERO)
    caution = Caution(
        group=None, cause=cause, job=4, tries=False, at=ZERO + 600, due=False, life=60, wait=600, common={}
    )
    crashed = replace(running_snapshot, mode=Mode.PAUSED, cause=cause, cautions=(caution,))
    made = sorted((each.start - ZERO, each.job) for row in expected(timeline, crashed, now, until, {}).values()
                  for each in row)  # fmt: skip
    assert made == [(600, 4), (660, 3), (660, 5)]
    nobody_tried = replace(crashed, cautions=(replace(caution, at=None),))
    assert expected(timeline, nobody_tried, now, until, {}) == {}


def test_what_changed_is_taken_over_without_reading_the_rest() -> None:
    timeline, scheduler = read()
    scheduler.handle(AddJobs((spec("a"),)), ZERO)
    scheduler.place(ZERO + 1)
    scheduler.handle(Spawned(job=0, attempt=1, pid=7), ZERO + 1)
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(3), at=ZERO + 9), ZERO + 9)
    timeline.update(scheduler.snapshot(), {0})
    timeline.update(scheduler.snapshot(), {0})
    row = timeline.row(LanePlace("0", 0))
    assert (len(row), row.bar(0)) == (1, Bar(0, 1, ZERO + 1, ZERO + 9, True))


def test_a_waiting_job_is_expected_once_however_often_it_was_held_moved_or_changed() -> None:
    timeline, scheduler = read(job(9, (0, 50, "0", 0)))
    scheduler.handle(AddJobs(tuple(spec(name) for name in "abcd")), ZERO)
    scheduler.place(ZERO)
    timeline.update(scheduler.snapshot(), range(4))
    moves = Move(job=3, where=MoveTarget.UP), Move(job=3, where=MoveTarget.DOWN)
    for event in (Hold(job=3), Release(job=3), *moves, Hold(job=3), Release(job=3), *moves):
        scheduler.handle(event, ZERO + 1)
        timeline.update(scheduler.snapshot(), {2, 3})
    made = expected(timeline, scheduler.snapshot(), ZERO + 2, ZERO + 1000, {})
    assert sorted(each.job for row in made.values() for each in row) == [2, 3]


def test_a_picture_of_a_hundred_thousand_attempts_costs_no_more_than_one_of_a_thousand() -> None:
    def drawn(count: int) -> int:
        timeline, _ = read(*(job(n, (n * 10, n * 10 + 9, "0", n % 50 == 0)) for n in range(count)))
        row, window = timeline.row(LanePlace("0", 0)), whole(ZERO, ZERO + count * 10, None, 100)
        row.idle()

        def picture() -> None:
            cells(row, window, ZERO + count * 10)
            gaps(timeline, LanePlace("0", 0), [], ZERO, window.end, now=ZERO + count * 10, shortest=30, active=None)

        return operations(picture)

    assert drawn(20_000) <= 1.3 * drawn(1000)


# What is recorded


def test_pauses_are_recorded_with_their_cause_and_end() -> None:
    record = SpanRecord()
    record.mode(Mode.RUNNING, None, 1.0)
    assert not record.unsaved
    cause = cause_of(PauseKind.USER, 5.0)
    record.mode(Mode.PAUSED, cause, 5.0)
    record.mode(Mode.PAUSED, cause, 6.0)
    record.mode(Mode.RUNNING, None, 9.0)
    (span,) = record.unsaved.values()
    assert (span.kind, span.since, span.until, span.text) == (SpanKind.PAUSE, 5.0, 9.0, "paused by you")


def test_a_strangers_hours_are_one_span_from_coming_to_leaving() -> None:
    record = SpanRecord()
    for at in range(10):
        record.devices({"3": DeviceUse("alice", "python", 40112, at)}, float(at))
    record.devices({"3": None}, 10.0)
    (span,) = record.unsaved.values()
    assert (span.device, span.since, span.until, span.user, span.memory) == ("3", 0.0, 10.0, "alice", 9)


def test_who_is_still_there_when_an_owner_comes_back_was_there_all_the_time() -> None:
    first = SpanRecord()
    first.devices({"0": DeviceUse("alice", "a", 1), "1": DeviceUse("bob", "b", 2)}, 10.0)
    second = SpanRecord(first.unsaved.values(), 3)
    second.away(20.0, 100.0)
    second.devices({"0": DeviceUse("alice", "a", 1), "1": None}, 101.0)
    spans = {(span.kind, span.device): span for span in {**first.unsaved, **second.unsaved}.values()}
    assert spans[SpanKind.STRANGER, "0"].until is None
    assert spans[SpanKind.STRANGER, "1"].until == 20.0
    assert (spans[SpanKind.AWAY, ""].since, spans[SpanKind.AWAY, ""].until) == (20.0, 100.0)
