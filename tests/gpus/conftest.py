"""A stand-in for libnvidia-ml.so.1, built once, and small builders that the tests of this folder share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nvml import FakeNvml, NoCompiler, build_fake_nvml
from support.waiting import PATIENCE

from gputui.gpus.sample import Sample
from gputui.gpus.sampler_process import ProcessSampler

GIB = 1024**3


def _build(folder: Path, *options: str) -> Path:
    try:
        return build_fake_nvml(folder, *options)
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
def eight() -> list[dict[str, Any]]:
    """Eight GPUs that can be told apart, none of them in use."""
    return [{"util": 10 * i, "mem_used": f"{i}G", "temp": 40 + i, "power": 100_000 + 1000 * i} for i in range(8)]
