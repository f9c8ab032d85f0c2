"""The usage of attempts, added up from samples."""

from __future__ import annotations

from typing import Any

import pytest

from gputui.core.slots import DeviceKind
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Status
from gputui.gpus.usage import GPU_LOAD, MOST_BUCKETS, RAM, DeviceHolding, MeasuredUsage, UsageMeter, UsageSeries

GIB = 1024**3


def device(key: str, utilization: int | None, *processes: ProcessSample, **changes: Any) -> DeviceSample:
    return DeviceSample(index=0, uuid=key, name="A100", utilization=utilization, processes=processes, **changes)


def process(pid: int, gib: float, utilization: int | None = None) -> ProcessSample:
    return ProcessSample(pid=pid, compute=True, memory=int(gib * GIB), utilization=utilization)


def seen(*devices: DeviceSample) -> Sample:
    return Sample(kind=DeviceKind.GPU, taken=0.0, devices=devices)


ALONE = [DeviceHolding(1, 1, ("a",))]


def test_the_mean_is_weighted_by_time_and_the_peaks_are_kept() -> None:
    meter = UsageMeter()
    for now, percent, gib in ((0, 0, 1), (1, 100, 2), (4, 20, 6), (5, 20, 3)):
        meter.observe(seen(device("a", percent, process(7, gib))), ALONE, {7: 1}, now)
    usage = meter.end(1, 1)
    assert usage.mean_utilization == pytest.approx((100 + 3 * 20 + 20) / 5)
    assert (usage.peak_memory, usage.gpu_seconds) == (6 * GIB, 5.0)
    assert meter.usage(1, 1) == MeasuredUsage(), "forgotten at its end"


def test_two_devices_are_two_gpu_seconds_a_second() -> None:
    meter, both = UsageMeter(), [DeviceHolding(1, 1, ("a", "b"))]
    for now in (0, 1):
        sample = seen(device("a", 100, process(7, 2)), device("b", 0, process(8, 3)))
        meter.observe(sample, both, {7: 1, 8: 1}, now)
    usage = meter.usage(1, 1)
    assert (usage.gpu_seconds, usage.mean_utilization, usage.peak_memory) == (2.0, 50.0, 5 * GIB)


def test_what_the_driver_cannot_say_is_not_counted_as_zero() -> None:
    meter = UsageMeter()
    for now, percent in ((0, None), (1, 80), (2, None)):
        meter.observe(seen(device("a", percent)), ALONE, {}, now)
    assert meter.usage(1, 1).mean_utilization == 80
    meter = UsageMeter()
    meter.observe(seen(device("a", None)), ALONE, {}, 0)
    assert meter.usage(1, 1).mean_utilization is None
    assert meter.usage(1, 1).peak_memory is None


def test_a_stale_device_adds_nothing_but_its_time() -> None:
    meter = UsageMeter()
    meter.observe(seen(device("a", 50)), ALONE, {}, 0)
    meter.observe(seen(device("a", 50, status=Status.STALE)), ALONE, {}, 1)
    usage = meter.usage(1, 1)
    assert (usage.measured_seconds, usage.gpu_seconds) == (0.0, 1.0)


def test_jobs_that_share_a_device_are_measured_by_their_processes() -> None:
    meter, both = UsageMeter(), [DeviceHolding(1, 1, ("a",)), DeviceHolding(2, 1, ("a",))]
    for now in (0, 1):
        meter.observe(seen(device("a", 90, process(7, 1, 60), process(8, 2, 30))), both, {7: 1, 8: 2}, now)
    assert (meter.usage(1, 1).mean_utilization, meter.usage(2, 1).mean_utilization) == (60, 30)
    assert (meter.usage(1, 1).peak_memory, meter.usage(2, 1).peak_memory) == (GIB, 2 * GIB)


def test_where_processes_are_not_listed_a_device_of_its_own_counts_whole() -> None:
    meter = UsageMeter()
    meter.observe(seen(device("a", 5, memory_used=9 * GIB)), ALONE, {}, 0)
    assert meter.usage(1, 1).peak_memory == 9 * GIB


def test_an_attempt_that_began_between_two_samples_gets_only_its_part() -> None:
    meter = UsageMeter()
    meter.observe(seen(device("a", 0)), [], {}, 10.0)
    meter.observe(seen(device("a", 50)), [DeviceHolding(1, 1, ("a",), since=10.75)], {}, 11.0)
    assert meter.usage(1, 1).gpu_seconds == 0.25


def test_a_sampler_that_was_away_saw_nothing() -> None:
    meter = UsageMeter()
    for now in (0, 3600):
        meter.observe(seen(device("a", 100)), ALONE, {}, now)
    assert meter.usage(1, 1).measured_seconds == 10.0


def test_idling_while_holding_memory_is_noticed_and_work_ends_it() -> None:
    meter = UsageMeter()
    for now in range(0, 700, 10):
        meter.observe(seen(device("a", 0, process(7, 2))), ALONE, {7: 1}, now)
    assert meter.usage(1, 1).idle_for(700) == 700
    meter.observe(seen(device("a", None, process(7, 2))), ALONE, {7: 1}, 710)
    assert meter.usage(1, 1).idle_for(710) == 710, "not knowing is not working"
    meter.observe(seen(device("a", 97, process(7, 2))), ALONE, {7: 1}, 720)
    assert meter.usage(1, 1).idle_for(720) == 0


def test_a_job_that_has_not_allocated_yet_is_not_idle() -> None:
    meter = UsageMeter()
    meter.observe(seen(device("a", 0, process(7, 0.1))), ALONE, {7: 1}, 0)
    assert meter.usage(1, 1).idle_since is None


def test_the_next_owner_continues_the_usage_of_an_attempt() -> None:
    before = UsageMeter()
    for now in (0, 1):
        before.observe(seen(device("a", 40)), ALONE, {}, now)
    after = UsageMeter({(1, 1): before.usage(1, 1)})
    for now in (5, 6):
        after.observe(seen(device("a", 80)), ALONE, {}, now)
    assert after.usage(1, 1).mean_utilization == pytest.approx(60)


def test_the_series_of_an_attempt_are_bounded_and_cover_all_of_it() -> None:
    series = UsageSeries(since=1000.0)
    for second in range(10_000):
        series.add(1000.0 + second, (second % 2 * 100.0, None, None, None, second / 1000))
    assert all(MOST_BUCKETS // 2 <= len(values) <= MOST_BUCKETS for values in series.series)
    load, memory = series.curves()
    assert (load.name, memory.name) == (GPU_LOAD, RAM), "what was never measured has no curve"
    assert {point.value for point in load.points[:-1]} == {50.0}
    assert [point.value for point in memory.points] == sorted(point.value for point in memory.points)
    assert load.points[0].at < 1000 + series.seconds
    assert load.points[-1].at > 1000 + 10_000 - series.seconds


def test_a_time_without_samples_is_a_gap_in_the_series() -> None:
    series = UsageSeries(since=0.0)
    for at in (0.0, 1.0, 100.0):
        series.add(at, (10.0, None, None, None, None))
    (load,) = series.curves()
    assert [point.at for point in load.points] == [1.0, 101.0]
    series.add(-5.0, (90.0, None, None, None, None))
    assert series.curves() == (load,), "the clock was set back"


def test_energy_is_the_growth_of_the_counter() -> None:
    meter = UsageMeter()
    for now, joules in ((0, 5000.0), (1, 5300.0), (61, 23_300.0)):
        meter.observe(seen(device("a", 90, energy=joules, power=1.0)), ALONE, {}, now)
    usage = meter.usage(1, 1)
    assert (usage.energy, usage.energy_seconds, usage.is_energy_estimated) == (18_300.0, 61.0, False)


def test_without_a_counter_energy_is_integrated_from_the_power() -> None:
    meter = UsageMeter()
    for now, watts in ((0, 100.0), (1, 200.0), (3, 300.0), (100, 400.0)):
        meter.observe(seen(device("a", 90, power=watts)), ALONE, {}, now)
    usage = meter.usage(1, 1)
    assert (usage.energy, usage.energy_seconds) == (200 + 2 * 300 + 10 * 400, 13.0), "a gap counts for ten seconds"
    assert usage.is_energy_estimated


def test_attempts_on_one_device_share_its_energy_from_their_start_on() -> None:
    meter = UsageMeter()
    meter.observe(seen(device("a", 90, energy=0.0)), ALONE, {}, 0)
    late = [*ALONE, DeviceHolding(2, 1, ("a",), since=5.0)]
    meter.observe(seen(device("a", 90, energy=1000.0)), late, {}, 10)
    assert (meter.usage(1, 1).energy, meter.usage(2, 1).energy) == (500.0, 250.0)


def test_a_device_that_reports_no_power_has_no_energy() -> None:
    meter = UsageMeter()
    for now in (0, 1):
        meter.observe(seen(device("a", 90)), ALONE, {}, now)
    assert meter.usage(1, 1).energy_seconds == 0.0
