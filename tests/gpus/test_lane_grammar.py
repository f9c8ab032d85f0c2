"""What `--gpus` takes, what it means, and what it says to nonsense."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gputui.core.lanes import DeviceKind, Lane
from gputui.gpus.hardware import Gpu, Hardware
from gputui.gpus.lanes import (
    MOST_LANES,
    All,
    BadGpus,
    Cpu,
    NamedDevices,
    Simulated,
    Wanted,
    lanes,
    looks_like_gpus,
    parse_gpus,
)

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
OTHER_UUID = "GPU-11112222-d72c-4106-c12f-20bd9faed9f6"
MIG = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"
OLD_MIG = f"MIG-{UUID}/1/0"

FOUR = Hardware(
    (Gpu(0, UUID, "NVIDIA A100"), Gpu(1, OTHER_UUID, "NVIDIA A100"), Gpu(2, "GPU-2", "T4"), Gpu(3, "GPU-3")),
    cores=8,
)
NAMELESS = Hardware((Gpu(0), Gpu(1)), cores=8)
BARE = Hardware(cores=8)

GROUPS = [
    ("0", ["0"]),
    ("0,1,2", ["0", "1", "2"]),
    ("0 1 2", ["0", "1", "2"]),
    ("0, 1", ["0", "1"]),
    (" 0 ,1 ", ["0", "1"]),
    ("007", ["7"]),
    ("0,0,1", ["0", "0", "1"]),
    ("0 0 1", ["0", "0", "1"]),
    ("0x2,1", ["0", "0", "1"]),
    ("0x2 1", ["0", "0", "1"]),
    ("0-3", ["0", "1", "2", "3"]),
    ("3-3", ["3"]),
    ("0-3,5x2", ["0", "1", "2", "3", "5", "5"]),
    ("0-1x2", ["0", "1", "0", "1"]),
    ("0-1 4", ["0", "1", "4"]),
    ("0,1 2,3", ["0,1", "2,3"]),
    ("0, 1 2, 3", ["0,1", "2,3"]),
    ("0,1 2", ["0,1", "2"]),
    ("0-1,4 2-3,5", ["0,1,4", "2,3,5"]),
    ("[0,1],[2,3]", ["0,1", "2,3"]),
    ("[0,1] [2,3]", ["0,1", "2,3"]),
    ("[0, 1], [2, 3]", ["0,1", "2,3"]),
    ("[ 0  1 ]", ["0,1"]),
    ("[0,1]", ["0,1"]),
    ("[0-3]", ["0,1,2,3"]),
    ("[0]", ["0"]),
    ("[0,1]x2", ["0,1", "0,1"]),
    ("[0,1],2,3", ["0,1", "2", "3"]),
    ("[0,1] 2,3", ["0,1", "2,3"]),
    ("0,1 0,2", ["0,1", "0,2"]),
    (UUID, [UUID]),
    (f"{UUID}x2,1", [UUID, UUID, "1"]),
    ("GPU-8932f937", ["GPU-8932f937"]),
    (MIG, [MIG]),
    (OLD_MIG, [OLD_MIG]),
    (f"[{MIG},{OLD_MIG}]", [f"{MIG},{OLD_MIG}"]),
    ("-1", ["-1"]),
    ("0,-1", ["0", "-1"]),
    ("-1x3", ["-1", "-1", "-1"]),
    ("0x1024", ["0"] * 1024),
]


@pytest.mark.parametrize(("text", "groups"), GROUPS)
def test_every_way_to_name_gpus(text: str, groups: list[str]) -> None:
    wanted = parse_gpus(text)
    assert isinstance(wanted, NamedDevices)
    assert [",".join(group) for group in wanted.groups] == groups


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Cpu(1)), ("  ", Cpu(1)), ("all", All()), (" ALL ", All()), ("cpu:4", Cpu(4)), ("cpu:1024", Cpu(1024)),
        ("sim:4", Simulated(4)), ("sim", Simulated(4)), ("SIM:1", Simulated(1)),
    ],
)  # fmt: skip
def test_lanes_without_named_gpus(text: str, wanted: object) -> None:
    assert parse_gpus(text) == wanted


NONSENSE = [
    ("a", "'a' is not a GPU"),
    ("0,a,1", "'a' is not a GPU"),
    ("jobs.txt", "'jobs.txt' is not a GPU"),
    ("0,", "nothing stands"),
    (",", "nothing stands"),
    ("0,,1", "nothing stands"),
    ("[0,,1]", "nothing stands"),
    ("0,1, 2,", "nothing stands"),
    ("[]", "brackets is empty"),
    ("[ ]", "brackets is empty"),
    ("[0,1", "bracket is not closed"),
    ("0,1]", "bracket is not closed or not opened"),
    ("[[0]]", "is not a GPU"),
    ("[0,1][2,3]", "'[0,1][2,3]' is not a GPU"),
    ("3-0", "counts backwards"),
    ("0-", "is not a GPU"),
    ("-2", "is not a GPU"),
    ("0x0", "from 1 to 1024"),
    ("0x", "is not a GPU"),
    ("x2", "is not a GPU"),
    ("0x1025", "from 1 to 1024"),
    ("0x513,1x512", "more than 1024 lanes"),
    ("0-9x1000", "more than 1024 lanes"),
    ("0-1024", "more than 1024 GPUs"),
    ("10000", "from 0 to 9999"),
    ("9" * 5000, "from 0 to 9999"),
    ("[0,0]", "GPU 0 stands twice"),
    ("0,0 1,1", "GPU 0 stands twice"),
    ("[0-3,2]", "GPU 2 stands twice"),
    ("0x2,1 3", "repeats a GPU within one group"),
    ("[0,-1]", "means no GPU"),
    ("all,0", "'all' stands alone"),
    ("0 cpu:4", "'cpu:4' stands alone"),
    ("cpu", "stands alone"),
    ("cpu:0", "from 1 to 1024"),
    ("sim:1025", "from 1 to 1024"),
    ("cpu:-1", "is not a GPU"),
    ("GPU-", "is not a GPU"),
    ("GPU-xyz", "is not a GPU"),
    ("MIG-", "is not a GPU"),
    ("gpu-8932f937", "is not a GPU"),
    ("٣", "is not a GPU"),
    ("1.5", "is not a GPU"),
    ("\x1b[2J", "'\\x1b[2J'"),
]


@pytest.mark.parametrize(("text", "reason"), NONSENSE)
def test_nonsense_is_told_what_is_wrong_and_how_to_write_it(text: str, reason: str) -> None:
    with pytest.raises(BadGpus) as caught:
        parse_gpus(text)
    sentence = str(caught.value)
    assert reason in sentence
    assert "for example 0,1" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


@pytest.mark.parametrize(
    "word",
    ["0", "0,1", "0,", "0,,1", "[0,1],[2,3]", "[0,1]x2", "[0", "0x2,1", "0-3", "-1", UUID, MIG, OLD_MIG, "all",
     "cpu:4", "sim:2"],
)  # fmt: skip
def test_words_that_belong_to_the_flag(word: str) -> None:
    assert looks_like_gpus(word)


@pytest.mark.parametrize(
    "word",
    ["jobs.txt", "", "-", "--gpus", "-2", "-v", "run", "0.txt", "1e3", "x2", "2x", ",", "[]", "./0", "cpu",
     "0;1", "GPU-", "٣"],
)  # fmt: skip
def test_words_that_do_not(word: str) -> None:
    assert not looks_like_gpus(word)


@pytest.mark.parametrize(("text", "groups"), GROUPS)
def test_each_word_of_a_good_list_looks_like_gpus(text: str, groups: list[str]) -> None:
    assert all(looks_like_gpus(word) for word in text.split() if word != "," and word not in "[]")


WRITTEN = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(["0", "1", "12", ",", ",", " ", "[", "]", "x", "2", "-", "all", "cpu:", UUID, "-1", "a"])
    ).map("".join),
)  # fmt: skip


def parsed(text: str) -> tuple[Wanted | None, str]:
    try:
        return parse_gpus(text), ""
    except BadGpus as bad:
        return None, str(bad)


@given(WRITTEN)
@example("0x1024,1")
def test_any_text_is_lanes_or_a_sentence(text: str) -> None:
    wanted, sentence = parsed(text)
    assert sentence.isprintable()
    if wanted is None:
        return
    given_lanes = lanes(wanted, BARE).lanes
    assert 1 <= len(given_lanes) <= MOST_LANES
    assert [lane.id for lane in given_lanes] == list(range(len(given_lanes)))
    assert all(len(set(lane.devices)) == len(lane.devices) for lane in given_lanes)


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True), min_size=1, max_size=9))
def test_groups_in_brackets_come_back_as_written(groups: list[list[int]]) -> None:
    text = ",".join("[" + ",".join(map(str, group)) + "]" for group in groups)
    assert parse_gpus(text) == NamedDevices(tuple(tuple(map(str, group)) for group in groups))


@given(WRITTEN)
def test_looking_at_a_word_never_fails(text: str) -> None:
    assert looks_like_gpus(text) in (True, False)


@pytest.mark.parametrize("piece", ["0,", "0 ", "[", "[0],", "[0] ", "]", "0x", "0-999,", "GPU-0", " ", "a", "[0-999 "])
def test_no_list_takes_long(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    before = time.process_time()
    looks_like_gpus(text)
    with suppress(BadGpus):
        parse_gpus(text)
    assert time.process_time() - before < 1.0


def resolved(text: str, hardware: Hardware) -> list[str]:
    return [",".join(lane.devices) for lane in lanes(parse_gpus(text), hardware).lanes]


def seen(visible: str) -> Hardware:
    return Hardware(FOUR.gpus, cores=8, visible=visible)


def test_all_means_every_gpu() -> None:
    assert lanes(All(), FOUR).lanes == tuple(Lane(index, (str(index),)) for index in range(4))
    assert lanes(All(), FOUR).notice is None


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("2,3", ["2", "3"]), ("3", ["3"]), ("0, 1", ["0", "1"]), ("1,9,2", ["1"]), ("1,-1,2", ["1"]), ("1,1", ["1"]),
     (UUID, [UUID]), ("GPU-8932", ["GPU-8932"]), (MIG, [MIG])],
)  # fmt: skip
def test_all_keeps_to_the_gpus_we_were_given(visible: str, devices: list[str]) -> None:
    assert resolved("all", seen(visible)) == devices


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "7"])
def test_hidden_gpus_are_not_used_by_all(visible: str) -> None:
    given_lanes = lanes(All(), seen(visible))
    assert {lane.kind for lane in given_lanes.lanes} == {DeviceKind.CPU}
    assert given_lanes.notice == (
        "CUDA_VISIBLE_DEVICES hides every GPU: 4 CPU lanes serve instead (--gpus cpu:N for more)"
    )


def test_gpus_named_by_the_user_need_not_be_in_the_variable() -> None:
    assert resolved("0,1", seen("3")) == ["0", "1"]


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 4)])
def test_without_hardware_cpu_lanes_serve(cores: int, count: int) -> None:
    given_lanes = lanes(All(), Hardware(cores=cores))
    assert given_lanes.lanes == tuple(Lane(index, (), DeviceKind.CPU) for index in range(count))
    assert given_lanes.notice is not None
    assert "no NVIDIA GPU found" in given_lanes.notice


def test_the_notice_of_a_small_machine_reads_well() -> None:
    notice = lanes(All(), Hardware(cores=2)).notice
    assert notice == "no NVIDIA GPU found: 1 CPU lane serves instead (--gpus cpu:N for more)"


def test_ids_that_cannot_be_checked_are_taken_and_said() -> None:
    given_lanes = lanes(parse_gpus("0,0,1"), BARE)
    assert [lane.devices for lane in given_lanes.lanes] == [("0",), ("0",), ("1",)]
    assert given_lanes.notice == "no NVIDIA GPU found: --gpus 0, 1 could not be checked, taken as given"


@pytest.mark.parametrize("text", ["0,1", "0x2,3", UUID, UUID.lower().replace("gpu-", "GPU-"), "GPU-8932", MIG, "[0,1]"])
def test_gpus_that_are_there_need_no_word(text: str) -> None:
    assert lanes(parse_gpus(text), FOUR).notice is None


@pytest.mark.parametrize(("text", "missing"), [("0,4", "4"), ("[0,1],[2,9]", "9"), ("GPU-abc", "GPU-abc")])
def test_a_gpu_that_is_not_there_is_an_error_that_lists_what_is(text: str, missing: str) -> None:
    with pytest.raises(BadGpus) as caught:
        lanes(parse_gpus(text), FOUR)
    assert str(caught.value) == (
        f"there is no GPU {missing} here; there are 0 (NVIDIA A100), 1 (NVIDIA A100), 2 (T4), 3"
    )


def test_one_gpu_under_two_names_is_still_twice_in_a_group() -> None:
    with pytest.raises(BadGpus, match="the same GPU"):
        lanes(parse_gpus(f"[0,{UUID}]"), FOUR)
    assert len(lanes(parse_gpus(f"0,{UUID}"), FOUR).lanes) == 2


def test_uuids_are_believed_where_the_driver_shows_none() -> None:
    assert resolved(f"[{UUID},{OTHER_UUID}]", NAMELESS) == [f"{UUID},{OTHER_UUID}"]


def test_cpu_and_simulated_lanes_ask_nothing_of_the_hardware() -> None:
    assert lanes(Cpu(2), FOUR).lanes == (Lane(0, (), DeviceKind.CPU), Lane(1, (), DeviceKind.CPU))
    assert lanes(Simulated(2), BARE).lanes == (
        Lane(0, ("0",), DeviceKind.SIMULATED),
        Lane(1, ("1",), DeviceKind.SIMULATED),
    )
    assert lanes(Simulated(2), BARE).notice is None


@pytest.mark.parametrize("hardware", [FOUR, BARE])
def test_minus_one_is_kept_as_old_tools_allow(hardware: Hardware) -> None:
    given_lanes = lanes(parse_gpus("-1"), hardware)
    assert given_lanes.lanes == (Lane(0, ("-1",), DeviceKind.CPU),)
    assert given_lanes.notice is None
