"""The environment of jobs: the adder's, less the login, plus what gputui tells; the job's own variables win."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec

from gputui.core.job import Job, Placed, Queued
from gputui.core.lanes import DeviceKind, Lane
from gputui.session.environment import as_given, captured, defaults, digest, told, visible
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
def test_what_belongs_to_the_login_or_an_outer_job_is_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    monkeypatch.setenv("KEPT", "y")
    kept = captured()
    assert name not in kept
    assert kept["KEPT"] == "y"


@pytest.mark.parametrize("value", [b"b\xfe", b"\xe9\xc3\xa9", "é✓\U0010fe00".encode(), b"\x80\xff"])
def test_an_environment_is_stored_as_text_and_given_as_the_same_bytes(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environb, b"A\xff", value)
    stored = captured()
    assert all(text.encode() for pair in stored.items() for text in pair)
    assert digest(stored)
    assert os.fsencode(as_given(stored)["A\udcff"]) == value


def test_the_digest_does_not_depend_on_the_order() -> None:
    assert digest({"A": "1", "B": "2"}) == digest({"B": "2", "A": "1"})
    assert digest({"A": "1"}) != digest({"A": "2"})


def test_a_job_is_told_where_it_is() -> None:
    job = Job(7, spec("true", name="lr"), 0.0, 30, 0.0, Queued(0.0))
    variables = told(job, PLACED, "/s", "/s/job_7")
    assert (variables["GPUTUI_JOB_ID"], variables["GPUTUI_JOB_NAME"], variables["GPUTUI_ATTEMPT"]) == ("7", "lr", "2")
    assert (variables["GPUTUI_SESSION"], variables["GPUTUI_JOB_DIR"]) == ("/s", "/s/job_7")


def test_cpu_lanes_share_the_cores() -> None:
    lanes = (Lane(0, (), DeviceKind.CPU),)
    assert int(defaults(lanes)["OMP_NUM_THREADS"]) >= 1
    assert "OMP_NUM_THREADS" not in defaults((Lane(0, ("0",)),))


def test_a_job_sees_all_of_it_and_its_own_variables_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "from the shell")
    monkeypatch.setenv("OTHER", "kept")
    shown = 'echo "$OURS|$OTHER|$CUDA_VISIBLE_DEVICES|$GPUTUI_ATTEMPT|$PYTHONUNBUFFERED|$GPUTUI_RUN"'
    with owned(tmp_path / "s", lanes=1) as owner:
        [job_id] = add(owner, spec(shown, variables={"OURS": "from the job"}))
        ended(owner, job_id)
        [other] = add(owner, spec("true"))
        ended(owner, other)
    words = (tmp_path / "s/job_0/job_0.OUT").read_text().strip().split("|")
    assert words[:5] == ["from the job", "kept", "0", "1", "1"]
    assert words[5].endswith(".0.1")
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
    ids=["ours", "the same", "own order", "unknown cards", "by uuid", "none"],
)
def test_a_users_own_order_of_devices_is_kept_and_cards_are_then_named_by_uuid(
    gpus: tuple[str, ...], own: dict[str, str], shown: tuple[str, str | None]
) -> None:
    made = visible(gpus, own, UUIDS.get)
    assert (made["CUDA_VISIBLE_DEVICES"], made.get("CUDA_DEVICE_ORDER")) == shown
