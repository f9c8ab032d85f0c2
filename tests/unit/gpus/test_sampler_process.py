"""The owner's side of the sampler process: crashes, hangs, leaving."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE
from support.waiting import until as wait_for

import gputui.gpus.sampler_process as process_module
from gputui.gpus.sample import Sample, Status
from gputui.gpus.sampler_process import ProcessSampler, SamplerWatch, sample_once
from gputui.session.event_loop import Loop

Start = Callable[..., ProcessSampler]
Until = Callable[..., Sample]

HUNG = 600.0
"""Seconds that a call of the driver hangs: far longer than anything here takes on a busy machine."""

OWNER = """
import sys, time
from gputui.gpus.sampler_process import ProcessSampler
sampler = ProcessSampler(0.1)
while True:
    sample = sampler.read()
    if sample is not None and sample.devices:
        print(sampler.pid, flush=True)
    time.sleep(0.05)
"""


def hung_driver(nvml: Any) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    nvml.set([{"util": 1}, {"util": 2}], delays={"nvmlDeviceGetUtilizationRates@0": HUNG})


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("interval", ["0.1", "60.0"])
def test_the_sampler_dies_with_its_owner_although_a_call_hangs(nvml: Any, interval: str) -> None:
    """Also between two samples, when it has nothing to write and must hear that its owner is gone."""
    hung_driver(nvml)
    command = [sys.executable, "-c", OWNER.replace("0.1", interval)]
    with subprocess.Popen(command, env=nvml.environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        sampler = int(owner.stdout.readline())
        assert not is_gone(sampler)
        owner.kill()
        owner.wait()
        wait_for(lambda: is_gone(sampler), "the sampler is gone", PATIENCE)


def test_leaving_does_not_wait_for_a_call_that_hangs(nvml: Any) -> None:
    hung_driver(nvml)
    program = OWNER.replace("print(sampler.pid, flush=True)", "break")
    command = [sys.executable, "-c", f"{program}\nsampler.close()"]
    subprocess.run(command, env=nvml.environment, timeout=PATIENCE, check=True)


def test_closing_leaves_no_process_and_no_descriptor(nvml: Any) -> None:
    hung_driver(nvml)
    before = set(os.listdir("/proc/self/fd"))
    sampler = ProcessSampler(0.1, environment=nvml.environment)
    pid = sampler.pid
    assert sample_once(sampler) is not None
    sampler.close()
    assert pid is not None
    assert is_gone(pid)
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_killed_sampler_is_replaced_behind_the_same_descriptor(nvml: Any, start: Start, until: Until) -> None:
    hung_driver(nvml)
    sampler = start(nvml)
    until(sampler, lambda sample: sample.devices)
    fd, first = sampler.fileno(), sampler.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: sampler.read() is None and sampler.pid not in (first, None), "it is replaced")
    nvml.set([{"util": 7}, {"util": 8}])
    sample = until(sampler, lambda sample: sample.devices and sample.devices[1].utilization == 8)
    assert sampler.fileno() == fd
    assert sample.devices[1].status is Status.OK


def test_a_silent_sampler_is_abandoned_and_its_picture_grows_old(
    nvml: Any, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung_driver(nvml)
    monkeypatch.setattr(process_module, "_SILENCE", 2.5)
    sampler = start(nvml)
    until(sampler, lambda sample: sample.devices)
    first = sampler.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    old = until(sampler, lambda sample: sample.devices[1].status is Status.STALE)
    assert old.devices[1].age > 1
    wait_for(lambda: sampler.read() is None and sampler.pid != first, "it is abandoned")
    wait_for(lambda: is_gone(first), "it is gone")
    until(sampler, lambda sample: sample.devices[1].status is Status.OK)


def test_a_sampler_that_cannot_run_is_tried_ever_less_often(until: Until) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    sampler = ProcessSampler(0.1, command=command)
    sample = until(sampler, lambda sample: sample.trouble)
    assert sample.trouble is not None
    assert "no such thing" in sample.trouble.message
    assert sampler.patience() <= 0.5
    before = time.monotonic()

    def failed_again() -> bool:
        nonlocal before
        before = time.monotonic()
        sampler.read()
        return sampler._failures >= 2

    wait_for(failed_again, "it failed again")
    assert sampler._retry_at - before > 0.5
    sampler.close()


def test_nonsense_on_the_pipe_is_not_believed(until: Until) -> None:
    nonsense = "import os, time; os.write(3, b'\\xff' * 64); time.sleep(30)"
    sampler = ProcessSampler(0.1, command=[sys.executable, "-c", nonsense])
    sample = until(sampler, lambda sample: sample.trouble)
    assert sample.trouble is not None
    assert "invalid data" in sample.trouble.message
    sampler.close()


def test_a_program_that_is_not_there_is_a_sentence_not_a_traceback() -> None:
    sampler = ProcessSampler(0.1, command=["/no/such/python"])
    sample = sample_once(sampler, 3.0)
    assert sample is not None
    assert sample.trouble is not None
    assert sample.trouble.message == "cannot start the GPU sampler: No such file or directory"
    sampler.close()


def test_an_owner_that_does_not_read_for_long_finds_a_fresh_sample(nvml: Any, start: Start, until: Until) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    nvml.set([{"procs": [f"{100_000 + number} 1M C" for number in range(400)]}])
    sampler = start(nvml)
    until(sampler, lambda sample: sample.devices)
    asked = "nvmlDeviceGetUtilizationRates"
    wait_for(lambda: sum(function == asked for _, function, _ in nvml.calls()) > 15, "many samples were taken")
    now = time.time()
    until(sampler, lambda sample: sample.taken > now)


def test_an_owners_loop_gets_every_sample(nvml: Any) -> None:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    nvml.set([{"util": 4}])
    loop, seen = Loop(), list[Sample]()

    def deliver(sample: Sample) -> None:
        if sample.devices:
            seen.append(sample)
        if len(seen) == 3:
            loop.stop()

    watch = SamplerWatch(loop, ProcessSampler(0.1, environment=nvml.environment), deliver)
    guard = loop.call_later(60, loop.stop)
    loop.run()
    guard.cancel()
    watch.close()
    loop.close()
    assert [sample.devices[0].utilization for sample in seen] == [4, 4, 4]


def test_the_owner_never_loads_the_driver() -> None:
    modules = ["sample", "sampler_process", "external_processes", "leases", "usage", "history", "machine", "simulated"]
    imports = "\n".join(f"import gputui.gpus.{name}" for name in modules)
    check = "import sys; print(sorted({'pynvml', 'psutil', 'asyncio', 'textual', 'ctypes'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", f"{imports}\n{check}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
