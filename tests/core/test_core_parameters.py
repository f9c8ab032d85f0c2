"""Parameters follow the command: what a job is told by is what runs, however it was changed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gputui.core.job import JobSpec
from gputui.core.parameters import following, value_of

LR_BS = {"lr": "0.1", "bs": "32"}


def spec(command: str, params: dict[str, str] | None = None, **settings: Any) -> JobSpec:
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
def test_a_parameter_is_read_where_a_command_gives_it_by_name(command: str, value: str | None) -> None:
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
def test_a_changed_command_tells_its_own_parameters(before: str, after: str, params: dict[str, str]) -> None:
    assert following(replace(spec(before), command=after), spec(before)).params == params


def test_a_parameter_that_came_by_a_variable_follows_the_variable() -> None:
    before = spec("train", {"lr": "0.1"}, variables={"LR": "0.1", "CALL": "k"})
    changed = replace(before, variables={"LR": "0.5", "CALL": "k"})
    assert following(changed, before).params == {"lr": "0.5"}
    assert following(replace(before, variables={}), before).params == {}


def test_what_cannot_be_seen_in_a_job_stays_while_all_it_came_by_does() -> None:
    before = spec("call f", {"lr": "0.1"}, variables={"CALL": "k"})
    more = replace(before, variables={"CALL": "k", "SEED": "1"})
    assert following(more, before).params == {"lr": "0.1"}
    assert following(replace(before, variables={"CALL": "other"}), before).params == {}


def test_a_name_that_tells_a_value_goes_with_it_and_any_other_stays() -> None:
    before = spec("train --lr 0.1 --bs 32", name="lr0.1-bs32")
    assert following(replace(before, command="train --lr 0.2 --bs 32"), before).name is None
    assert following(replace(before, command="nice train --lr 0.1 --bs 32"), before).name == "lr0.1-bs32"
    typed = replace(before, command="train --lr 0.2 --bs 32", name="mine-0.1")
    assert following(typed, before).name == "mine-0.1"


def test_a_change_of_anything_else_leaves_the_parameters() -> None:
    before = spec("whatever", {"lr": "9"}, name="n")
    changed = replace(before, priority=50, retries=2, name="m")
    assert following(changed, before) == changed
