"""Siblings are compared at the same step, and a run counts as behind only when that is clear."""

from __future__ import annotations

from math import nan

import pytest
from support.core import spec

from gputui.core.results import Direction, Point
from gputui.views.siblings import (
    MOST_SIBLINGS,
    SiblingBook,
    StepCurve,
    behind,
    behind_words,
    family_of,
    statistics_at,
    statistics_by_step,
)

DOWN, UP = Direction.DOWN, Direction.UP
STEPS = 30


def run(level: float, steps: int = STEPS, every: int = 1) -> list[Point]:
    """Return a falling curve that ends near `level`."""
    return [Point(step, 60.0 * step, level + 1 / step) for step in range(1, steps + 1, every)]


def siblings(count: int, **given: int) -> list[StepCurve]:
    return [StepCurve(run(0.5 + number / 10, **given)) for number in range(count)]


def test_a_curve_is_never_interpolated_and_has_no_value_beyond_its_end() -> None:
    curve = StepCurve([Point(1, 0, 0.9), Point(4, 1, 0.6), Point(4, 2, 0.5), Point(6, 3, nan), Point(None, 4, 0.1)])
    assert [curve.at(step) for step in (0, 1, 3, 4, 5)] == [None, 0.9, 0.9, 0.5, None]


def test_the_median_at_a_step_counts_only_runs_that_reached_it() -> None:
    curves = [StepCurve(run(level, steps)) for level, steps in ((1, 4), (2, 4), (3, 4), (4, 9))]
    by_step = statistics_by_step(curves)
    assert [(each.step, each.count) for each in by_step] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert by_step[3].median == pytest.approx(2.75)
    assert statistics_at(curves, 9) is not None
    assert statistics_at(curves, 99) is None
    assert len(statistics_by_step(siblings(3, steps=1000))) <= 200


@pytest.mark.parametrize(
    ("level", "direction", "is_behind"), [(2.0, DOWN, True), (1.05, DOWN, False), (0.1, DOWN, False), (0.1, UP, True)]
)
def test_a_run_worse_than_three_quarters_of_its_siblings_is_behind(
    level: float, direction: Direction, *, is_behind: bool
) -> None:
    verdict = behind(run(level, 15), siblings(8), direction)
    assert (verdict is not None) is is_behind
    if verdict is not None:
        assert (verdict.step, verdict.siblings) == (15, 8)
        assert verdict.median == pytest.approx(0.85 + 1 / 15)


def test_nothing_is_said_too_early_or_without_a_basis() -> None:
    bad, others = run(5, 15), siblings(8)
    assert behind(bad, others, DOWN) is not None
    assert behind(bad, others, Direction.UNKNOWN) is None
    assert behind(bad, others[:4], DOWN) is None, "too few siblings"
    assert behind(bad, siblings(8, steps=14), DOWN) is None, "no sibling has come this far"
    assert behind(run(5, 4), siblings(8, steps=5), DOWN) is None, "too few steps"
    assert behind(run(5, 15), siblings(8, steps=100), DOWN) is None, "an early part of the run"
    assert behind(bad, others, DOWN, 0.1) is None, "the run says that it has just begun"
    assert behind([Point(None, point.at, point.value) for point in bad], others, DOWN) is None, "no steps"


def test_one_bad_step_does_not_make_a_run_behind() -> None:
    spike = [*run(0.5, 14), Point(15, 900, 9.0)]
    assert behind(spike, siblings(8), DOWN) is None


def test_an_unfinished_epoch_is_not_compared_with_finished_ones() -> None:
    """Within an epoch, a progress bar prints values that are not final."""
    points = [Point(step, 0, value) for step in range(1, 16) for value in (9.0, 0.5 + 1 / step)]
    assert behind([*points, Point(16, 0, 9.0)], siblings(8), DOWN) is None
    bad = [Point(step, 0, value) for step in range(1, 16) for value in (9.0, 5.0)]
    verdict = behind([*bad, Point(16, 0, 5.0)], siblings(8), DOWN)
    assert verdict is not None
    assert verdict.step == 15


def test_siblings_share_group_and_program_but_not_parameters() -> None:
    first = family_of(spec("python -u train.py resnet50 --lr 0.1"))
    assert first == family_of(spec("CUDA_LAUNCH_BLOCKING=1 torchrun --nproc 2 train.py vit --lr 0.2"))
    assert first != family_of(spec("python eval.py --lr 0.1"))
    assert first != family_of(spec("python -u train.py resnet50 --lr 0.1", group="other"))
    assert family_of(spec("python -m pkg.train --lr 1")) == family_of(spec("python -m pkg.train --lr 2"))


def test_the_book_is_bounded_and_a_job_is_not_its_own_sibling() -> None:
    book, family = SiblingBook(), ("", "train.py")
    for job in range(MOST_SIBLINGS + 10):
        book.learn(family, job, run(1.0, 5))
        book.learn(family, job, run(1.0, 6))
    assert len(book.siblings(family, job)) == MOST_SIBLINGS - 1
    assert family in book
    assert ("", "other") not in book


def test_a_verdict_is_explained_with_the_median_and_the_limit() -> None:
    verdict = behind(run(2.0, 15), siblings(8), DOWN)
    assert verdict is not None
    assert behind_words(verdict, "val_loss") == (
        "is behind at step 15: val_loss 2.0667; median of 8 similar runs 0.9167, 3 in 4 at 1.1667 or better"
    )
