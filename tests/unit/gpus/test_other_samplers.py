"""Samples of CPU slots and simulated devices, facts of processes, and the encoding of samples."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from support.waiting import PATIENCE, until

from gputui.core.slots import DeviceKind
from gputui.gpus import machine, simulated
from gputui.gpus.machine import CpuSampler
from gputui.gpus.nvml.processes import ProcessTable, UserNames
from gputui.gpus.sample import DeviceSample, GarbledStream, LineReader, Sample, Status, aged, encode
from gputui.gpus.sampler_process import sample_once
from gputui.gpus.simulated import SimulatedSampler


def test_a_busy_slot_shows_its_jobs_work_and_an_idle_one_none() -> None:
    burn = "import os\nif os.fork():\n    os.wait()\nelse:\n    print(flush=True)\n    while True: pass"
    with subprocess.Popen([sys.executable, "-c", burn], stdout=subprocess.PIPE, start_new_session=True) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            sampler = CpuSampler(2, 0.1, roots=lambda: {1: job.pid})
            samples: list[Sample] = []

            def works() -> bool:
                samples.extend(filter(None, [sample_once(sampler)]))
                return bool(samples and samples[-1].devices[1].utilization)

            until(works, "the slot's work is seen")
            sample = samples[-1]
            assert sample.devices[0].utilization == 0
            assert (sample.devices[1].memory_used or 0) > 1_000_000
            assert sample.devices[1].uuid == machine.device_key(1)
        finally:
            os.killpg(job.pid, 9)


def test_the_machines_figures_are_those_of_psutil() -> None:
    psutil = pytest.importorskip("psutil", reason="psutil is not installed: nothing to compare with")
    (used, total), theirs = machine.memory(), psutil.virtual_memory()
    assert total == theirs.total
    assert used is not None
    assert abs(used - (theirs.total - theirs.available)) < 0.05 * theirs.total
    facts, process = ProcessTable().facts(os.getpid()), psutil.Process()
    assert facts.user == process.username()
    assert facts.command == " ".join(process.cmdline())
    assert facts.started == pytest.approx(process.create_time(), abs=2)


def test_cpu_samples_have_the_machine_beside_the_slots() -> None:
    sample = sample_once(CpuSampler(3))
    assert sample is not None
    assert (sample.kind, len(sample.devices)) == (DeviceKind.CPU, 3)
    assert sample.host is not None
    assert sample.host.cores == len(os.sched_getaffinity(0))


def test_simulated_figures_depend_on_seed_and_jobs_alone() -> None:
    def run(seed: int) -> list[tuple[DeviceSample, ...]]:
        sampler = SimulatedSampler(2, seed=seed, busy=lambda: {simulated.device_key(1)})
        return [sampler.take(step).devices for step in range(20)]

    assert run(1) == run(1) != run(2)
    last = run(1)[-1]
    assert (last[0].utilization, last[0].memory_used) == (0, 0)
    assert (last[1].utilization or 0) > 20
    assert 0 < (last[1].memory_used or 0) <= (last[1].memory_total or 0)


def test_the_token_of_a_process_is_found_while_it_lives() -> None:
    table = ProcessTable()
    environment = {**os.environ, "GPUTUI_RUN": "token-7"}
    with subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True) as child:
        until(lambda: ProcessTable().facts(child.pid).command == "sleep 60", "it has become its program")
        facts = ProcessTable().facts(child.pid)
        assert (facts.alive, facts.run, facts.session, facts.command) == (True, "token-7", child.pid, "sleep 60")
        child.kill()
        until(lambda: not table.facts(child.pid).alive, "a zombie counts as dead")
    assert not table.facts(child.pid).alive


def test_a_pid_of_another_namespace_has_no_facts() -> None:
    facts = ProcessTable(foreign=True).facts(os.getpid())
    assert (facts.alive, facts.user, facts.command) == (False, None, None)


def test_a_directory_server_that_hangs_delays_a_name_but_not_the_sample() -> None:
    release = threading.Event()

    def lookup(uid: int) -> str:
        release.wait(PATIENCE)
        return "alice"

    table = ProcessTable(users=UserNames(lookup))
    assert table.facts(os.getpid()).user == str(os.getuid()), "it did not wait for the name"
    release.set()
    until(lambda: table.facts(os.getpid()).user == "alice", "the name is known")


def test_samples_survive_any_cut_and_the_newest_wins() -> None:
    samples = [Sample(kind=DeviceKind.GPU, taken=float(number)) for number in range(3)]
    stream, reader = b"".join(map(encode, samples)), LineReader()
    seen = [sample.taken for byte in stream if (sample := reader.feed(bytes([byte]))) is not None]
    assert seen == [0.0, 1.0, 2.0]
    newest = LineReader().feed(stream)
    assert newest is not None
    assert newest.taken == 2.0


@pytest.mark.parametrize("garbage", [b"\xff" * 8, b"[1]\n", b"{}\n"])
def test_garbled_samples_are_refused(garbage: bytes) -> None:
    with pytest.raises(GarbledStream):
        LineReader().feed(garbage)


def test_a_picture_that_grows_old_says_so() -> None:
    fine = DeviceSample(index=0, uuid="a", name="A", age=0.5, utilization=9)
    lost = DeviceSample(index=1, uuid="b", name="B", status=Status.LOST, message="gone")
    old = aged(Sample(kind=DeviceKind.GPU, taken=10.0, devices=(fine, lost)), 7)
    assert (old.devices[0].status, old.devices[0].message) == (Status.STALE, "no response for 8 s")
    assert (old.devices[0].utilization, old.devices[0].age) == (9, 7.5)
    assert (old.devices[1].status, old.devices[1].message) == (Status.LOST, "gone")
