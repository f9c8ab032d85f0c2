"""Figures and short names: fixed widths, and what nobody can say is never shown as nothing."""

from __future__ import annotations

import pytest
from support.devices import GIB

from gputui.tui.gpus import occupants as figures
from gputui.tui.gpus.occupants import short


def test_what_the_driver_cannot_say_is_never_zero() -> None:
    assert figures.percent(None).strip() == "–"
    assert figures.memory(None, None) == "–"
    assert figures.memory(None, 40 * GIB) == "–/40G"
    assert figures.temperature(None) == "–"
    assert figures.power(None, 400.0) == "–"


@pytest.mark.parametrize("total", [int(4.75 * GIB), 16 * GIB, 40 * GIB, 80 * GIB, 192 * GIB, 1500 * GIB])
def test_memory_never_outgrows_its_field(total: int) -> None:
    for brief in (False, True):
        room = figures.memory_width(total, brief=brief)
        assert all(len(figures.memory(total * part // 97, total, brief=brief)) <= room for part in range(98))


def test_too_hot_has_a_sign_and_is_no_wider() -> None:
    assert figures.temperature(88, hot=True) == "88°!"
    assert figures.temperature(88, brief=True, hot=True) == "88!"
    assert figures.temperature(61) == "61°C"


@pytest.mark.parametrize(
    ("name", "brief"),
    [
        ("NVIDIA A100-SXM4-40GB", "A100 40G"),
        ("NVIDIA A100 80GB PCIe", "A100 80G"),
        ("NVIDIA H100 80GB HBM3", "H100 80G"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("Tesla V100-SXM2-16GB", "V100 16G"),
        ("Quadro RTX 8000", "RTX 8000"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA", "NVIDIA"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "Intel Xeon E5-2680 v4"),
    ],
)
def test_names_are_cut_to_what_tells_cards_apart(name: str, brief: str) -> None:
    assert short(name) == brief
