"""The short names of jobs: what differs, said shortly."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.queues import job

from gputui.core.parameter_columns import Parameters
from gputui.core.parameters import Pattern


def names(*commands: str) -> list[str]:
    pattern = Pattern()
    for command in commands:
        pattern.learn(command)
    return [pattern.name(command) for command in commands]


def common(*commands: str) -> str:
    pattern = Pattern()
    for command in commands:
        pattern.learn(command)
    return pattern.common


def test_a_sweep_reads_by_its_parameters() -> None:
    sweep = [f"python train.py --model resnet --lr {lr} --bs={bs}" for lr in ("0.1", "0.01") for bs in (32, 64)]
    assert names(*sweep) == ["lr=0.1 bs=32", "lr=0.1 bs=64", "lr=0.01 bs=32", "lr=0.01 bs=64"]
    assert common(*sweep) == "python train.py --model resnet --lr"


def test_a_negative_number_is_a_value() -> None:
    assert names("run --bias -1", "run --bias -2") == ["bias=-1", "bias=-2"]


def test_quoted_text_after_an_option_is_not_its_value() -> None:
    commands = ['python -c "import a" --n 1', "make all"]
    assert names(*commands) == ['python -c "import a" n=1', "make all"]
    assert names('sh -c "a b"', 'sh -c "c d"') == ['"a b"', '"c d"']


def test_a_switch_that_only_some_have_is_told() -> None:
    assert names("train --amp x", "train x", "train --amp --fast x") == ["amp", "train x", "amp fast"]


def test_different_programs_are_told_whole() -> None:
    assert names("echo a", "false", "python x.py") == ["echo a", "false", "python x.py"]


def test_one_command_alone_is_told_whole() -> None:
    assert names("python train.py --lr 0.1") == ["python train.py --lr 0.1"]


def test_equal_commands_are_told_whole() -> None:
    assert names("python train.py", "python train.py") == ["python train.py", "python train.py"]


def test_learning_says_when_names_change() -> None:
    pattern = Pattern()
    assert pattern.learn("a 1")
    assert pattern.learn("a 2")
    assert not pattern.learn("a 3")
    assert pattern.learn("b 3")


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_any_text_gets_a_name_that_tells_different_commands_apart(commands: list[str]) -> None:
    told = dict(zip(commands, names(*commands), strict=True))
    distinct = {" ".join(command.split()) for command in commands}
    if len({len(command.split()) for command in commands}) == 1:
        assert len(set(told.values())) == len(distinct)


COMMANDS = st.lists(st.lists(st.sampled_from(["a", "b", "--lr", "1", "2"]), max_size=4).map(" ".join), max_size=8)


@given(COMMANDS, st.sets(st.integers(0, 7)))
@example(["", "--lr", ""], {0})
@example(["a --lr 1", "--lr 1 a", "--lr 1 a"], {0})
def test_names_after_jobs_were_removed_are_those_of_the_jobs_that_are_left(commands: list[str], gone: set[int]) -> None:
    jobs = [job(number, command=command) for number, command in enumerate(commands)]
    gone = gone.intersection(range(len(jobs)))
    known, fresh = Parameters(), Parameters()
    for each in jobs:
        known.learn(each)
    for number in sorted(gone):
        known.learn(replace(jobs[number], archived=True))
    left = [each for each in jobs if each.id not in gone]
    for each in left:
        fresh.learn(each)
    assert [known.of(each) for each in left] == [fresh.of(each) for each in left]
    assert known.common() == fresh.common()


def test_a_flag_that_only_some_jobs_have_is_nothing_that_all_share() -> None:
    names = Parameters()
    for number, command in enumerate(["train.py --amp --lr 1", "train.py --lr 1", "train.py --lr 1"]):
        names.learn(job(number, command=command))
    assert names.common() == "train.py --lr 1"


def test_an_edited_command_no_longer_counts_as_it_was() -> None:
    names = Parameters()
    swept = [job(number, command=f"train --lr {number}") for number in range(3)]
    for each in swept:
        names.learn(each)
    odd = replace(swept[1], spec=replace(swept[1].spec, command="make all"))
    assert names.learn(odd)
    assert names.of(odd) == "make all"
    assert names.learn(swept[1])
    assert (names.common(), names.of(swept[2])) == ("train", "lr=2")
