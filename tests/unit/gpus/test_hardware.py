"""Finding GPUs in /dev and /proc."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.nvml import card
from support.sessions import GPUTUI

from gputui.gpus.hardware import kernel_hardware
from gputui.gpus.sample import DeviceSample

INFORMATION = """Model: \t\t {model}
IRQ:   \t\t 123
GPU UUID: \t {uuid}
Bus Type: \t PCIe
Bus Location: \t {address}
Device Minor: \t {minor}
GPU Excluded:\t {excluded}
"""


def add_card(
    root: Path, address: str, minor: int, *, uuid: str = "GPU-0a", excluded: str = "No", node: bool = True
) -> None:
    directory = root / "proc/driver/nvidia/gpus" / address
    directory.mkdir(parents=True)
    text = INFORMATION.format(model="NVIDIA A100", uuid=uuid, address=address, minor=minor, excluded=excluded)
    (directory / "information").write_text(text)
    if node:
        add_node(root, f"nvidia{minor}")


def add_node(root: Path, name: str) -> None:
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev" / name).touch()


def found(root: Path) -> tuple[DeviceSample, ...]:
    return kernel_hardware(str(root), {}).gpus


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    assert found(tmp_path) == ()
    add_node(tmp_path, "nvidiactl")
    add_node(tmp_path, "nvidia-uvm")
    assert found(tmp_path) == ()


def test_gpus_are_counted_in_bus_order(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:81:00.0", 0, uuid="GPU-b")
    add_card(tmp_path, "0000:0a:00.0", 1, uuid="GPU-a")
    add_card(tmp_path, "00000002:01:00.0", 2, uuid="GPU-d")
    add_card(tmp_path, "0001:01:00.0", 3, uuid="GPU-c")
    assert found(tmp_path) == tuple(card(i, f"GPU-{u}", "NVIDIA A100") for i, u in enumerate("abcd"))


def test_a_container_uses_the_gpus_it_has_nodes_for(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:01:00.0", 0, uuid="GPU-a", node=False)
    add_card(tmp_path, "0000:02:00.0", 1, uuid="GPU-b")
    assert found(tmp_path) == (card(0, "GPU-b", "NVIDIA A100"),)


def test_nodes_that_are_made_on_demand_may_be_missing(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:01:00.0", 0, node=False)
    assert len(found(tmp_path)) == 1


def test_nodes_alone_are_enough(tmp_path: Path) -> None:
    add_node(tmp_path, "nvidia3")
    add_node(tmp_path, "nvidia7")
    assert found(tmp_path) == (card(0), card(1))


def test_an_excluded_gpu_does_not_count(tmp_path: Path) -> None:
    add_card(tmp_path, "0000:01:00.0", 0, excluded="Yes")
    add_card(tmp_path, "0000:02:00.0", 1)
    assert len(found(tmp_path)) == 1


def test_a_gpu_without_facts_still_counts(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    add_card(tmp_path, "0000:02:00.0", 1, uuid="GPU-????????-????", node=False)
    assert found(tmp_path) == (card(0), card(1, "", "NVIDIA A100"))


def test_the_callers_variable_and_cores_are_kept(tmp_path: Path) -> None:
    hardware = kernel_hardware(str(tmp_path), {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert hardware.visible == "2,3"
    assert hardware.cores == len(os.sched_getaffinity(0))
    assert kernel_hardware(str(tmp_path), {}).visible is None


def test_every_command_finds_the_gpus_that_nvml_finds_where_there_are_no_device_nodes(
    nvml: Any, tmp_path: Path
) -> None:
    """As on WSL2."""
    if kernel_hardware().gpus:
        pytest.skip("this machine has GPUs of its own")
    nvml.set([{}, {}])
    jobs = tmp_path / "jobs.txt"
    jobs.write_text("echo on $CUDA_VISIBLE_DEVICES\n" * 2)

    def printed(*words: str) -> str:
        command = [*GPUTUI, *words]
        done = subprocess.run(command, cwd=tmp_path, env=nvml.environment, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    assert "CPU slot" not in printed("run", "--no-daemon", "jobs.txt")
    outputs = [(tmp_path / f"gputui_run/job_{job}/job_{job}.OUT").read_text() for job in (0, 1)]
    assert sorted(outputs) == ["on 0\n", "on 1\n"]
    slots = json.loads(printed("gpus", "--json"))["slots"]
    assert [slot["devices"] for slot in slots] == [["0"], ["1"]]
    assert "2 GPUs" in printed("doctor")
    added = printed("add", "--no-start", "--session", str(tmp_path / "other"), "--", "true")
    assert "no NVIDIA GPU" not in added
