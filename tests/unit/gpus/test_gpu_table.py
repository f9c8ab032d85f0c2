"""`gputui gpus` as text and JSON, and the doctor's findings about GPUs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gputui.cli.commands.gpus import shown_devices, text_table
from gputui.cli.doctor.machine import gpu_findings, lease_finding
from gputui.cli.output import OutputFormat
from gputui.core.slots import DeviceKind
from gputui.gpus.sample import DeviceSample, MigInstance, ProcessSample, Sample, Status, Trouble
from gputui.views.format import width

GIB = 1024**3


def process(pid: int, **changes: Any) -> ProcessSample:
    return ProcessSample(pid=pid, **{"compute": True, "memory": 27 * GIB, "user": "alice", **changes})


def device(index: int, **changes: Any) -> DeviceSample:
    facts: dict[str, Any] = {
        "uuid": f"GPU-{index}", "name": "NVIDIA A100-SXM4-40GB", "utilization": 97, "memory_used": 28 * GIB,
        "memory_total": 40 * GIB, "temperature": 61, "power": 287.4, "power_limit": 400.0,
    }  # fmt: skip
    return DeviceSample(index=index, **{**facts, **changes})


def sample(*devices: DeviceSample, **changes: Any) -> Sample:
    return Sample(kind=DeviceKind.GPU, taken=0.0, devices=devices, **changes)


def paper(columns: int) -> OutputFormat:
    fmt = OutputFormat()
    fmt.width = columns
    return fmt


def test_the_table_shows_what_matters() -> None:
    shown = text_table(
        sample(
            device(0, processes=(process(4121, command="python train.py"),)),
            device(1, status=Status.LOST, message="fell off the bus"),
            device(2, utilization=None, mig_enabled=True, memory_used=None),
            device(2, name="NVIDIA A100 MIG 1g.5gb", mig=MigInstance(1, 0), uuid="MIG-1", temperature=None, power=None),
        ),
        paper(100),
        {4121: 12},
    )
    assert shown == [
        "  0 A100-SXM4-40GB  97%  28.0/40G  61°C  287/400W",
        "      #12 4121 27.0G python train.py",
        "  1 A100-SXM4-40GB  lost: fell off the bus",
        "  2 A100-SXM4-40GB  n/a     –/40G  61°C  287/400W",
        "    └ MIG 1g.5gb    97%  28.0/40G",
    ]


def test_trouble_and_notes_are_sentences() -> None:
    trouble = Trouble("the driver was upgraded", "reboot")
    shown = text_table(sample(trouble=trouble, notes=("mind the order",)), paper(80), {})
    assert shown == ["the driver was upgraded: reboot", "mind the order"]


def test_a_process_cannot_act_on_the_terminal() -> None:
    evil = process(7, command="\x1b]0;owned\x07\x1b[2J\nrm", user="a\x1bb")
    shown = text_table(sample(device(0, processes=(evil,))), paper(80), {})
    assert not set("".join(shown)) & set("\x1b\x07\n")
    assert len(shown) == 2


@given(st.integers(20, 200), st.text(max_size=60), st.text(max_size=30))
def test_no_line_is_wider_than_the_terminal(columns: int, command: str, name: str) -> None:
    machine = sample(device(0, name=name, processes=(process(7, command=command),)), device(11))
    assert all(width(line) <= columns for line in text_table(machine, paper(columns), {}))


def test_json_has_the_promised_shape() -> None:
    rows = json.loads(msgspec.json.encode(shown_devices(sample(device(3, processes=(process(7),), fan=None)), {7: 5})))
    promised = {"index", "uuid", "name", "status", "message", "utilization", "memory_used", "memory_total"}
    promised |= {"temperature", "power", "power_limit", "fan", "processes"}
    assert promised <= set(rows[0])
    assert (rows[0]["status"], rows[0]["fan"], rows[0]["message"]) == ("ok", None, None)
    assert {"pid": 7, "user": "alice", "memory": 27 * GIB, "command": None, "job": 5}.items() <= rows[0]["processes"][
        0
    ].items()


def test_doctor_names_every_trouble_with_what_to_do() -> None:
    hidden = process(7, born=None, alive=True)
    findings = gpu_findings(
        sample(
            device(0, processes=(hidden,)),
            device(1, status=Status.LOST, message="fell off the bus"),
            device(2, visible=False),
            foreign_pids=True,
            driver="570.1",
        ),
        {"CUDA_VISIBLE_DEVICES": "0,1"},
    )
    assert findings[0].text == "3 GPUs, driver 570.1"
    bad = [finding for finding in findings if not finding.good]
    assert len(bad) == 3
    assert all(finding.advice for finding in bad)
    assert any("leaves 2 of 3" in finding.text for finding in findings)


def test_doctor_counts_a_chosen_mig_instance_as_a_device() -> None:
    parent = device(0, mig_enabled=True, visible=False)
    instance = device(0, uuid="MIG-1", mig=MigInstance(1, 0), parent=parent.uuid)
    finding = gpu_findings(sample(parent, instance), {"CUDA_VISIBLE_DEVICES": "MIG-1"})[-1]
    assert finding.good
    assert "leaves 1 of 1" in finding.text


def test_doctor_does_not_alarm_a_machine_without_gpus() -> None:
    trouble = Trouble("no driver here", "nothing", harmless=True)
    (finding,) = gpu_findings(sample(trouble=trouble), {})
    assert finding.good
    assert not gpu_findings(None, {})[0].good
    assert lease_finding("/tmp").good
