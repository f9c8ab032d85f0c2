"""The grammar of `--gpus`, its slots and its errors."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.nvml import card
from support.waiting import never_hanging

from gputui.core.slots import DeviceKind, Slot
from gputui.gpus.hardware import Hardware
from gputui.gpus.slots import (
    MOST_SLOTS,
    All,
    BadGpus,
    Cpu,
    NamedDevices,
    Simulated,
    looks_like_gpus,
    parse_gpus,
    slots,
)

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
OTHER_UUID = "GPU-11112222-d72c-4106-c12f-20bd9faed9f6"
MIG = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd"

FOUR = Hardware(
    (card(0, UUID, "NVIDIA A100"), card(1, OTHER_UUID, "NVIDIA A100"), card(2, "GPU-2", "T4"), card(3, "GPU-3")),
    cores=8,
)
NAMELESS = Hardware((card(0), card(1)), cores=8)
BARE = Hardware(cores=8)

GROUPS = [
    ("0", ["0"]), ("0,1,2", ["0", "1", "2"]), ("0 1 2", ["0", "1", "2"]), ("0, 1", ["0", "1"]),
    (" 0 ,1 ", ["0", "1"]), ("007", ["7"]), ("0,0,1", ["0", "0", "1"]), ("0 0 1", ["0", "0", "1"]),
    ("0x2,1", ["0", "0", "1"]), ("0x2 1", ["0", "0", "1"]), ("0-3", ["0", "1", "2", "3"]), ("3-3", ["3"]),
    ("0-3,5x2", ["0", "1", "2", "3", "5", "5"]), ("0-1x2", ["0", "1", "0", "1"]), ("0-1 4", ["0", "1", "4"]),
    ("0,1 2,3", ["0,1", "2,3"]), ("0, 1 2, 3", ["0,1", "2,3"]), ("0,1 2", ["0,1", "2"]),
    ("0-1,4 2-3,5", ["0,1,4", "2,3,5"]), ("[0,1],[2,3]", ["0,1", "2,3"]), ("[0,1] [2,3]", ["0,1", "2,3"]),
    ("[0, 1], [2, 3]", ["0,1", "2,3"]), ("[ 0  1 ]", ["0,1"]), ("[0,1]", ["0,1"]), ("[0-3]", ["0,1,2,3"]),
    ("[0]", ["0"]), ("[0,1]x2", ["0,1", "0,1"]), ("[0,1],2,3", ["0,1", "2", "3"]), ("[0,1] 2,3", ["0,1", "2,3"]),
    ("0,1 0,2", ["0,1", "0,2"]), (UUID, [UUID]), (f"{UUID}x2,1", [UUID, UUID, "1"]),
    ("GPU-8932f937", ["GPU-8932f937"]), (MIG, [MIG]), (f"[{MIG},{UUID}]", [f"{MIG},{UUID}"]), ("-1", ["-1"]),
    ("0,-1", ["0", "-1"]), ("-1x3", ["-1", "-1", "-1"]), ("0x1024", ["0"] * 1024),
]  # fmt: skip


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
def test_slots_without_named_gpus(text: str, wanted: object) -> None:
    assert parse_gpus(text) == wanted


NONSENSE = [
    ("a", "'a' is not a GPU"), ("0,a,1", "'a' is not a GPU"), ("jobs.txt", "'jobs.txt' is not a GPU"),
    ("0,", "missing value before or after a comma"), (",", "missing value before or after a comma"),
    ("0,,1", "missing value before or after a comma"), ("[0,,1]", "missing value before or after a comma"),
    ("0,1, 2,", "missing value before or after a comma"), ("[]", "empty brackets"), ("[ ]", "empty brackets"),
    ("[0,1", "unbalanced bracket in"), ("0,1]", "unbalanced bracket in"), ("[[0]]", "is not a GPU"),
    ("[0,1][2,3]", "'[0,1][2,3]' is not a GPU"), ("3-0", "invalid range '3-0'"), ("0-", "is not a GPU"),
    ("-2", "is not a GPU"), ("0x0", "number must be 1 to 1024"), ("0x", "is not a GPU"), ("x2", "is not a GPU"),
    ("0x1025", "number must be 1 to 1024"), ("0x513,1x512", "more than 1024 slots"),
    ("0-9x1000", "more than 1024 slots"), ("0-1024", "exceeds 1024 GPUs"), ("10000", "number must be 0 to 9999"),
    ("9" * 5000, "number must be 0 to 9999"), ("[0,0]", "GPU 0 is repeated"), ("0,0 1,1", "GPU 0 is repeated"),
    ("[0-3,2]", "GPU 2 is repeated"), ("0x2,1 3", "repeats a GPU in one set (several slots per set: [0,1]x2"),
    ("[0,-1]", "means no GPU"), ("all,0", "'all' cannot be combined"), ("0 cpu:4", "'cpu:4' cannot be combined"),
    ("cpu", "'cpu' needs a number of slots"), ("cpu:0", "number must be 1 to 1024"),
    ("sim:1025", "number must be 1 to 1024"), ("cpu:-1", "is not a GPU"), ("GPU-", "is not a GPU"),
    ("GPU-xyz", "is not a GPU"), ("MIG-", "is not a GPU"), ("gpu-8932f937", "is not a GPU"), ("٣", "is not a GPU"),
    ("1.5", "is not a GPU"), ("\x1b[2J", "'\\x1b[2J'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), NONSENSE)
def test_an_error_says_what_is_wrong_and_how_to_write_it(text: str, reason: str) -> None:
    with pytest.raises(BadGpus) as caught:
        parse_gpus(text)
    sentence = str(caught.value)
    assert reason in sentence
    assert "use e.g. 0,1 or 0-3 or 0x2,1 or [0,1],[2,3] or all, cpu:4, sim:4 or slurm:8" in sentence
    assert sentence.isprintable()
    assert len(sentence) < 400


@pytest.mark.parametrize(
    "word",
    ["0", "0,1", "0,", "0,,1", "[0,1],[2,3]", "[0,1]x2", "[0", "0x2,1", "0-3", "-1", UUID, MIG, "all",
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


@given(WRITTEN)
@example("0x1024,1")
def test_any_text_is_slots_or_a_sentence(text: str) -> None:
    assert looks_like_gpus(text) in (True, False)
    try:
        wanted = parse_gpus(text)
    except BadGpus as bad:
        assert str(bad).isprintable()  # noqa: PT017 - either outcome is right
        return
    given_slots = slots(wanted, BARE).slots
    assert 1 <= len(given_slots) <= MOST_SLOTS
    assert [slot.id for slot in given_slots] == list(range(len(given_slots)))
    assert all(len(set(slot.devices)) == len(slot.devices) for slot in given_slots)


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5, unique=True), min_size=1, max_size=9))
def test_groups_in_brackets_come_back_as_written(groups: list[list[int]]) -> None:
    text = ",".join("[" + ",".join(map(str, group)) + "]" for group in groups)
    assert parse_gpus(text) == NamedDevices(tuple(tuple(map(str, group)) for group in groups))


@pytest.mark.parametrize("piece", ["0,", "0 ", "[", "[0],", "[0] ", "]", "0x", "0-999,", "GPU-0", " ", "a", "[0-999 "])
def test_no_list_takes_long(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    with never_hanging(), suppress(BadGpus):
        looks_like_gpus(text)
        parse_gpus(text)


def resolved(text: str, hardware: Hardware) -> list[str]:
    return [",".join(slot.devices) for slot in slots(parse_gpus(text), hardware).slots]


def seen(visible: str) -> Hardware:
    return Hardware(FOUR.gpus, cores=8, visible=visible)


def test_all_means_every_gpu() -> None:
    assert slots(All(), FOUR).slots == tuple(Slot(index, (str(index),)) for index in range(4))
    assert slots(All(), FOUR).notice is None


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("2,3", ["2", "3"]), ("3", ["3"]), ("0, 1", ["0", "1"]), ("1,9,2", ["1"]), ("1,-1,2", ["1"]), ("1,1", ["1"]),
     (UUID, [UUID]), ("GPU-8932", ["GPU-8932"]), (MIG, [MIG])],
)  # fmt: skip
def test_all_keeps_to_the_gpus_we_were_given(visible: str, devices: list[str]) -> None:
    assert resolved("all", seen(visible)) == devices


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles", "7"])
def test_hidden_gpus_are_not_used_by_all(visible: str) -> None:
    given_slots = slots(All(), seen(visible))
    assert {slot.kind for slot in given_slots.slots} == {DeviceKind.CPU}
    assert given_slots.notice == "CUDA_VISIBLE_DEVICES hides every GPU: using 4 CPU slots (--gpus cpu:N for more)"
    assert resolved("0,1", seen(visible)) == ["0", "1"], "unless the user names them"


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 4)])
def test_without_hardware_cpu_slots_serve(cores: int, count: int) -> None:
    given_slots = slots(All(), Hardware(cores=cores))
    assert given_slots.slots == tuple(Slot(index, (), DeviceKind.CPU) for index in range(count))
    slot = "1 CPU slot" if count == 1 else f"{count} CPU slots"
    assert given_slots.notice == f"no NVIDIA GPU found: using {slot} (--gpus cpu:N for more)"


def test_ids_that_cannot_be_checked_are_used_with_a_notice() -> None:
    given_slots = slots(parse_gpus("0,0,1"), BARE)
    assert [slot.devices for slot in given_slots.slots] == [("0",), ("0",), ("1",)]
    assert given_slots.notice == "no NVIDIA GPU found: using --gpus 0, 1 unchecked"


@pytest.mark.parametrize("text", ["0,1", "0x2,3", UUID, UUID.lower().replace("gpu-", "GPU-"), "GPU-8932", MIG, "[0,1]"])
def test_gpus_that_are_there_need_no_word(text: str) -> None:
    assert slots(parse_gpus(text), FOUR).notice is None


@pytest.mark.parametrize(("text", "missing"), [("0,4", "4"), ("[0,1],[2,9]", "9"), ("GPU-abc", "GPU-abc")])
def test_a_gpu_that_is_not_there_is_an_error_that_lists_what_is(text: str, missing: str) -> None:
    with pytest.raises(BadGpus) as caught:
        slots(parse_gpus(text), FOUR)
    assert str(caught.value) == (f"no GPU {missing} here; available: 0 (NVIDIA A100), 1 (NVIDIA A100), 2 (T4), 3")


def test_one_gpu_under_two_names_is_still_twice_in_a_group() -> None:
    with pytest.raises(BadGpus, match="the same GPU"):
        slots(parse_gpus(f"[0,{UUID}]"), FOUR)
    assert len(slots(parse_gpus(f"0,{UUID}"), FOUR).slots) == 2


def test_uuids_are_believed_where_the_driver_shows_none() -> None:
    assert resolved(f"[{UUID},{OTHER_UUID}]", NAMELESS) == [f"{UUID},{OTHER_UUID}"]


def test_cpu_and_simulated_slots_ask_nothing_of_the_hardware() -> None:
    assert slots(Cpu(2), FOUR).slots == (Slot(0, (), DeviceKind.CPU), Slot(1, (), DeviceKind.CPU))
    assert slots(Simulated(2), BARE).slots == (
        Slot(0, ("0",), DeviceKind.SIMULATED),
        Slot(1, ("1",), DeviceKind.SIMULATED),
    )
    assert slots(Simulated(2), BARE).notice is None


@pytest.mark.parametrize("hardware", [FOUR, BARE])
def test_minus_one_is_kept_as_old_tools_allow(hardware: Hardware) -> None:
    given_slots = slots(parse_gpus("-1"), hardware)
    assert given_slots.slots == (Slot(0, ("-1",), DeviceKind.CPU),)
    assert given_slots.notice is None
