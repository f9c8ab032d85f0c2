"""The timeline: cells, gaps with their reasons, ticks, expected jobs; and its cost."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace
from support.core import operations
from support.sessions import spec

from gputui.core import events
from gputui.core.breaker import ScopeState
from gputui.core.eta import Outlook
from gputui.core.job import Attempt, Failed, Job, Succeeded
from gputui.core.scheduler import Scheduler
from gputui.core.slots import Slot
from gputui.core.snapshot import PausedScope, Snapshot
from gputui.core.spans import DeviceUse, RecordedSpan, SpanKind, SpanRecord
from gputui.views.idle_time import expected, gaps
from gputui.views.timeline import (
    TICK_COLUMNS,
    TICKS,
    Bar,
    SlotPlace,
    Timeline,
    Window,
    cells,
    moved_to_show,
    running,
    ticks,
    whole,
    zoomed,
)

SLOTS = (Slot(0, ("0",)), Slot(1, ("1",)))
ZERO = 1_800_000_000.0


def job(number: int, *runs: tuple[float, float, str, int], added: float = ZERO) -> Job:
    """A job with attempts (start, end, device, exit code) in seconds from ZERO."""
    attempts = tuple(
        Attempt(at, (device,), ZERO + start, ZERO + end, Failed(code) if code else Succeeded(), code, None, "",
                slots=(int(device),))
        for at, (start, end, device, code) in enumerate(runs, 1)
    )  # fmt: skip
    return Job(number, spec(f"job {number}"), added, 30, float(number), attempts[-1].end, attempts=attempts)


def read(*jobs: Job) -> tuple[Timeline, Scheduler]:
    scheduler = Scheduler()
    scheduler.handle(events.SetSlots(SLOTS), ZERO)
    timeline = Timeline()
    timeline.read(jobs)
    timeline.settle(scheduler.snapshot())
    return timeline, scheduler


def minutes(columns: int) -> Window:
    """Of columns of 50 seconds."""
    return Window(ZERO, TICKS.index(600), columns)


def test_a_cell_shows_a_failure_or_the_largest_attempt() -> None:
    timeline, _ = read(job(0, (0, 500, "0", 0)), job(1, (500, 502, "0", 7)), job(2, (502, 1000, "0", 0)))
    row = timeline.row(SlotPlace("0", 0))
    shown = cells(row, minutes(22), ZERO + 1000)
    assert [cell.bar.job for cell in shown[:10] if cell.bar] == [0] * 10
    assert shown[10].bar == Bar(1, 1, ZERO + 500, ZERO + 502, True)
    assert shown[11].bar is not None
    assert shown[11].bar.job == 2
    assert shown[10].first
    assert shown[11].first
    assert not shown[12].first
    assert shown[21].bar is None


def test_short_attempts_show_their_share_of_a_cell() -> None:
    timeline, _ = read(*(job(n, (n * 10, n * 10 + 5, "0", 0)) for n in range(60)))
    shown = cells(timeline.row(SlotPlace("0", 0)), minutes(13), ZERO + 1000)
    assert all(cell.many and cell.share == pytest.approx(0.5, abs=0.06) for cell in shown[:12])
    assert shown[12].bar is None


def test_attempts_without_slots_are_in_the_row_of_their_device() -> None:
    old = Attempt(1, ("1",), ZERO, ZERO + 9, Succeeded(), 0, None, "")
    timeline, scheduler = read(Job(0, spec("x"), ZERO, 30, 0.0, Succeeded(), attempts=(old,)))
    assert timeline.places(scheduler.snapshot()) == [SlotPlace("0", 0), SlotPlace("1", 1)]
    assert len(timeline.row(SlotPlace("1", 1))) == 1


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (RecordedSpan(number=1, kind=SpanKind.EXTERNAL, since=ZERO + 100, until=ZERO + 290, device="0", user="alice",
                      text="python", pid=7, memory=2 << 30), SpanKind.EXTERNAL),
        (RecordedSpan(number=1, kind=SpanKind.PAUSE, since=ZERO + 110, text="paused by you"), SpanKind.PAUSE),
        (RecordedSpan(number=1, kind=SpanKind.EXTERNAL, since=ZERO + 100, device="1", user="bob"), None),
        (RecordedSpan(number=1, kind=SpanKind.AWAY, since=ZERO + 120, until=ZERO + 300), SpanKind.AWAY),
    ],
)  # fmt: skip
def test_a_gap_has_the_reason_that_covers_it(span: RecordedSpan, reason: SpanKind | None) -> None:
    timeline, _ = read(job(0, (0, 100, "0", 0)), job(1, (300, 400, "0", 0), added=ZERO + 299))
    found = gaps(timeline, SlotPlace("0", 0), [span], ZERO, ZERO + 400, now=ZERO + 400, shortest=30, active=None)
    assert [(gap.since - ZERO, gap.until - ZERO, gap.reason) for gap in found] == [(100, 300, reason)]
    if reason is SpanKind.EXTERNAL:
        assert found[0].words == "alice: python, pid 7, 2.0 G"


def test_a_gap_with_two_reasons_is_split() -> None:
    timeline, _ = read(job(0, (0, 100, "0", 0)), job(1, (2000, 2100, "0", 0), added=ZERO + 50))
    alice = RecordedSpan(
        number=1, kind=SpanKind.EXTERNAL, since=ZERO + 600, until=ZERO + 1800, device="0", user="alice"
    )
    pause = RecordedSpan(number=2, kind=SpanKind.PAUSE, since=ZERO + 90, until=ZERO + 595, text="paused by you")
    found = gaps(
        timeline, SlotPlace("0", 0), [alice, pause], ZERO, ZERO + 2100, now=ZERO + 2100, shortest=30, active=None
    )
    assert [(gap.since - ZERO, gap.until - ZERO, gap.reason) for gap in found] == [
        (100, 600, SpanKind.PAUSE), (600, 1800, SpanKind.EXTERNAL), (1800, 2000, None),
    ]  # fmt: skip


def test_jobs_that_are_running_held_or_killed_are_not_waiting() -> None:
    scheduler = Scheduler()
    scheduler.handle(events.SetSlots(SLOTS), ZERO)
    timeline = Timeline()
    timeline.settle(scheduler.snapshot())

    def take(*done: events.Event) -> int:
        for event in done:
            scheduler.handle(event, ZERO + 1)
        timeline.update(scheduler.snapshot(), range(scheduler.book.next_id))
        return timeline.waited_at(ZERO + 50)

    assert take(events.AddJobs((spec("a"), spec("b"), spec("c"))), events.Hold(job=1), events.Kill(job=2)) == 1
    scheduler.place(ZERO + 2)
    assert take(events.Spawned(job=0, attempt=1, pid=7)) == 0
    assert take(events.Release(job=1)) == 1
    assert take(events.Kill(job=1)) == 0
    end = events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(0), at=ZERO + 60)
    assert take(end) == 0
    assert take(events.Rerun(job=2)) == 1


def test_ticks_are_twelve_columns_apart_at_every_zoom() -> None:
    window = whole(ZERO + 100, ZERO + 3000, None, 90)
    for _ in range(len(TICKS)):
        places = [tick.column for tick in ticks(window)]
        assert all(later - earlier == TICK_COLUMNS for earlier, later in itertools.pairwise(places))
        window = zoomed(window, 1, ZERO)


@pytest.mark.parametrize("lasted", [5, 50, 3600, 86400, 62 * 3600, 86400 * 100])
def test_a_whole_session_fits_into_the_window(lasted: float) -> None:
    window = whole(ZERO, ZERO + lasted, None, 60)
    assert 0 <= window.column(ZERO) < window.column(ZERO + lasted) + 1 <= 60


def test_a_window_moves_only_as_far_as_needed() -> None:
    window = Window(ZERO, 5, 50)
    assert moved_to_show(window, ZERO + 100, ZERO + 200) is window
    assert moved_to_show(window, ZERO - 500, ZERO - 400).column(ZERO - 500) >= 0
    later = moved_to_show(window, ZERO + 9000, ZERO + 9100)
    assert later.column(ZERO + 9000) >= 0
    assert later.column(ZERO + 9100) < later.columns


def at_work() -> tuple[Timeline, Snapshot]:
    """Six jobs on two slots; one has ended after a minute, two run."""
    scheduler = Scheduler()
    scheduler.handle(events.SetSlots(SLOTS), ZERO)
    scheduler.handle(events.AddJobs(tuple(spec(f"echo {n}") for n in range(6))), ZERO)
    scheduler.place(ZERO)
    for number in (0, 1):
        scheduler.handle(events.Spawned(job=number, attempt=1, pid=7), ZERO)
    scheduler.handle(events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(0), at=ZERO + 60), ZERO + 60)
    scheduler.place(ZERO + 60)
    snapshot = scheduler.snapshot()
    timeline = Timeline()
    timeline.read(snapshot.jobs)
    timeline.settle(snapshot)
    return timeline, snapshot


def test_expected_jobs_follow_the_queue() -> None:
    timeline, snapshot = at_work()
    made = expected(timeline, snapshot, ZERO + 61, ZERO + 1000, {1: ZERO + 70})
    assert [(each.job, each.start - ZERO) for each in made[SlotPlace("1", 1)]] == [(3, 70), (5, 130)]
    assert [(each.job, each.start - ZERO) for each in made[SlotPlace("0", 0)]] == [(4, 120)]
    assert {place.device_key: bar.job for place, bar in running(snapshot)} == {"0": 2, "1": 1}


def test_blocked_and_unknown_slots_expect_no_jobs() -> None:
    timeline, snapshot = at_work()
    silent = replace(snapshot, outlook=Outlook(unknown=(1,)))
    made = expected(timeline, silent, ZERO + 61, ZERO + 1000, {})
    assert {place.device_key: [each.job for each in row] for place, row in made.items()} == {"0": [3, 4, 5]}
    free = {slot: job for slot, job in snapshot.holders.items() if job != 2}
    external_processes = replace(snapshot, holders=free, blocked=frozenset({0}))
    made = expected(timeline, external_processes, ZERO + 61, ZERO + 1000, {})
    assert {place.device_key: [each.job for each in row] for place, row in made.items()} == {"1": [3, 4, 5]}


def test_after_a_pause_the_probe_is_expected_first() -> None:
    timeline, running_snapshot = at_work()
    user = replace(running_snapshot, mode=events.Mode.PAUSED, cause=events.cause_of(events.PauseKind.USER, ZERO))
    now, until = ZERO + 61, ZERO + 1000
    assert expected(timeline, user, now, until, {}) == {}
    cause = events.Cause(events.PauseKind.CRASHES, "3 jobs failed", ZERO)
    paused = PausedScope(group=None, cause=cause, job=4, state=ScopeState.PAUSED, at=ZERO + 600, life=60, wait=600)
    crashed = replace(running_snapshot, mode=events.Mode.PAUSED, cause=cause, paused_scopes=(paused,))
    made = sorted((each.start - ZERO, each.job) for row in expected(timeline, crashed, now, until, {}).values()
                  for each in row)  # fmt: skip
    assert made == [(600, 4), (660, 3), (660, 5)]
    without_probe = replace(crashed, paused_scopes=(replace(paused, at=None),))
    assert expected(timeline, without_probe, now, until, {}) == {}


def test_a_timeline_is_updated_with_changed_jobs() -> None:
    timeline, scheduler = read()
    scheduler.handle(events.AddJobs((spec("a"),)), ZERO)
    scheduler.place(ZERO + 1)
    scheduler.handle(events.Spawned(job=0, attempt=1, pid=7), ZERO + 1)
    scheduler.handle(events.AttemptEnded(job=0, attempt=1, outcome=events.Exited(3), at=ZERO + 9), ZERO + 9)
    timeline.update(scheduler.snapshot(), {0})
    timeline.update(scheduler.snapshot(), {0})
    row = timeline.row(SlotPlace("0", 0))
    assert (len(row), row.bar(0)) == (1, Bar(0, 1, ZERO + 1, ZERO + 9, True))


def test_a_moved_job_is_expected_once() -> None:
    timeline, scheduler = read(job(9, (0, 50, "0", 0)))
    scheduler.handle(events.AddJobs(tuple(spec(name) for name in "abcd")), ZERO)
    scheduler.place(ZERO)
    timeline.update(scheduler.snapshot(), range(4))
    moves = events.Move(job=3, where=events.MoveTarget.UP), events.Move(job=3, where=events.MoveTarget.DOWN)
    for event in (events.Hold(job=3), events.Release(job=3), *moves, events.Hold(job=3), events.Release(job=3), *moves):
        scheduler.handle(event, ZERO + 1)
        timeline.update(scheduler.snapshot(), {2, 3})
    made = expected(timeline, scheduler.snapshot(), ZERO + 2, ZERO + 1000, {})
    assert sorted(each.job for row in made.values() for each in row) == [2, 3]


def test_drawing_costs_the_same_for_many_attempts() -> None:
    def drawn(count: int) -> int:
        timeline, _ = read(*(job(n, (n * 10, n * 10 + 9, "0", n % 50 == 0)) for n in range(count)))
        row, window = timeline.row(SlotPlace("0", 0)), whole(ZERO, ZERO + count * 10, None, 100)
        row.idle()

        def picture() -> None:
            cells(row, window, ZERO + count * 10)
            gaps(timeline, SlotPlace("0", 0), [], ZERO, window.end, now=ZERO + count * 10, shortest=30, active=None)

        return operations(picture)

    assert drawn(20_000) <= 1.3 * drawn(1000)


# What is recorded


def test_pauses_are_recorded_with_their_cause_and_end() -> None:
    record = SpanRecord()
    record.mode(events.Mode.RUNNING, None, 1.0)
    assert not record.unsaved
    cause = events.cause_of(events.PauseKind.USER, 5.0)
    record.mode(events.Mode.PAUSED, cause, 5.0)
    record.mode(events.Mode.PAUSED, cause, 6.0)
    record.mode(events.Mode.RUNNING, None, 9.0)
    (span,) = record.unsaved.values()
    assert (span.kind, span.since, span.until, span.text) == (SpanKind.PAUSE, 5.0, 9.0, "paused by you")


def test_an_external_process_is_one_span() -> None:
    record = SpanRecord()
    for at in range(10):
        record.devices({"3": DeviceUse("alice", "python", 40112, at)}, float(at))
    record.devices({"3": None}, 10.0)
    (span,) = record.unsaved.values()
    assert (span.device, span.since, span.until, span.user, span.memory) == ("3", 0.0, 10.0, "alice", 9)


def test_a_process_seen_before_and_after_a_break_is_one_span() -> None:
    first = SpanRecord()
    first.devices({"0": DeviceUse("alice", "a", 1), "1": DeviceUse("bob", "b", 2)}, 10.0)
    second = SpanRecord(first.unsaved.values(), 3)
    second.away(20.0, 100.0)
    second.devices({"0": DeviceUse("alice", "a", 1), "1": None}, 101.0)
    spans = {(span.kind, span.device): span for span in {**first.unsaved, **second.unsaved}.values()}
    assert spans[SpanKind.EXTERNAL, "0"].until is None
    assert spans[SpanKind.EXTERNAL, "1"].until == 20.0
    assert (spans[SpanKind.AWAY, ""].since, spans[SpanKind.AWAY, ""].until) == (20.0, 100.0)
