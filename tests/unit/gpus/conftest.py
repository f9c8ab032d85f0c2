"""A stand-in for libnvidia-ml.so.1, built once, and small builders that the tests of this directory share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nvml import FakeNvml, NoCompiler, build_fake_nvml
from support.waiting import PATIENCE

from gputui.gpus.sample import Sample, Trouble
from gputui.gpus.sampler_process import ProcessSampler, sample_once

GIB = 1024**3


def _build(directory: Path, *options: str) -> Path:
    try:
        return build_fake_nvml(directory, *options)
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def _library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(_library: Path, tmp_path: Path) -> FakeNvml:
    return FakeNvml(_library, tmp_path)


@pytest.fixture
def older_nvml(tmp_path: Path) -> Callable[[str], FakeNvml]:
    """The driver of another year: R470 or R535_54."""
    return lambda release: FakeNvml(_build(tmp_path, f"-DFAKE_NVML_{release}"), tmp_path)


@pytest.fixture
def start() -> Iterator[Callable[..., ProcessSampler]]:
    """Starts samplers on a fake machine and closes them at the end."""
    started: list[ProcessSampler] = []

    def start(machine: FakeNvml, interval: float = 0.1, **changes: str) -> ProcessSampler:
        started.append(ProcessSampler(interval, environment={**machine.environment, **changes}))
        return started[-1]

    yield start
    for sampler in started:
        sampler.close()


@pytest.fixture
def sampled(start: Callable[..., ProcessSampler]) -> Callable[..., Sample]:
    """Returns the first complete sample of a machine."""

    def sampled(machine: FakeNvml, **changes: str) -> Sample:
        sample = sample_once(start(machine, **changes))
        assert sample is not None
        return sample

    return sampled


@pytest.fixture
def trouble(sampled: Callable[..., Sample]) -> Callable[..., Trouble]:
    """Returns why no device of a machine can be read."""

    def trouble(machine: FakeNvml, **changes: str) -> Trouble:
        found = sampled(machine, **changes).trouble
        assert found is not None
        return found

    return trouble


@pytest.fixture
def until() -> Callable[[ProcessSampler, Callable[[Sample], object]], Sample]:
    """Reads a sampler until a sample satisfies a condition."""

    def until(sampler: ProcessSampler, condition: Callable[[Sample], object], seconds: float = PATIENCE) -> Sample:
        deadline = time.monotonic() + seconds
        seen: Sample | None = None
        while time.monotonic() < deadline:
            seen = sampler.read() or seen
            if seen is not None and condition(seen):
                return seen
            time.sleep(0.01)
        raise AssertionError(f"not within {seconds} s; the last sample was {seen}")

    return until


@pytest.fixture
def external_process() -> Iterator[int]:
    """A process of no session."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def eight() -> list[dict[str, Any]]:
    """Eight GPUs that can be told apart, none of them in use."""
    return [{"util": 10 * i, "mem_used": f"{i}G", "temp": 40 + i, "power": 100_000 + 1000 * i} for i in range(8)]
