"""The order of devices, CUDA_VISIBLE_DEVICES, and UUIDs from the kernel."""

from __future__ import annotations

from typing import Any

import pytest
from support.nvml import card

from gputui.gpus.hardware import add_uuids, find, find_order_warning, mark_visible, sort_by_bus
from gputui.gpus.sample import DeviceSample, MigInstance, Status


def gpu(index: int, **changes: Any) -> DeviceSample:
    facts: dict[str, Any] = {"uuid": f"GPU-{index}aa", "name": "A100", "bus_id": f"00000000:{index:02X}:00.0"}
    return DeviceSample(index=index, **{**facts, **changes})


def part(parent: DeviceSample, number: int) -> DeviceSample:
    place = MigInstance(number, 0)
    return gpu(parent.index, uuid=f"MIG-{parent.index}-{number}", parent=parent.uuid, mig=place)


MACHINE = (gpu(0), gpu(1), gpu(2, mig_enabled=True), part(gpu(2), 1), part(gpu(2), 2), gpu(3))


def test_a_device_without_a_bus_address_keeps_the_drivers_rank() -> None:
    lost = gpu(1, uuid="", bus_id=None, status=Status.LOST)
    late, early = gpu(0, bus_id="00000001:81:00.0"), gpu(2, bus_id="00000000:C1:00.0")
    ordered = sort_by_bus([(late,), (lost,), (early,)])
    assert [device.uuid for device in ordered] == [early.uuid, "", late.uuid]
    assert [device.index for device in ordered] == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("", []), ("0", ["GPU-0aa"]), ("3,0", ["GPU-0aa", "GPU-3aa"]), ("0,9,1", ["GPU-0aa"]),
        ("0,-1,1", ["GPU-0aa"]), ("1,1", []), ("GPU-1", ["GPU-1aa"]), ("GPU-", []), ("nonsense", []),
        ("MIG-2-1", ["MIG-2-1"]), ("2", ["GPU-2aa", "MIG-2-1", "MIG-2-2"]),
    ],
)  # fmt: skip
def test_cuda_visible_devices_is_read_as_cuda_reads_it(value: str, visible: list[str]) -> None:
    devices = mark_visible(MACHINE, {"CUDA_VISIBLE_DEVICES": value})
    assert [device.uuid for device in devices if device.visible] == visible


def test_without_the_variable_all_are_visible() -> None:
    assert mark_visible(MACHINE, {}) == MACHINE


def test_a_silent_device_is_named_as_the_kernel_lists_it() -> None:
    listed = (card(0, "GPU-0aa", "A100"), card(1, "GPU-k1", "A30"))
    silent = gpu(1, uuid="", name="GPU 1")
    assert add_uuids((gpu(0), silent), listed)[1].uuid == "GPU-k1"
    assert add_uuids((gpu(0), silent), listed[:1])[1].uuid == "", "only where the lists agree"
    assert add_uuids((gpu(0), silent), (card(0, "GPU-x"), card(1, "GPU-0aa")))[1].uuid == "", "no UUID twice"


def test_numbers_on_a_machine_of_different_models_deserve_a_word() -> None:
    mixed = (gpu(0), gpu(1, name="H100"))
    numbers = {"CUDA_VISIBLE_DEVICES": "1"}
    assert find_order_warning(mixed, numbers)
    assert find_order_warning(mixed, {**numbers, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) is None
    assert find_order_warning((gpu(0), gpu(1)), numbers) is None
    assert find_order_warning(mixed, {"CUDA_VISIBLE_DEVICES": "GPU-1aa"}) is None


def test_a_slot_finds_its_device_by_index_uuid_or_its_beginning() -> None:
    found = [find(MACHINE, word) for word in ("1", "GPU-3aa", "GPU-3", "MIG-2-2")]
    assert [device and device.uuid for device in found] == ["GPU-1aa", "GPU-3aa", "GPU-3aa", "MIG-2-2"]
    assert find(MACHINE, "7") is None
