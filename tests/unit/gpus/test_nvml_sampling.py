"""The sampler process with a fake NVML and NVIDIA's real bindings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

from gputui.gpus.sample import DeviceSample, Sample, Slowdown, Status
from gputui.gpus.sampler_process import ProcessSampler

GIB = 1024**3
HUNG = 60.0
"""Seconds that a call of the driver hangs: far longer than anything here takes on a busy machine."""

Start = Callable[..., ProcessSampler]
Sampled = Callable[..., Sample]
Gpus = list[dict[str, Any]]
Until = Callable[..., Sample]


def gpu(sample: Sample, index: int) -> DeviceSample:
    return next(device for device in sample.devices if device.index == index and device.mig is None)


def zoo(nvml: Any, eight: Gpus) -> None:
    """One lost, one denied, one hung, one MIG, one of unified memory, and three healthy."""
    eight[4]["mig_mode"] = 1
    eight[5]["mem_total"] = "na"
    nvml.set(
        eight,
        migs={(4, 0): {"mem_used": "2G"}, (4, 2): {"mem_used": "3G"}},
        errors={"*@1": "GPU_IS_LOST", "nvmlDeviceGetHandleByIndex_v2@2": "NO_PERMISSION"},
        delays={"nvmlDeviceGetUtilizationRates@3": HUNG},
    )


def test_one_broken_device_hides_no_other(nvml: Any, eight: Gpus, sampled: Sampled) -> None:
    zoo(nvml, eight)
    sample = sampled(nvml)
    statuses = [gpu(sample, index).status.value for index in range(8)]
    assert statuses == ["ok", "lost", "denied", "stale", "ok", "ok", "ok", "ok"]
    for index in (0, 6, 7):
        device = gpu(sample, index)
        assert (device.utilization, device.memory_used) == (10 * index, index * GIB)
        assert (device.temperature, device.power, device.power_limit) == (40 + index, 100.0 + index, 700.0)
        assert device.energy == 1000.0


def test_the_healthy_devices_stay_fresh_while_another_hangs(nvml: Any, eight: Gpus, start: Start, until: Until) -> None:
    zoo(nvml, eight)
    sampler = start(nvml, 1.0)
    until(sampler, lambda sample: sample.devices)
    for number in (11, 22, 33):
        eight[7]["util"] = number
        zoo(nvml, eight)
        seen = until(sampler, lambda sample, number=number: gpu(sample, 7).utilization == number)
        assert gpu(seen, 7).status is Status.OK
    assert gpu(seen, 3).status is Status.STALE
    assert gpu(seen, 3).age > 2
    assert gpu(seen, 3).message == f"no response for {gpu(seen, 3).age:.0f} s"


def test_a_device_that_answers_again_is_shown_as_well(nvml: Any, eight: Gpus, start: Start, until: Until) -> None:
    nvml.set(eight)
    sampler = start(nvml)
    until(sampler, lambda sample: sample.devices and gpu(sample, 3).status is Status.OK)
    nvml.set(eight, delays={"nvmlDeviceGetUtilizationRates@3": 3.0})
    hung = until(sampler, lambda sample: gpu(sample, 3).status is Status.STALE)
    assert gpu(hung, 3).utilization == 30, "the last values stay, with their age"
    nvml.set(eight)
    until(sampler, lambda sample: gpu(sample, 3).status is Status.OK)


def test_a_lost_device_keeps_its_name_and_comes_back(nvml: Any, eight: Gpus, start: Start, until: Until) -> None:
    nvml.set(eight)
    sampler = start(nvml)
    before = until(sampler, lambda sample: sample.devices)
    nvml.set(eight, errors={"*@6": "GPU_IS_LOST"})
    lost = until(sampler, lambda sample: gpu(sample, 6).status is Status.LOST)
    assert gpu(lost, 6).uuid == gpu(before, 6).uuid
    assert "dmesg" in gpu(lost, 6).message
    nvml.set(eight)
    until(sampler, lambda sample: gpu(sample, 6).status is Status.OK)


def test_what_the_driver_cannot_say_is_not_zero(nvml: Any, sampled: Sampled) -> None:
    nvml.set(
        [{"util": "na", "temp": 33, "power": "!UNKNOWN", "energy": "na", "fan": "na", "mem_used": "!NO_PERMISSION"}]
    )
    sample = sampled(nvml)
    device = sample.devices[0]
    assert device.status is Status.OK
    assert (device.utilization, device.temperature, device.power, device.fan) == (None, 33, None, None)
    assert device.energy is None
    assert (device.memory_used, device.memory_total) == (None, None)


def test_a_device_of_which_nothing_can_be_read_says_so(nvml: Any, sampled: Sampled) -> None:
    broken = {"util": "!UNKNOWN", "temp": "!UNKNOWN", "power": "!UNKNOWN", "mem_used": "!UNKNOWN"}
    nvml.set([broken, {}])
    sample = sampled(nvml)
    assert [device.status for device in sample.devices] == [Status.ERROR, Status.OK]


def test_memory_leaves_out_what_the_driver_reserves(nvml: Any, sampled: Sampled) -> None:
    nvml.set([{"mem_used": "1G", "mem_reserved": "600M"}])
    sample = sampled(nvml)
    assert sample.devices[0].memory_used == GIB


@pytest.mark.parametrize("total", ["na", "0"])
def test_unified_memory_is_the_machines(nvml: Any, sampled: Sampled, total: str) -> None:
    nvml.set([{"mem_total": total}])
    sample = sampled(nvml)
    device = sample.devices[0]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert device.memory_shared
    assert device.memory_total is not None
    assert abs(device.memory_total - pages) < 0.1 * pages


def test_mig_instances_are_devices_with_their_parent(nvml: Any, eight: Gpus, sampled: Sampled) -> None:
    zoo(nvml, eight)
    sample = sampled(nvml)
    parent = gpu(sample, 4)
    instances = [device for device in sample.devices if device.parent == parent.uuid]
    assert parent.mig_enabled
    assert not parent.schedulable
    assert [device.memory_used for device in instances] == [2 * GIB, 3 * GIB]
    assert all(device.uuid.startswith("MIG-") and device.schedulable for device in instances)
    assert [device.mig and device.mig.gpu_instance for device in instances] == [1, 3]
    assert all(device.utilization is None for device in instances)


def test_processes_come_with_user_command_and_start(nvml: Any, sampled: Sampled) -> None:
    mine, gone = os.getpid(), 4_194_303
    nvml.set([{"procs": [f"{mine} 3G C 40", f"{mine} 1G G", f"{gone} 2G C", "0 1G C", "4294967295 9G C"]}])
    sample = sampled(nvml)
    if sample.foreign_pids:
        pytest.skip("this pid namespace is not the machine's: the sampler looks no process up")
    me, nobody = sample.devices[0].processes
    assert (me.pid, me.memory, me.compute, me.utilization, me.alive) == (mine, 3 * GIB, True, 40, True)
    assert me.command is not None
    assert me.command.split()[0] == Path("/proc/self/cmdline").read_bytes().split(b"\0")[0].decode()
    assert me.started is not None
    assert 0 < time.time() - me.started < 3600
    assert (me.host_memory or 0) > 1 << 20
    assert (nobody.pid, nobody.alive, nobody.memory) == (gone, False, 2 * GIB)


def test_garbage_percentages_of_processes_are_dropped(nvml: Any, sampled: Sampled) -> None:
    nvml.set([{"procs": ["7001 1G C 7000", "7002 1G C 4294967295", "7003 na C 12"]}])
    sample = sampled(nvml)
    assert [process.utilization for process in sample.devices[0].processes] == [0, 0, 12]
    assert sample.devices[0].processes[2].memory is None


def test_cuda_visible_devices_restricts_what_jobs_may_get(nvml: Any, eight: Gpus, sampled: Sampled) -> None:
    nvml.set(eight)
    sample = sampled(nvml, CUDA_VISIBLE_DEVICES="2,5")
    assert [device.index for device in sample.devices if device.schedulable] == [2, 5]


def test_the_driver_is_opened_once_and_never_asked_what_blocks(
    nvml: Any, eight: Gpus, start: Start, until: Until
) -> None:
    nvml.set(eight)
    sampler = start(nvml)
    taken = {until(sampler, lambda sample: sample.devices).taken}
    while len(taken) < 5:
        taken.add(until(sampler, lambda sample: sample.taken not in taken).taken)
    calls = nvml.calls()
    functions = [function for _, function, _ in calls]
    assert sum(function.startswith("nvmlInit") for function in functions) == 1
    assert not {"nvmlDeviceGetPcieThroughput", "nvmlShutdown"} & set(functions)
    assert sampler.pid not in {thread for thread, _, _ in calls}, "the main thread must always be able to answer"
    by_device: dict[int, set[int]] = {}
    for thread, function, device in calls:
        if function == "nvmlDeviceGetUtilizationRates":
            by_device.setdefault(device, set()).add(thread)
    assert len(set.union(*by_device.values())) == 8
    assert all(len(threads) == 1 for threads in by_device.values())
    assert functions.count("nvmlDeviceGetEnforcedPowerLimit") == 8, "what seldom changes is seldom read"


def test_clocks_slowdowns_and_error_counters_are_read_or_none(nvml: Any, eight: Gpus, sampled: Sampled) -> None:
    eight[0] |= {
        "clk_sm": 1410,
        "max_sm": 1980,
        "throttle": 0x24,
        "ecc_errors": 5,
        "ecc_uncorrected": 1,
        "pcie_replays": 9,
    }
    eight[1] |= {"clk_sm": "na", "throttle": "na", "ecc_mode": 0, "pcie_replays": "na"}
    nvml.set(eight)
    sample = sampled(nvml)
    told, mute = gpu(sample, 0), gpu(sample, 1)
    assert (told.clock, told.clock_limit) == (1410, 1980)
    assert told.slowed_by == (Slowdown.HEAT, Slowdown.POWER_CAP)
    assert (told.ecc_corrected, told.ecc_uncorrected, told.pcie_replays) == (5, 1, 9)
    assert (mute.clock, mute.slowed_by, mute.ecc_corrected, mute.pcie_replays) == (None, (), None, None)
    assert mute.status is Status.OK
