"""Older drivers, drivers that cannot be opened, and missing or wrong bindings."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.waiting import PATIENCE

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

from gputui.gpus.sample import Sample, Trouble
from gputui.gpus.sampler_process import ProcessSampler, sample_once

GIB = 1024**3

Start = Callable[..., ProcessSampler]
Sampled = Callable[..., Sample]
Troubled = Callable[..., Trouble]
Until = Callable[..., Sample]


def before_all_else(directory: Path) -> str:
    """A PYTHONPATH that begins with a directory."""
    return os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")]))


def has_a_real_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("release", ["R470", "R535_54"])
def test_older_drivers_give_the_same_processes(older_nvml: Any, sampled: Sampled, release: str) -> None:
    machine = older_nvml(release)
    machine.set([{"util": 5, "mem_used": "1G", "procs": ["7001 1G C", "7002 2G C", "7003 3G G"]}])
    sample = sampled(machine)
    device = sample.devices[0]
    found = [(process.pid, process.memory, process.compute) for process in device.processes]
    assert found == [(7001, GIB, True), (7002, 2 * GIB, True), (7003, 3 * GIB, False)]
    assert (device.temperature, device.memory_used) == (30, GIB)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("DRIVER_NOT_LOADED", "modprobe"),
        ("LIB_RM_VERSION_MISMATCH", "reboot"),
        ("NO_PERMISSION", "/dev/nvidia"),
        ("IRQ_ISSUE", "dmesg"),
    ],
)
def test_a_driver_that_cannot_be_opened_says_why(nvml: Any, trouble: Troubled, code: str, word: str) -> None:
    nvml.set([{}], errors={"nvmlInit*": code})
    assert word in trouble(nvml).advice


def test_a_container_that_lost_its_devices_is_told_to_restart(nvml: Any, trouble: Troubled) -> None:
    nvml.set([{}], errors={"nvmlInit*": "UNKNOWN"})
    assert trouble(nvml, container="docker").message == "this container lost its GPUs"


def test_a_driver_without_a_gpu_is_reported(nvml: Any, trouble: Troubled) -> None:
    nvml.set([])
    assert trouble(nvml).message == "the NVIDIA driver works but finds no GPU"


def test_a_repaired_driver_is_opened_again(nvml: Any, start: Start, until: Until) -> None:
    nvml.set([{}], errors={"nvmlInit*": "DRIVER_NOT_LOADED"})
    sampler = start(nvml)
    until(sampler, lambda sample: sample.trouble)
    nvml.set([{"util": 9}])
    sample = until(sampler, lambda sample: sample.devices)
    assert sample.trouble is None


def test_an_old_pynvml_package_is_named(nvml: Any, trouble: Troubled, tmp_path: Any) -> None:
    nvml.set([{}])
    (tmp_path / "old" / "pynvml").mkdir(parents=True)
    (tmp_path / "old" / "pynvml" / "__init__.py").write_text("def nvmlInit(): pass\n")
    why = trouble(nvml, PYTHONPATH=before_all_else(tmp_path / "old"))
    assert "old/pynvml/__init__.py" in why.message
    assert "pip uninstall pynvml" in why.advice


def test_missing_bindings_are_named(nvml: Any, trouble: Troubled, tmp_path: Any) -> None:
    nvml.set([{}])
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "pynvml.py").write_text("raise ModuleNotFoundError('pynvml')\n")
    why = trouble(nvml, PYTHONPATH=before_all_else(tmp_path / "none"))
    assert why.advice == "`pip install nvidia-ml-py`"


def test_a_missing_library_is_reported(nvml: Any, trouble: Troubled, tmp_path: Any) -> None:
    if has_a_real_driver():
        pytest.skip("this machine has a driver")
    why = trouble(nvml, LD_LIBRARY_PATH=str(tmp_path))
    assert why.harmless
    assert "libnvidia-ml.so.1 is missing" in why.message


def test_a_users_file_named_like_a_module_is_not_imported(nvml: Any, tmp_path: Any) -> None:
    nvml.set([{"util": 3}])
    (tmp_path / "pynvml.py").write_text("raise SystemExit('imported a file of the user')\n")
    program = (
        "from gputui.gpus.sampler_process import ProcessSampler; from gputui.gpus.sampler_process import sample_once\n"
        "sampler = ProcessSampler(); print(sample_once(sampler).devices[0].utilization); sampler.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=nvml.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.strip() == "3", done.stderr


def test_the_real_driver_answers_where_there_is_one(start: Start) -> None:
    if not has_a_real_driver():
        pytest.skip("no NVIDIA driver here: the stand-in library served in all other tests")
    sampler = ProcessSampler()
    sample = sample_once(sampler)
    sampler.close()
    assert sample is not None
    assert sample.devices or sample.trouble
