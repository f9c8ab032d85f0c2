"""The history of devices, its file, and warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputui.core.slots import DeviceKind
from gputui.gpus.history import (
    EMPTY,
    LARGEST,
    DeviceShare,
    HistoryRecorder,
    LoadOwner,
    between,
    columns,
    find_warnings,
    read_history,
    share,
    write_history,
)
from gputui.gpus.sample import DeviceSample, ProcessSample, Sample, Slowdown, Status

GIB = 1024**3
START = 1_800_000_000


def device(load: int | None = 50, **changes: Any) -> DeviceSample:
    fields: dict[str, Any] = {"memory_used": 20 * GIB, "memory_total": 40 * GIB, **changes}
    return DeviceSample(index=0, uuid="GPU-0", name="A", utilization=load, **fields)


def sample(at: float, load: int | None = 50, **changes: Any) -> Sample:
    return Sample(kind=DeviceKind.GPU, taken=at, devices=(device(load, **changes),))


OURS = {"GPU-0": DeviceShare(LoadOwner.OURS, 10 * GIB, 0)}
THEIRS = {"GPU-0": DeviceShare(LoadOwner.OTHERS, 0, 30 * GIB)}


def recorded(seconds: int, step: int = 1) -> HistoryRecorder:
    recorder = HistoryRecorder()
    for second in range(0, seconds, step):
        recorder.observe(sample(START + second, second % 100), OURS)
    return recorder


def test_a_history_is_bounded_whatever_was_seen() -> None:
    frozen = recorded(86_400 + 9000, 20).frozen()
    assert [len(track.figures[0]) for track in frozen.tracks["GPU-0"]] == [
        1800,
        1440,
        (86_400 + 9000) // 600,
    ]


def test_columns_are_means_and_begin_at_whole_multiples_so_that_only_the_last_one_lives() -> None:
    frozen = recorded(1000).frozen()
    now = START + 999
    made = columns(frozen, "GPU-0", 100, 12, now)
    assert [round((column.load or 0) * 100, 1) for column in made[2:]] == [49.5] * 10
    assert [column.load for column in made[:2]] == [None, None]
    assert columns(frozen, "GPU-0", 100, 12, now - 50)[:-1] == made[:-1]


def test_the_history_keeps_whose_load_and_memory_it_was() -> None:
    recorder = HistoryRecorder()
    for second in range(200):
        recorder.observe(sample(START + second), OURS if second < 100 else THEIRS)
    first, later = columns(recorder.frozen(), "GPU-0", 100, 2, START + 199)
    assert (first.owner, first.others) == (LoadOwner.OURS, 0)
    assert first.ours == pytest.approx(0.25, abs=0.01)
    assert (later.owner, later.ours) == (LoadOwner.OTHERS, 0)
    assert later.others == pytest.approx(0.75, abs=0.01)


def test_an_unknown_load_is_a_gap_and_not_zero() -> None:
    recorder = HistoryRecorder()
    recorder.observe(sample(START), OURS)
    recorder.observe(sample(START + 10, None), OURS)
    recorder.observe(sample(START + 20, status=Status.STALE), OURS)
    recorder.observe(sample(START + 30, 0), OURS)
    made = columns(recorder.frozen(), "GPU-0", 10, 4, START + 39)
    assert [column.load for column in made] == [0.5, None, None, 0.0]


def test_a_clock_that_is_set_back_takes_back_what_came_after() -> None:
    recorder = recorded(100)
    recorder.observe(sample(START + 50, 7), OURS)
    frozen = recorder.frozen()
    assert frozen.tracks["GPU-0"][0].last == START + 50
    assert columns(frozen, "GPU-0", 1, 1, START + 50)[0].load == 0.07


def test_a_window_of_the_past_is_read_from_the_level_that_goes_back_so_far() -> None:
    frozen = recorded(20 * 3600, 30).frozen()
    made = between(frozen, "GPU-0", START + 3600, 600, 10)
    assert all(column.load is not None for column in made)
    assert between(frozen, "GPU-0", START - 7200, 600, 3)[0].load is None


def test_the_next_owner_continues_the_history_file(tmp_path: Path) -> None:
    path = str(tmp_path / "history")
    first = recorded(600)
    first.warned["GPU-0 heat"] = 5.0
    write_history(path, first.frozen())
    again = HistoryRecorder(read_history(path))
    again.observe(sample(START + 700), OURS)
    made = columns(again.frozen(), "GPU-0", 100, 8, START + 700)
    assert [column.load is not None for column in made] == [True] * 6 + [False, True]
    assert again.frozen().warned == {"GPU-0 heat": 5.0}
    assert Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"nonsense", b"x\x9c" + b"\0" * 99, b"\0" * (LARGEST + 1)])
def test_a_file_that_is_nonsense_is_no_history_and_no_trouble(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history"
    path.write_bytes(content)
    assert read_history(str(path)) == EMPTY
    assert read_history(str(tmp_path / "none")) == EMPTY


def process(pid: int, memory: int | None, utilization: int | None = None) -> ProcessSample:
    return ProcessSample(pid=pid, compute=True, memory=memory, utilization=utilization)


def test_a_devices_memory_is_split_by_its_processes() -> None:
    both = device(processes=(process(1, 4 * GIB, 10), process(2, 6 * GIB, 70)))
    assert share(both, lambda each: each.pid == 1, held=True) == DeviceShare(LoadOwner.OTHERS, 4 * GIB, 6 * GIB)
    mine = device(processes=(process(1, None),))
    assert share(mine, lambda each: True, held=True) == DeviceShare(LoadOwner.OURS, 20 * GIB, 0)
    assert share(device(), lambda each: False, held=True) == DeviceShare(LoadOwner.OURS, 20 * GIB, 0)
    assert share(device(), lambda each: False, held=False) == DeviceShare()


def test_a_warning_keeps_its_beginning_and_ends_with_its_cause() -> None:
    since: dict[str, float] = {}
    hot: dict[str, Any] = {"slowed_by": (Slowdown.HEAT,), "clock": 1410, "clock_limit": 1980}
    find_warnings(sample(START, **hot), since)
    (warning,) = find_warnings(sample(START + 600, **hot), since)["GPU-0"]
    assert warning.words.endswith(": 1410/1980 MHz")
    assert since == {"GPU-0 heat": START}
    assert find_warnings(sample(START + 700), since) == {}
    assert since == {}


def test_a_power_limit_is_mentioned_only_where_it_costs_something() -> None:
    little: dict[str, Any] = {
        "slowed_by": (Slowdown.POWER_CAP,),
        "clock": 1900,
        "clock_limit": 1980,
        "power_limit": 400.0,
    }
    assert find_warnings(sample(START, **little), {}) == {}
    (warning,) = find_warnings(sample(START, **{**little, "clock": 1200}), {})["GPU-0"]
    assert warning.words.startswith("throttled by its power limit of 400 W since")
    assert not warning.grave
