"""What a read-only TUI is sent: everything once, in bounded parts, and then only what changed."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.sessions import Home
from support.waiting import until

from gputui.core.events import AddJobs, Hold
from gputui.core.job import JobSpec
from gputui.core.results import JobResults, MetricResult, PackedResults
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.gpus.history import DeviceHistories, HistoryRecorder, merge_newest, newest_part
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import DeviceSample, Sample
from gputui.session.control import watch as watch_parts
from gputui.session.control.connection import Connection, NoOwner, RequestRefused
from gputui.session.control.watch import DirectoriesShown, JoinedPicture, Shown, WatchConnection, parts, unpacked
from gputui.session.messages import Layout, WatchRequest

MANY = 3000
START = 1_800_000_000
DIRECTORIES = DirectoriesShown("session", Layout())


def seen(snapshot: Snapshot, history: DeviceHistories | None = None) -> Shown:
    picture = DevicesPicture(kind=DeviceKind.GPU, sample=None, history=history or DeviceHistories())
    return Shown(snapshot, picture, DIRECTORIES)


def printed(value: float) -> JobResults:
    return JobResults(1, (MetricResult("loss", value, value, None, 1),))


def same(joined: JoinedPicture, snapshot: Snapshot) -> bool:
    assert joined.snapshot is not None
    found = replace(joined.snapshot, jobs=snapshot.jobs, changed=snapshot.changed, results=snapshot.results)
    assert isinstance(joined.snapshot.results, PackedResults)
    assert isinstance(snapshot.results, PackedResults)
    packed = [(job, snapshot.results.packed(job)) for job in snapshot.results]
    assert [(job, joined.snapshot.results.packed(job)) for job in joined.snapshot.results] == packed
    return found == snapshot and list(joined.snapshot.jobs) == list(snapshot.jobs)


@pytest.fixture
def scheduler() -> Scheduler:
    made = Scheduler()
    add(made, MANY)
    return made


def add(scheduler: Scheduler, jobs: int) -> None:
    specs = (JobSpec(command=f"train --seed {number}", cwd="/", environment="") for number in range(jobs))
    scheduler.handle(AddJobs(tuple(specs)), 1.0)


def test_a_picture_comes_in_bounded_parts_and_then_only_what_changed(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_parts, "LARGEST_PART", 20_000)
    results = PackedResults().with_results({number: printed(math.nan) for number in range(0, MANY, 2)})
    first = seen(replace(scheduler.snapshot(), results=results))
    joined = JoinedPicture()
    bodies = list(parts(first, None))
    assert len(bodies) > 10
    assert max(map(len, bodies)) < 40_000
    assert [joined.join(unpacked(body)) for body in bodies] == [False] * (len(bodies) - 1) + [True]
    assert same(joined, first.snapshot)

    scheduler.handle(Hold(job=7), 2.0)
    add(scheduler, 2)
    changed = results.with_results({9: printed(0.5), 4: None})
    second = seen(replace(scheduler.snapshot(), results=changed, trouble="the disk is full"))
    [body] = parts(second, first)
    assert len(body) < 4_000
    assert joined.join(unpacked(body))
    assert same(joined, second.snapshot)
    assert joined.snapshot is not None
    assert joined.snapshot.changed == {7, 9, 4, MANY, MANY + 1}
    assert list(parts(second, second)) == []


def test_only_the_new_part_of_a_history_is_sent() -> None:
    recorder, before = HistoryRecorder(), DeviceHistories()
    for second in range(4000):
        device = DeviceSample(index=0, uuid="GPU-0", name="A", utilization=second % 100, memory_total=1, memory_used=1)
        recorder.observe(Sample(kind=DeviceKind.GPU, taken=START + second, devices=(device,)), {})
        if second % 97:
            continue
        now = recorder.frozen()
        newest = newest_part(now, before)
        assert (newest is None) is (second == 0)
        if newest is not None:
            assert merge_newest(before, newest) == now
            assert max(len(track.figures[0]) for track in newest.tracks["GPU-0"]) <= 98
        before = now
    assert newest_part(recorder.frozen(), DeviceHistories()) is None


def test_watching_needs_the_same_version_and_keeps_no_idle_daemon(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.begin("true")
    private = str(home.root / ".gputui")
    try:
        home.add("exec sleep 600")  # paused: the daemon that takes it has nothing to do
        watching = WatchConnection(private)
        assert watching.catch_up()
        assert watching.joined.snapshot is not None
        assert [job.spec.command for job in watching.joined.snapshot] == ["true", "exec sleep 600"]
        refused = pytest.raises(RequestRefused, match="read-only needs the same version")
        with closing(Connection(private)) as other, refused:
            other.ask(WatchRequest("another", 0, "0.0.1"))
        until(lambda: _has_left(watching), "the daemon exits while it is watched")
        watching.close()
    finally:
        home.end()


def _has_left(watching: WatchConnection) -> bool:
    try:
        watching.catch_up()
    except NoOwner:
        return True
    return False
