"""A stand-in for libnvidia-ml.so.1 that real programs load, and the machine of fake GPUs that it shows them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gputui.gpus import hardware
from gputui.gpus.sample import DeviceSample

__all__ = ["FakeNvml", "NoCompiler", "build_fake_nvml", "card"]

SOURCE = Path(__file__).parent.parent / "unit" / "gpus" / "fake_nvml" / "fake_nvml.c"


class NoCompiler(Exception):
    """It cannot be built here."""


class FakeNvml:
    """A machine of fake GPUs: what is set is what the real bindings, loading the stand-in, will read."""

    def __init__(self, library: Path, directory: Path) -> None:
        self._state, self.log = directory / "state", directory / "log"
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_STATE": str(self._state),
            "FAKE_NVML_LOG": str(self.log),
            "GPUTUI_LEASES": str(_shared(directory / "leases")),
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
        hardware._gpus_by_nvml.cache_clear()

    def calls(self) -> list[tuple[int, str, int]]:
        """Thread, function and device of every call so far."""
        words = [line.split() for line in self.log.read_text().splitlines()]
        return [(int(word[1]), word[2], int(word[3])) for word in words]


def _shared(directory: Path) -> Path:
    """Leases of the users of this machine alone: on another one the cards have the same names."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o1777)
    return directory


def build_fake_nvml(directory: Path, *options: str) -> Path:
    """Raises NoCompiler where there is none."""
    if shutil.which("cc") is None:
        raise NoCompiler("no C compiler to build the stand-in for libnvidia-ml.so.1")
    target = directory / "libnvidia-ml.so.1"
    flags = ["-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["cc", *flags, *options, "-o", str(target), str(SOURCE)], check=True)
    return directory


def card(index: int, uuid: str = "", name: str = "") -> DeviceSample:
    """A GPU as it is found without the driver."""
    return DeviceSample(index=index, uuid=uuid, name=name)
