"""Parameters are read from the command itself, and those that differ within a group become columns."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace
from support.core_world import World, spec

from gputui.core.job import Job
from gputui.core.parameter_columns import Parameters, sort_key
from gputui.core.parameters import FLAG, arguments_of


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python train.py --lr 0.1 --bs=32", {"lr": "0.1", "bs": "32"}),
        ("train.py optimizer.lr=0.1 +x.y=1 ++z=2", {"optimizer.lr": "0.1", "x.y": "1", "z": "2"}),
        ("./train -b 32 --amp", {"b": "32", "amp": FLAG}),
        ("python train.py --amp --shift -0.5", {"amp": FLAG, "shift": "-0.5"}),
        ("SEED=1 python train.py", {"SEED": "1"}),
        ("export SEED=1; python train.py", {"SEED": "1"}),
        ("python train.py --name 'a b' --x=\"c d\"", {"name": "a b", "x": "c d"}),
        ("torchrun --nproc_per_node 4 train.py --lr 0.1", {"lr": "0.1"}),
        ("python -u -m pkg.train --lr 0.1", {"lr": "0.1"}),
        ("bash -c 'cd x && python train.py --lr 0.1'", {"lr": "0.1"}),
        ("cd runs && python train.py --lr 0.1 2>&1 | tee log=1.txt", {"lr": "0.1"}),
        ("python train.py --lr 0.1 > out=1 < in=2", {"lr": "0.1"}),
        ("python a.py --lr 0.1 && python b.py --lr 0.2", {"lr": "0.1,0.2"}),
        ("sleep 600", {}),
        ("echo 'unfinished", {}),
        ("-", {}),
        ("", {}),
    ],
)
def test_what_a_command_says_under_a_name(command: str, named: dict[str, str]) -> None:
    assert arguments_of(command).named == named


def jobs_of(*commands: str, group: str = "") -> list[Job]:
    world = World()
    world.add(*(spec(command, group=group) for command in commands))
    return list(world.scheduler.snapshot().jobs)


def learnt(jobs: list[Job]) -> Parameters:
    parameters = Parameters()
    for job in jobs:
        parameters.learn(job)
    return parameters


def test_a_sweep_from_a_plain_file_has_a_column_for_each_thing_that_differs() -> None:
    grid = list(product(("resnet50", "vit-b", "convnext"), (0.3, 0.1, 0.03, 0.01, 0.003), (64, 256), (0, 1)))
    commands = [f"python train.py --data cifar100 --model {m} --lr {lr} --bs {b} --seed {s}" for m, lr, b, s in grid]
    jobs = jobs_of(*commands)
    parameters = learnt(jobs)
    columns = parameters.columns()
    assert [(one.title, one.width, one.is_number) for one in columns] == [
        ("model", 8, False), ("lr", 5, True), ("bs", 3, True), ("seed", 1, True),
    ]  # fmt: skip
    rows = {tuple(parameters.value(job, column.name) for column in columns) for job in jobs}
    assert len(rows) == len(grid)
    assert not any(parameters.rest(job) for job in jobs)
    assert parameters.common() == "train.py --data cifar100"
    assert parameters.told(jobs[0]) == "resnet50 lr=0.3 bs=64 seed=0"


def test_words_without_a_name_are_told_as_the_name_tells_them() -> None:
    jobs = jobs_of("python train.py resnet --lr 0.1", "python train.py vit --lr 0.2")
    parameters = learnt(jobs)
    assert [parameters.rest(job) for job in jobs] == ["resnet", "vit"]
    assert [parameters.told(job) for job in jobs] == ["resnet lr=0.1", "vit lr=0.2"]


def test_a_flag_that_only_some_have_is_a_column() -> None:
    parameters = learnt(jobs_of("train --lr 1 --amp", "train --lr 1"))
    assert [column.title for column in parameters.columns()] == ["amp"]


def test_what_tells_two_groups_of_one_program_apart_is_a_column() -> None:
    world = World()
    swept = [f"train --lr {lr} --data d" for lr in (0.1, 0.01)]
    world.add(*(spec(command, group="file") for command in swept), spec("eval --ckpt x", group="other"))
    world.add(*(spec(f"{command} --seed 1", group="sweep") for command in swept))
    jobs = list(world.scheduler.snapshot().jobs)
    parameters = learnt(jobs)
    assert [column.title for column in parameters.columns()] == ["lr", "seed"]
    assert len({parameters.told(job) for job in jobs if job.spec.group != "other"}) == 4
    for job in jobs[3:]:
        changed = parameters.learn(replace(job, archived=True))
    assert changed
    assert [column.title for column in parameters.columns()] == ["lr"]


def test_a_name_is_as_short_as_it_stays_clear() -> None:
    parameters = learnt(jobs_of("train a.lr=1 b.lr=1 c.wd=1", "train a.lr=2 b.lr=3 c.wd=4"))
    assert [column.title for column in parameters.columns()] == ["a.lr", "b.lr", "wd"]


def test_columns_follow_what_jobs_become() -> None:
    jobs = jobs_of("train --lr 1 --bs 1", "train --lr 1 --bs 2", "train --lr 1 --bs 3")
    parameters = learnt(jobs)
    edited = replace(jobs[2], spec=replace(jobs[2].spec, command="train --lr 9 --bs 3"))
    assert parameters.learn(edited)
    assert [column.title for column in parameters.columns()] == ["lr", "bs"]
    assert parameters.value(edited, "lr") == "9"
    assert parameters.learn(replace(edited, archived=True))
    assert [column.title for column in parameters.columns()] == ["bs"]
    assert parameters.learn(replace(jobs[0], archived=True))
    assert [column.title for column in parameters.columns()] == []


def test_what_the_source_called_a_parameter_is_not_told_twice() -> None:
    world = World()
    rates = ("0.1", "0.2")
    world.add(*(spec(f"train --learning-rate {rate} --workers 2", params={"lr": rate}) for rate in rates))
    parameters = learnt(list(world.scheduler.snapshot().jobs))
    assert [column.title for column in parameters.columns()] == ["lr"]


def test_values_sort_by_size_then_by_word_and_none_comes_last() -> None:
    assert sorted(["0.01", "b", None, "1e-3", "10", "9", "a"], key=sort_key) == [
        "1e-3", "0.01", "9", "10", "a", "b", None,
    ]  # fmt: skip


def test_each_group_has_differences_of_its_own() -> None:
    parameters = learnt([*jobs_of("a --x 1", "a --x 2", group="a")])
    (job,) = jobs_of("b --y 1", group="b")
    parameters.learn(replace(job, id=7))
    assert [column.title for column in parameters.columns()] == ["x"]
