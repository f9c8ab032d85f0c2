"""The timeline: real jobs become bars, the cursor moves over them, every line fits the screen."""

from __future__ import annotations

import re

import pytest
from support.app import GIB, Stage, gpu, on_stage, picture, shown
from support.core import operations
from support.sessions import spec

from gputui.core.events import AddJobs, AttemptEnded, Continue, Exited, Kill, SetSlots, Spawned, Suspend
from gputui.core.job import Attempt, End, Failed, Job, Killed, StateName, Succeeded, TimedOut
from gputui.core.scheduler import Scheduler
from gputui.core.slots import Slot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.tui.views.timeline_page import TimelineScene, columns_of, lines
from gputui.views.format import width
from gputui.views.timeline import SlotPlace, Timeline, whole

ZERO = 1_800_000_000.0


@on_stage(size=(120, 40))
async def test_t_shows_which_job_ran_where_and_keys_move_over_the_bars(stage: Stage) -> None:
    good, bad = await stage.add("true", "exit 3")
    await stage.becomes(good, StateName.SUCCEEDED)
    await stage.becomes(bad, StateName.FAILED)
    runs = await stage.running()
    await stage.go_to(runs)
    await stage.press("t")
    await stage.shows(f"#{runs} ")
    await stage.press("exclamation_mark")
    await stage.shows(f"#{bad} ")
    assert "✗" in stage.text
    await stage.press("plus", "plus", "minus", "less_than_sign", "greater_than_sign", "0")
    await stage.shows("Events")
    await stage.shows(" added")
    await stage.press("up", "left", "right", "down", "escape")
    await stage.back_on_main()


@on_stage(size=(120, 40))
async def test_pauses_and_ends_appear_while_it_is_open(stage: Stage) -> None:
    [job] = await stage.add("sleep 0.3")
    await stage.press("t")
    await stage.shows(f"#{job} ")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.shows("✓ succeeded")
    await stage.press("escape", "p", "t")
    await stage.shows("paused by you")


@on_stage(size=(140, 40))
async def test_events_tell_what_the_user_did_to_jobs(stage: Stage) -> None:
    job = await stage.running()
    await stage.command(Suspend(job=job))
    await stage.becomes(job, StateName.SUSPENDED)
    await stage.command(Continue(job=job))
    await stage.becomes(job, StateName.RUNNING)
    await stage.command(Kill(job=job))
    await stage.becomes(job, StateName.KILLED)
    await stage.press("t")
    for action in ("added", "suspended by the user", "continued by the user", "killed by the user"):
        await stage.shows(f"#{job} {action}")


def read(jobs: list[Job]) -> tuple[Timeline, Scheduler]:
    scheduler = Scheduler()
    scheduler.handle(SetSlots((Slot(0, ("0",)), Slot(1, ("1",)))), ZERO)
    timeline = Timeline()
    timeline.read(jobs)
    timeline.settle(scheduler.snapshot())
    return timeline, scheduler


def ended(number: int, start: float, end: float, code: int = 0, device: str = "0") -> Job:
    over = Attempt(1, (device,), ZERO + start, ZERO + end, Failed(code) if code else Succeeded(), code,
                   "bad" if code else None, "", slots=(int(device),))  # fmt: skip
    return Job(number, spec(f"job {number}"), ZERO, 30, float(number), over.end, attempts=(over,))


def scene(
    timeline: Timeline, scheduler: Scheduler, now: float, columns: int, rows: int, **changes: object
) -> TimelineScene:
    began = timeline.began()
    settings: dict[str, object] = {
        "timeline": timeline, "snapshot": scheduler.snapshot(), "spans": [],
        "picture": picture(shown(gpu(0)), shown(gpu(1))), "name_of": lambda job: f"lr={job} 名前",
        "window": whole(began if began is not None else now - 60, now, None, columns_of(columns)), "now": now,
        "place": SlotPlace("0", 0), "cursor": (1, 1), "width": columns, "height": rows, **changes,
    }  # fmt: skip
    return TimelineScene(**settings)  # type: ignore[arg-type]


def drawn(timeline: Timeline, scheduler: Scheduler, now: float, **changes: object) -> str:
    return "\n".join(line.text for line in lines(scene(timeline, scheduler, now, 120, 37, **changes)))


@pytest.mark.parametrize("lined", [False, True])
def test_every_end_has_its_own_look_which_the_legend_explains(lined: bool) -> None:
    ends: list[End] = [Succeeded(), Failed(3), Killed(), TimedOut(60.0, silent=True)]
    jobs = []
    for number, end in enumerate(ends, 1):
        attempt = Attempt(1, ("0",), ZERO + 100 * number, ZERO + 100 * number + 90, end, None, None, "", slots=(0,))
        jobs.append(Job(number, spec("x"), ZERO, 30, float(number), end, attempts=(attempt,)))
    timeline, scheduler = read(jobs)
    page = lines(scene(timeline, scheduler, ZERO + 600, 120, 37, cursor=None, lined=lined))
    legend = next(line.pieces for line in page if " killed" in line.text)
    explained = {legend[index + 1][0].strip(): look for index, (_, look) in enumerate(legend[:-1])}
    assert "expected" in explained, "the legend fits"
    drawn_looks = {look for _, look in page[1].pieces}
    assert {explained["killed"], explained["failed"], explained["ok"]} <= drawn_looks
    assert len({explained["killed"], explained["failed"], explained["ok"]}) == 3
    only_killed, _ = read(jobs[2:3])
    alone = lines(scene(only_killed, scheduler, ZERO + 600, 120, 37, cursor=None, lined=lined))
    assert explained["ok"] not in {look for _, look in alone[1].pieces}
    only_hung, _ = read(jobs[3:])
    alone = lines(scene(only_hung, scheduler, ZERO + 600, 120, 37, cursor=None, lined=lined))
    assert explained["failed"] in {look for _, look in alone[1].pieces}


def test_how_busy_a_slot_was_does_not_fall_after_the_end() -> None:
    timeline, scheduler = read([ended(1, 0, 60), ended(2, 100, 200), ended(3, 0, 200, device="1")])
    for later in (200, 300, 5000):
        text = drawn(timeline, scheduler, ZERO + later)
        assert [line.split()[-2:] for line in text.splitlines() if "%" in line][:2] == [["80%", "2"], ["100%", "1"]]


SPANS = [
    RecordedSpan(number=1, kind=SpanKind.EXTERNAL, since=ZERO + 700, until=ZERO + 1500, device="0", user="alice名前",
                 text="python", pid=4, memory=31 * GIB),
    RecordedSpan(number=2, kind=SpanKind.TROUBLE, since=ZERO + 2000, device="1", text="fell off the bus"),
    RecordedSpan(number=3, kind=SpanKind.PAUSE, since=ZERO + 1600, until=ZERO + 1700, text="paused by you"),
    RecordedSpan(number=4, kind=SpanKind.AWAY, since=ZERO + 2100, until=ZERO + 2400),
]  # fmt: skip


@pytest.mark.parametrize("lined", [False, True])
def test_every_line_is_exactly_as_wide_as_the_screen_at_every_size(lined: bool) -> None:
    jobs = [ended(n, n * 100, n * 100 + 90, n % 7 == 0, "01"[n % 2]) for n in range(1, 20)]
    timeline, scheduler = read(jobs)
    for columns in range(20, 230, 11):
        for rows in (3, 8, 21, 37, 57):
            page = lines(scene(timeline, scheduler, ZERO + 3000, columns, rows, spans=SPANS, lined=lined))
            assert len(page) == rows
            assert {width(line.text) for line in page} == {columns}, (columns, rows)


def test_gaps_say_who_used_the_gpu() -> None:
    timeline, scheduler = read([ended(1, 0, 690), ended(2, 1550, 1600)])
    text = drawn(timeline, scheduler, ZERO + 1600, spans=SPANS[:1])
    assert "13:30  alice名前: python, pid 4, 31.0 G" in text
    assert "alice名前 started using GPU 0" in text


@pytest.mark.parametrize("order", [1, -1])
def test_a_pause_does_not_hide_an_external_process(order: int) -> None:
    spans = [
        RecordedSpan(number=1, kind=SpanKind.EXTERNAL, since=ZERO + 300, until=ZERO + 600, device="0", user="alice"),
        RecordedSpan(number=2, kind=SpanKind.PAUSE, since=ZERO + 200, until=ZERO + 800),
    ]
    timeline, scheduler = read([ended(0, 0, 90), ended(1, 0, 90, device="1")])
    text = drawn(timeline, scheduler, ZERO + 1000, spans=spans[::order], lined=True)
    assert re.search(r"‖ alice/+‖", text), text
    assert re.search(r"‖{20,}", text), "the other card was only paused"


def test_without_colours_signs_alone_tell_bars_from_external_processes() -> None:
    spans = [RecordedSpan(number=1, kind=SpanKind.EXTERNAL, since=ZERO + 700, until=ZERO + 1500, device="0", user="al")]
    timeline, scheduler = read([ended(11, 0, 690), ended(12, 1550, 2000), ended(13, 2000, 2400, 1)])
    row = drawn(timeline, scheduler, ZERO + 2400, spans=spans, lined=True, cursor=None).splitlines()[1]
    assert all(sign in row for sign in ("├11──", " al//", "├12──", "✗")), row


def test_painting_twenty_thousand_attempts_costs_little_more_than_two_hundred() -> None:
    def cost(count: int) -> int:
        timeline, scheduler = read([ended(n, n * 10, n * 10 + 9, n % 50 == 0) for n in range(1, count)])
        long = scene(timeline, scheduler, ZERO + count * 10, 120, 37, cursor=None)
        for row in timeline.rows.values():
            row.idle()
        return operations(lambda: lines(long))

    assert cost(20_000) <= 2.5 * cost(200)


def test_the_forecast_is_right_of_now() -> None:
    scheduler = Scheduler()
    scheduler.handle(SetSlots((Slot(0, ("0",)),)), ZERO)
    scheduler.handle(AddJobs(tuple(spec(f"echo {n}") for n in range(40, 44))), ZERO)
    scheduler.place(ZERO)
    scheduler.handle(Spawned(job=0, attempt=1, pid=7), ZERO)
    scheduler.handle(AttemptEnded(job=0, attempt=1, outcome=Exited(0), at=ZERO + 600), ZERO + 600)
    scheduler.place(ZERO + 600)
    snapshot = scheduler.snapshot()
    timeline = Timeline()
    timeline.read(snapshot.jobs)
    timeline.settle(snapshot)
    now = ZERO + 900
    window = whole(ZERO, now, now + 900, columns_of(120))
    row = drawn(timeline, scheduler, now, window=window).splitlines()[1]
    bar = row[13:]
    assert bar.index(" 1") < window.column(now) < bar.index("━") < bar.index("┄2┄")
