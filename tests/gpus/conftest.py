"""A stand-in for libnvidia-ml.so.1, built once, and small builders that the tests of this folder share."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gputui.gpus.process import ProcessSampler
from gputui.gpus.sample import Sample

SOURCE = Path(__file__).parent / "fake_nvml" / "fake_nvml.c"
GIB = 1024**3


class FakeNvml:
    """A machine of fake GPUs: what is set is what the real bindings, loading the stand-in, will read."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._state, self.log = folder / "state", folder / "log"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_STATE": str(self._state),
            "FAKE_NVML_LOG": str(self.log),
        }
        self.environment.pop("CUDA_VISIBLE_DEVICES", None)

    def set(
        self,
        gpus: Sequence[Mapping[str, Any]],
        *,
        migs: Mapping[tuple[int, int], Mapping[str, Any]] | None = None,
        errors: Mapping[str, str] | None = None,
        delays: Mapping[str, float] | None = None,
    ) -> None:
        lines = []
        for index, gpu in enumerate(gpus):
            lines += [f"[gpu{index}]", *(f"{key} = {value}" for key, value in gpu.items() if key != "procs")]
            lines += [f"proc = {process}" for process in gpu.get("procs", ())]
        for (index, number), mig in (migs or {}).items():
            lines += [f"[gpu{index}.mig{number}]", *(f"{key} = {value}" for key, value in mig.items())]
        lines += ["[errors]", *(f"{call} = {code}" for call, code in (errors or {}).items())]
        lines += ["[delays]", *(f"{call} = {int(s * 1e6)}" for call, s in (delays or {}).items())]
        fresh = self._state.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self._state)

    def calls(self) -> list[tuple[int, str, int]]:
        """Thread, function and device of every call so far."""
        words = [line.split() for line in self.log.read_text().splitlines()]
        return [(int(word[1]), word[2], int(word[3])) for word in words]


def _build(folder: Path, *options: str) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the stand-in for libnvidia-ml.so.1 cannot be built")
    target = folder / "libnvidia-ml.so.1"
    flags = ["-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["cc", *flags, *options, "-o", str(target), str(SOURCE)], check=True)
    return folder


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

    def until(sampler: ProcessSampler, condition: Callable[[Sample], object], seconds: float = 10.0) -> Sample:
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
