"""The environment of jobs: the user's without the login, gputui's variables, and the job's own, which win."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.sessions import add, ended, owned, spec

from gputui.core.job import Placed
from gputui.core.slots import DeviceKind, Slot
from gputui.session.environment import as_given, captured, cuda_variables, default_variables, digest
from gputui.session.store.store import Store

PLACED = Placed(2, (0,), ("0", "1"), 0.0, "")


@pytest.mark.parametrize(
    "name",
    [
        "SSH_CONNECTION", "SSH_AUTH_SOCK", "TMUX", "TMUX_PANE", "DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_ID",
        "GPUTUI_SESSION", "GPUTUI_JOB_ID", "GPUTUI_JOB_NAME", "GPUTUI_ATTEMPT", "GPUTUI_JOB_DIR",
        "GPUTUI_CHECKPOINT_DIR", "GPUTUI_RUN",
    ],
)  # fmt: skip
def test_variables_of_the_login_or_an_outer_job_are_not_captured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KEPT", "y")
    kept = captured()
    assert name not in kept
    assert kept["KEPT"] == "y"


@pytest.mark.parametrize("value", [b"b\xfe", b"\xe9\xc3\xa9", "é✓\U0010fe00".encode(), b"\x80\xff"])
def test_undecodable_bytes_survive_the_store(value: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"A\xff", value)
    stored = captured()
    assert all(text.encode() for pair in stored.items() for text in pair)
    assert digest(stored)
    assert os.fsencode(as_given(stored)["A\udcff"]) == value


def test_cpu_slots_share_the_cores() -> None:
    slots = (Slot(0, (), DeviceKind.CPU),)
    assert int(default_variables(slots)["OMP_NUM_THREADS"]) >= 1
    assert "OMP_NUM_THREADS" not in default_variables((Slot(0, ("0",)),))


def test_a_job_gets_all_variables_and_its_own_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "from the shell")
    monkeypatch.setenv("OTHER", "kept")
    shown = 'echo "$OURS|$OTHER|$CUDA_VISIBLE_DEVICES|$GPUTUI_ATTEMPT|$PYTHONUNBUFFERED|$GPUTUI_JOB_DIR|$GPUTUI_RUN"'
    with owned(tmp_path / "s", slots=1) as owner:
        [job_id] = add(owner, spec(shown, variables={"OURS": "from the job"}))
        ended(owner, job_id)
        [other] = add(owner, spec("true"))
        ended(owner, other)
    words = (tmp_path / "s/job_0/job_0.OUT").read_text().strip().split("|")
    assert words[:6] == ["from the job", "kept", "0", "1", "1", str(tmp_path / "s/job_0")]
    assert words[6].endswith(".0.1")
    store = Store(str(tmp_path / "s/.gputui/session.db"))
    assert store._db.execute("SELECT count(*) FROM environment").fetchone() == (1,)
    store.close()


UUIDS = {"0": "GPU-aa", "1": "GPU-bb"}


@pytest.mark.parametrize(
    ("gpus", "own", "shown"),
    [
        (("0", "1"), {}, ("0,1", "PCI_BUS_ID")),
        (("0", "1"), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ("0,1", "PCI_BUS_ID")),
        (("1", "0"), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ("GPU-bb,GPU-aa", "FASTEST_FIRST")),
        (("7",), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ("7", "FASTEST_FIRST")),
        (("GPU-aa",), {}, ("GPU-aa", None)),
        ((), {}, ("", "PCI_BUS_ID")),
    ],
    ids=["ours", "the same", "own order", "unknown GPU", "by uuid", "none"],
)
def test_with_another_device_order_gpus_are_named_by_uuid(
    gpus: tuple[str, ...], own: dict[str, str], shown: tuple[str, str | None]
) -> None:
    made = cuda_variables(gpus, own, UUIDS.get)
    assert (made["CUDA_VISIBLE_DEVICES"], made.get("CUDA_DEVICE_ORDER")) == shown
