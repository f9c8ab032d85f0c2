"""Parameters of jobs: parsing commands, columns, short names, edits, and effects on the metric."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.app import job
from support.core import World, spec

from gputui.core.job import Job, JobSpec, StateName
from gputui.core.parameters import FLAG, parse_arguments, value_of, with_updated_params
from gputui.core.results import Direction, MainMetric
from gputui.views.heat_map import Axis, around, find_map, heat_maps
from gputui.views.parameters import ParameterColumn, Parameters, Pattern, sort_key
from gputui.views.results_table import ResultsRow, ResultsTable, compared, effects


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
        ("while [ ! -e go ]; do sleep 0.1; done; python train.py --lr 0.1", {"lr": "0.1"}),
        ("bash -c 'until test -f first; do sleep 1; done'", {}),
        ("for run in a b; do echo run=$run --x 1; done", {}),
        ("echo -e first", {}),
        ("python3 -u -c 'import time; rate=3' --lr 0.1", {"lr": "0.1"}),
        ("uv run python -c \"print('first')\"", {}),
        ("sleep 600", {}),
        ("echo 'unfinished", {}),
        ("-", {}),
        ("", {}),
    ],
)
def test_parameters_are_parsed_from_commands(command: str, named: dict[str, str]) -> None:
    assert parse_arguments(command).named == named


def jobs_of(*commands: str, group: str = "") -> list[Job]:
    world = World()
    world.add(*(spec(command, group=group) for command in commands))
    return list(world.scheduler.snapshot().jobs)


def learnt(jobs: list[Job]) -> Parameters:
    parameters = Parameters()
    for each in jobs:
        parameters.learn(each)
    return parameters


def test_a_sweep_has_a_column_for_each_varying_parameter() -> None:
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
    assert parameters.label(jobs[0]) == "resnet50 lr=0.3 bs=64 seed=0"


def test_varying_words_are_part_of_the_short_name() -> None:
    jobs = jobs_of("python train.py resnet --lr 0.1", "python train.py vit --lr 0.2")
    parameters = learnt(jobs)
    assert [parameters.rest(job) for job in jobs] == ["resnet", "vit"]
    assert [parameters.label(job) for job in jobs] == ["resnet lr=0.1", "vit lr=0.2"]
    assert parameters.common() == "train.py"


def test_a_flag_that_only_some_have_is_a_column() -> None:
    parameters = learnt(jobs_of("train --lr 1 --amp", "train --lr 1"))
    assert [column.title for column in parameters.columns()] == ["amp"]


def test_parameters_that_differ_between_groups_are_columns() -> None:
    world = World()
    swept = [f"train --lr {lr} --data d" for lr in (0.1, 0.01)]
    world.add(*(spec(command, group="file") for command in swept), spec("eval --ckpt x", group="other"))
    world.add(*(spec(f"{command} --seed 1", group="sweep") for command in swept))
    jobs = list(world.scheduler.snapshot().jobs)
    parameters = learnt(jobs)
    assert [column.title for column in parameters.columns()] == ["lr", "seed"]
    assert len({parameters.label(job) for job in jobs if job.spec.group != "other"}) == 4
    for each in jobs[3:]:
        changed = parameters.learn(replace(each, archived=True))
    assert changed
    assert [column.title for column in parameters.columns()] == ["lr"]


def test_titles_are_as_short_as_they_are_unique() -> None:
    parameters = learnt(jobs_of("train a.lr=1 b.lr=1 c.wd=1", "train a.lr=2 b.lr=3 c.wd=4"))
    assert [column.title for column in parameters.columns()] == ["a.lr", "b.lr", "wd"]


def test_columns_follow_edits_and_removals() -> None:
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


def test_a_parameter_of_the_source_is_not_shown_twice() -> None:
    world = World()
    rates = ("0.1", "0.2")
    world.add(*(spec(f"train --learning-rate {rate} --workers 2", params={"lr": rate}) for rate in rates))
    parameters = learnt(list(world.scheduler.snapshot().jobs))
    assert [column.title for column in parameters.columns()] == ["lr"]


def test_values_sort_by_size_then_by_word_then_missing() -> None:
    assert sorted(["0.01", "b", None, "1e-3", "10", "9", "a"], key=sort_key) == [
        "1e-3", "0.01", "9", "10", "a", "b", None,
    ]  # fmt: skip


def test_each_group_has_its_own_columns() -> None:
    parameters = learnt([*jobs_of("a --x 1", "a --x 2", group="a")])
    (job,) = jobs_of("b --y 1", group="b")
    parameters.learn(replace(job, id=7))
    assert [column.title for column in parameters.columns()] == ["x"]


LR_BS = {"lr": "0.1", "bs": "32"}


def swept(command: str, params: dict[str, str] | None = None, **settings: Any) -> JobSpec:
    return JobSpec(command=command, cwd="/w", environment="e", params=LR_BS if params is None else params, **settings)


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("train --lr 0.1", "0.1"),
        ("train --lr=0.1 --x", "0.1"),
        ("train -lr 0.1", "0.1"),
        ("lr=0.1 python train.py", "0.1"),
        ("python train.py opt.lr=3 lr=0.1", "0.1"),
        ("train --lr -1e-3", "-1e-3"),
        ("train --lr 'a b'", "a b"),
        ("a --lr 0.1; b --lr 0.1", "0.1"),
        ("a --lr 0.1; b --lr 0.2", None),
        ("train --lr --fast", None),
        ("train --lrs 0.1 --my-lr 2", None),
        ("train 0.1", None),
    ],
)
def test_a_parameter_is_found_by_name(command: str, value: str | None) -> None:
    assert value_of(command, "lr") == value


def test_dashes_and_underscores_in_a_name_are_the_same() -> None:
    assert value_of("train --weight-decay 0.1", "weight_decay") == "0.1"


@pytest.mark.parametrize(
    ("before", "after", "params"),
    [
        ("train --lr 0.1 --bs 32", "train --lr 0.2 --bs 32", {"lr": "0.2", "bs": "32"}),
        ("train --lr 0.1 --bs 32", "train --bs 32", {"bs": "32"}),
        ("train --lr 0.1 --bs=32", "python eval.py", {}),
        ("train 0.1 32", "train 0.2 32", {"bs": "32"}),
        ("train 0.1 32", "train 32 0.1", {}),
        ("call f", "call g", {}),
    ],
)
def test_an_edited_command_updates_its_parameters(before: str, after: str, params: dict[str, str]) -> None:
    assert with_updated_params(replace(swept(before), command=after), swept(before)).params == params


def test_a_parameter_from_a_variable_follows_it() -> None:
    before = swept("train", {"lr": "0.1"}, variables={"LR": "0.1", "CALL": "k"})
    changed = replace(before, variables={"LR": "0.5", "CALL": "k"})
    assert with_updated_params(changed, before).params == {"lr": "0.5"}
    assert with_updated_params(replace(before, variables={}), before).params == {}


def test_a_parameter_of_unknown_origin_stays_while_nothing_changed() -> None:
    before = swept("call f", {"lr": "0.1"}, variables={"CALL": "k"})
    more = replace(before, variables={"CALL": "k", "SEED": "1"})
    assert with_updated_params(more, before).params == {"lr": "0.1"}
    assert with_updated_params(replace(before, variables={"CALL": "other"}), before).params == {}


def test_a_name_with_an_outdated_value_is_removed() -> None:
    before = swept("train --lr 0.1 --bs 32", name="lr0.1-bs32")
    assert with_updated_params(replace(before, command="train --lr 0.2 --bs 32"), before).name is None
    assert with_updated_params(replace(before, command="nice train --lr 0.1 --bs 32"), before).name == "lr0.1-bs32"
    typed = replace(before, command="train --lr 0.2 --bs 32", name="mine-0.1")
    assert with_updated_params(typed, before).name == "mine-0.1"


def test_other_edits_keep_the_parameters() -> None:
    before = swept("whatever", {"lr": "9"}, name="n")
    changed = replace(before, priority=50, retries=2, name="m")
    assert with_updated_params(changed, before) == changed


def names(*commands: str) -> list[str]:
    pattern = Pattern()
    for command in commands:
        pattern.learn(command)
    return [pattern.name(command) for command in commands]


SWEEP = [f"python train.py --model resnet --lr {lr} --bs={bs}" for lr in ("0.1", "0.01") for bs in (32, 64)]


@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        (SWEEP, ["lr=0.1 bs=32", "lr=0.1 bs=64", "lr=0.01 bs=32", "lr=0.01 bs=64"]),
        (["run --bias -1", "run --bias -2"], ["bias=-1", "bias=-2"]),
        (['python -c "import a" --n 1', "make all"], ['python -c "import a" n=1', "make all"]),
        (['sh -c "a b"', 'sh -c "c d"'], ['"a b"', '"c d"']),
        (["train --amp x", "train x", "train --amp --fast x"], ["amp", "train x", "amp fast"]),
        (["echo a", "false", "python x.py"], ["echo a", "false", "python x.py"]),
        (["python train.py --lr 0.1"], ["python train.py --lr 0.1"]),
        (["python train.py", "python train.py"], ["python train.py", "python train.py"]),
    ],
    ids=["a sweep", "negative numbers", "quotes", "quoted text", "flags", "different programs", "one", "equal"],
)
def test_short_names_show_what_varies(commands: list[str], shown: list[str]) -> None:
    assert names(*commands) == shown


def test_learning_says_when_names_change() -> None:
    pattern = Pattern()
    assert pattern.learn("a 1")
    assert pattern.learn("a 2")
    assert not pattern.learn("a 3")
    assert pattern.learn("b 3")


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_different_commands_have_different_names(commands: list[str]) -> None:
    texts = dict(zip(commands, names(*commands), strict=True))
    distinct = {" ".join(command.split()) for command in commands}
    if len({len(command.split()) for command in commands}) == 1:
        assert len(set(texts.values())) == len(distinct)


COMMANDS = st.lists(st.lists(st.sampled_from(["a", "b", "--lr", "1", "2"]), max_size=4).map(" ".join), max_size=8)


@given(COMMANDS, st.sets(st.integers(0, 7)))
@example(["", "--lr", ""], {0})
@example(["a --lr 1", "--lr 1 a", "--lr 1 a"], {0})
def test_removed_jobs_do_not_affect_names(commands: list[str], gone: set[int]) -> None:
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


def test_a_flag_of_some_jobs_is_not_common() -> None:
    names = Parameters()
    for number, command in enumerate(["train.py --amp --lr 1", "train.py --lr 1", "train.py --lr 1"]):
        names.learn(job(number, command=command))
    assert names.common() == "train.py --lr 1"


def test_an_edited_command_replaces_the_old_one() -> None:
    names = Parameters()
    swept = [job(number, command=f"train --lr {number}") for number in range(3)]
    for each in swept:
        names.learn(each)
    odd = replace(swept[1], spec=replace(swept[1].spec, command="make all"))
    assert names.learn(odd)
    assert names.of(odd) == "make all"
    assert names.learn(swept[1])
    assert (names.common(), names.of(swept[2])) == ("train", "lr=2")


def row(number: int, rate: str, best: float, state: StateName = StateName.SUCCEEDED) -> ResultsRow:
    return result(number, {"lr": rate}, best, state)


def result(number: int, params: dict[str, str], best: float, state: StateName = StateName.SUCCEEDED) -> ResultsRow:
    return ResultsRow(
        job=number, name="", label="", state=state, attempt=1, params=params, best=best, step=None, last=best, beside={}
    )


def test_only_succeeded_jobs_count_for_effects() -> None:
    rows = (
        row(0, "0.1", 0.2), row(1, "0.1", 0.4), row(2, "0.01", 0.5),
        row(3, "0.1", 4.0, StateName.RUNNING), row(4, "0.01", 5.0, StateName.KILLED),
    )  # fmt: skip
    metric = MainMetric("loss", Direction.DOWN)
    table = ResultsTable(metric, (ParameterColumn("lr", "lr", is_number=True, width=4),), (), rows, 4)
    [rate] = effects(table)
    assert [(one.value, one.count, round(one.median, 6)) for one in rate.values] == [("0.1", 2, 0.3), ("0.01", 1, 0.5)]
    assert [one.job for one in compared(table)] == [0, 1, 2]


# Heat maps


def runs_of(*results: tuple[str, str, float]) -> ResultsTable:
    """Succeeded jobs with lr, bs and val_loss."""
    columns = tuple(ParameterColumn(name, name, is_number=True, width=4) for name in ("lr", "bs"))
    rows = [result(number, {"lr": lr, "bs": bs}, loss) for number, (lr, bs, loss) in enumerate(results)]
    rows.sort(key=lambda row: row.best or 0.0)
    return ResultsTable(MainMetric("val_loss", Direction.DOWN), columns, (), tuple(rows), 2)


SWEPT = [("0.1", "32", 0.9), ("0.1", "32", 0.7), ("0.1", "64", 0.6), ("0.01", "32", 0.3), ("0.01", "64", 0.2),
         ("0.001", "64", 0.5)]  # fmt: skip


def test_a_heat_map_has_medians_runs_failures_and_ranks() -> None:
    table = runs_of(*SWEPT)
    (swept,) = heat_maps(table, effects(table), [{"lr": "0.1", "bs": "64"}, {"lr": "0.001", "bs": "32"}, {"lr": "7"}])
    assert (swept.title, swept.rows.values, swept.columns.values) == ("lr × bs", ("0.1", "0.01", "0.001"), ("32", "64"))
    assert [[(cell.median, cell.runs, cell.failed) for cell in row] for row in swept.cells] == [
        [(0.8, 2, 0), (0.6, 1, 1)],
        [(0.3, 1, 0), (0.2, 1, 0)],
        [(None, 0, 1), (0.5, 1, 0)],
    ]
    assert swept.best == (1, 1)
    assert [[cell.shade for cell in row] for row in swept.cells] == [[1, 2], [4, 5], [0, 3]]


def test_with_a_metric_to_maximize_high_cells_are_the_best() -> None:
    table = replace(runs_of(*SWEPT), metric=MainMetric("acc", Direction.UP))
    (swept,) = heat_maps(table, effects(table), [])
    assert (swept.best, swept.cells[0][0].shade) == ((0, 0), 5)


def test_one_parameter_or_an_unknown_direction_makes_no_heat_map() -> None:
    one = runs_of(("0.1", "32", 0.9), ("0.01", "32", 0.2))
    unknown = replace(runs_of(*SWEPT), metric=MainMetric("val_loss", Direction.UNKNOWN))
    assert [heat_maps(table, effects(table), []) for table in (one, unknown)] == [(), ()]


def test_a_heat_map_is_found_by_its_two_parameters_in_any_order() -> None:
    table = runs_of(*SWEPT)
    maps = heat_maps(table, effects(table), [])
    assert find_map(maps, ["bs", "lr"]) == maps[0]
    assert [find_map(maps, names) for names in (["lr", "lr"], ["lr"], ["lr", "net"])] == [None] * 3


def test_a_cell_keeps_its_values_when_rows_are_added() -> None:
    more = [*SWEPT, ("0.5", "32", 0.95), ("0.5", "64", 0.9)]
    (before,), (after,) = (heat_maps(table, effects(table), []) for table in (runs_of(*SWEPT), runs_of(*more)))
    assert after.same_cell(before, (1, 0)) == (2, 0)
    assert before.same_cell(after, (0, 0)) is None


@pytest.mark.parametrize(
    ("values", "index", "proposed"),
    [
        (("0.1", "0.03", "0.01", "0.003"), 2, ("0.005", "0.01", "0.02")),
        (("0.1", "0.03", "0.01", "0.003"), 0, ("0.05", "0.1", "0.2")),
        (("32", "64", "128"), 1, ("48", "64", "96")),
        (("64", "256"), 0, ("32", "64", "128")),
        (("1", "2"), 0, ("1", "2")),
        (("0.5", "0.6", "0.7"), 1, ("0.55", "0.6", "0.65")),
        (("0", "1"), 0, ("0",)),
        (("resnet", "vit"), 1, ("vit",)),
        (("1e-3", "none"), 0, ("1e-3",)),
    ],
)
def test_a_sweep_around_a_value_goes_half_a_step_to_both_sides(
    values: tuple[str, ...], index: int, proposed: tuple[str, ...]
) -> None:
    assert around(Axis("x", "x", values), index) == proposed
