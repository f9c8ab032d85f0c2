"""What a full sample of 8 GPUs with 16 processes costs, beside plain calls of the bindings and the peers at hand.

`python tests/benchmarks/gpu_sampling.py`: rounds of all rivals in turn, so that the ratios hold on a busy machine.
Ratios are to the plain calls. The driver is the stand-in of tests/gpus; a real one adds the same time to every row.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "gpus" / "fake_nvml" / "fake_nvml.c"
ROUNDS = 30
LIVE_SECONDS = 5.0


def main() -> None:
    if "FAKE_NVML_STATE" not in os.environ:
        restart_with_the_stand_in()
    if "peers" in sys.argv:
        print(json.dumps(measured(peers())))
        return
    rivals = {"plain calls of pynvml": plain_calls(), "the same + psutil facts": plain_calls_with_psutil()}
    rivals |= {"gputui: readers of all devices": our_readers()}
    results = measured(rivals) | peers_measured()
    base = next(iter(results.values()))[0]
    print(f"{'full sample, 8 GPUs, 16 processes':38}{'wall µs':>10}{'CPU µs':>10}{'ratio':>8}")
    for name, (wall, cpu) in results.items():
        print(f"{name:38}{wall * 1e6:>10.0f}{cpu * 1e6:>10.0f}{wall / base:>8.2f}")
    print(f"\n{'one sample from nothing':38}{'wall ms':>10}")
    print(f"{'gputui: process and all':38}{1000 * one_shot():>10.0f}")
    for name, command in one_shot_peers().items():
        print(f"{name:38}{1000 * timed(partial(run, command)):>10.0f}")
    print(f"\ngputui: sampler at 1 Hz: {live_cost():.2f} % of one core over {LIVE_SECONDS:.0f} s")


def restart_with_the_stand_in() -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/libnvidia-ml.so.1"
        run(["cc", "-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-o", library, str(SOURCE)])
        sleepers = [subprocess.Popen(["sleep", "600"]) for _ in range(16)]
        pids = [sleeper.pid for sleeper in sleepers]
        Path(f"{folder}/state").write_text(machine(pids))
        settings = {"LD_LIBRARY_PATH": folder, "FAKE_NVML_STATE": f"{folder}/state", "FAKE_NVML_RECHECK_MS": "1000"}
        try:
            subprocess.run([sys.executable, __file__], env={**os.environ, **settings}, check=True)
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()
    sys.exit()


def machine(pids: list[int]) -> str:
    lines = []
    for index in range(8):
        lines += [f"[gpu{index}]", f"util = {12 * index}", f"mem_used = {10 + index}G", "fan = 40", "num_fans = 1"]
        lines += [f"proc = {pid} 5G C 20 10" for pid in pids[2 * index : 2 * index + 2]]
    return "\n".join(lines) + "\n"


def plain_calls() -> Callable[[], Any]:
    n: Any = importlib.import_module("pynvml")
    n.nvmlInit()
    handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]

    def sample() -> list[Any]:
        since = int(time.time() * 1e6) - 1_000_000
        return [
            (
                n.nvmlDeviceGetUtilizationRates(handle),
                n.nvmlDeviceGetMemoryInfo(handle, n.nvmlMemory_v2),
                n.nvmlDeviceGetTemperatureV(handle, 0),
                n.nvmlDeviceGetPowerUsage(handle),
                n.nvmlDeviceGetEnforcedPowerLimit(handle),
                n.nvmlDeviceGetFanSpeed(handle),
                n.nvmlDeviceGetComputeRunningProcesses(handle),
                n.nvmlDeviceGetGraphicsRunningProcesses(handle),
                n.nvmlDeviceGetProcessUtilization(handle, since),
            )
            for handle in handles
        ]

    return sample


def plain_calls_with_psutil() -> Callable[[], Any]:
    psutil: Any = importlib.import_module("psutil")
    sample = plain_calls()

    def with_facts() -> list[Any]:
        processes = [psutil.Process(process.pid) for device in sample() for process in device[6]]
        return [(p.username(), p.cmdline(), p.create_time()) for p in processes]

    return with_facts


def our_readers() -> Callable[[], Any]:
    from gputui.gpus.nvml.driver import Driver
    from gputui.gpus.nvml.reader import DeviceReader
    from gputui.gpus.process_facts import ProcessTable

    driver, table = Driver(), ProcessTable()
    readers = [DeviceReader(driver, index, table) for index in range(driver.count())]
    return lambda: [reader.read() for reader in readers]


def peers() -> dict[str, Callable[[], Any]]:
    """Those that are installed."""
    found: dict[str, Callable[[], Any]] = {}
    for name, make in (("nvitop", _nvitop), ("gpustat", _gpustat)):
        try:
            found |= make(importlib.import_module(name))
        except ImportError:
            print(f"{name} is not installed: no row for it")
    return found


def _nvitop(nvitop: Any) -> dict[str, Callable[[], Any]]:
    devices = nvitop.Device.all()
    return {"nvitop: take_snapshots": lambda: nvitop.take_snapshots(devices)}


def _gpustat(gpustat: Any) -> dict[str, Callable[[], Any]]:
    return {"gpustat: new_query": gpustat.new_query}


def one_shot_peers() -> dict[str, list[str]]:
    binaries = Path(sys.executable).parent
    commands = {"nvitop -1": ["nvitop", "-1"], "gpustat --json": ["gpustat", "--json"]}
    return {
        name: [str(binaries / command[0]), *command[1:]]
        for name, command in commands.items()
        if (binaries / command[0]).exists()
    }


def peers_measured() -> dict[str, tuple[float, float]]:
    """In a process of their own: gpustat changes the bindings for everybody in its process."""
    output = subprocess.run([sys.executable, __file__, "peers"], check=True, capture_output=True, text=True).stdout
    *notes, result = output.splitlines()
    for note in notes:
        print(note)
    return {name: (wall, cpu) for name, (wall, cpu) in json.loads(result).items()}


def measured(rivals: dict[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Medians of wall and CPU seconds."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in rivals}
    for number in range(ROUNDS + 2):
        for name, sample in rivals.items():
            if number >= 5 and times[name] and times[name][-1][0] > 0.2:
                continue  # a rival that sleeps has shown what it takes
            wall, cpu = time.perf_counter(), time.process_time()
            sample()
            if number >= 2:
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: (statistics.median(wall for wall, _ in pairs), statistics.median(cpu for _, cpu in pairs))
        for name, pairs in times.items()
    }


def one_shot() -> float:
    program = (
        "from gputui.gpus.sampler_process import ProcessSampler; from gputui.gpus.sampler_process import sample_once\n"
        "sampler = ProcessSampler(); assert len(sample_once(sampler).devices) == 8; sampler.close()"
    )
    return timed(lambda: run([sys.executable, "-c", program]))


def live_cost() -> float:
    """CPU of the sampler process and its owner's reading, in percent."""
    from gputui.gpus.sampler_process import ProcessSampler, sample_once

    sampler = ProcessSampler(1.0)
    sample_once(sampler)
    before, own = _cpu_seconds(sampler.pid), time.process_time()
    ends = time.monotonic() + LIVE_SECONDS
    while (left := ends - time.monotonic()) > 0:
        sample_once(sampler, left)
    used = _cpu_seconds(sampler.pid) - before + time.process_time() - own
    sampler.close()
    return 100 * used / LIVE_SECONDS


def _cpu_seconds(pid: int | None) -> float:
    """From schedstat, since the ticks of `stat` are too coarse for so little."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9


def timed(work: Callable[[], Any], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
