"""Sweeps give simple_hypersearch's lines for its seeds, count without creating, and never a traceback."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.source import BadInput
from gputui.sources.sweep import MOST_SHUFFLED, Sampling, Sweep, pattern_of, range_values, values_of, with_field
from gputui.sources.values import BadValue

GRID = {"lr": ["1", "2", "3"], "bs": ["a", "b", "c"]}


def lines(sweep: Sweep) -> list[str]:
    return [draft.command for draft in sweep]


@pytest.mark.parametrize(
    ("seed", "vector"),
    [
        (0, "3 b,2 c,1 b,2 a,2 b,1 c,1 a,3 c,3 a"),
        (1, "2 c,3 a,3 b,2 b,2 a,1 a,3 c,1 b,1 c"),
        (42, "2 a,3 a,3 b,2 b,3 c,1 c,2 c,1 a,1 b"),
    ],
)
def test_the_same_seed_gives_the_lines_of_simple_hypersearch(seed: int, vector: str) -> None:
    whole = lines(Sweep("{lr} {bs}", GRID, seed=seed))
    assert ",".join(whole) == vector
    assert lines(Sweep("{lr} {bs}", GRID, seed=seed, n_samples=4)) == whole[:4]


def test_a_grid_varies_its_last_parameter_fastest() -> None:
    assert lines(Sweep("{lr} {bs}", GRID, sampling=Sampling.GRID, n_samples=4)) == ["1 a", "1 b", "1 c", "2 a"]


def test_without_a_seed_the_preview_is_what_is_added() -> None:
    sweep = Sweep("{lr} {bs}", GRID)
    assert sweep.first(9) == list(sweep)
    assert sorted(lines(sweep)) == sorted(lines(Sweep("{lr} {bs}", GRID, sampling=Sampling.GRID)))


def test_a_job_has_only_the_parameters_that_occur_in_it() -> None:
    drafts = list(Sweep("train --lr 0.1", {"lr": ["0.5", "0.7"], "rep": ["0"]}, name="rep{rep}"))
    assert [draft.params for draft in drafts] == [{"rep": "0"}] * 2


def test_an_option_s_value_can_become_a_field() -> None:
    assert with_field("a --lr 0.1 && b --lr=0.1 {bs}", "lr") == "a --lr {lr} && b --lr={lr} {bs}"
    assert with_field("a 0.1", "lr") is None
    assert lines(Sweep(pattern_of("awk '{print}' {x}") + " {lr}", {"lr": ["1"]})) == ["awk '{print}' {x} 1"]


def test_the_parameters_are_kept_with_each_command() -> None:
    (draft,) = Sweep("{lr}", {"lr": ["0.1"]}, name="lr={lr}")
    assert draft.params == {"lr": "0.1"}
    assert draft.settings.name == "lr=0.1"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("{x}", "a b"),
        ("{x!q}", "'a b'"),
        ("{x!r}", "'a b'"),
        ("{{{x}}}", "{a b}"),
        ("{x:>5}|", "  a b|"),
        ("{x[0]}", "a"),
        ("{x:{w}}|", "a b  |"),
    ],
)
def test_fields_follow_python_s_format_rules(pattern: str, command: str) -> None:
    assert lines(Sweep(pattern, {"x": ["a b"], "w": ["5"]})) == [command]


@pytest.mark.parametrize(
    ("pattern", "parameters", "message"),
    [
        ("{}", {"lr": ["1"]}, "has no name"),
        ("{0}", {"lr": ["1"]}, "has no name"),
        ("{lt}", {"lt2": ["1"]}, "did you mean {lt2}?"),
        ("{other}", {"lr": ["1"]}, "-p other VALUE"),
        ("{lr", {"lr": ["1"]}, "write {{ and }} for literal braces"),
        ("{lr:.2f}", {"lr": ["1"]}, "cannot fill in the pattern"),
        ("{lr!x}", {"lr": ["1"]}, "}: after ! use q (quoted for the shell), r, s or a"),
        ("{lr[7]}", {"lr": ["1"]}, "cannot fill in the pattern"),
        ("{lr:>99999999999}", {"lr": ["1"]}, "is too large"),
        ("{lr:>131072}", {"lr": ["1"]}, "is too large"),
        ("{lr}", {"lr": []}, "no values"),
        ("{lr}", {}, "needs parameters"),
        ("  ", {"lr": ["1"]}, "empty"),
        ("a\0", {"lr": ["1"]}, "NUL"),
        ("{lr}", {"lr": ["\0"]}, "NUL"),
        ("{a.b}", {"a.b": ["1"]}, "not a name for a parameter"),
    ],
)
def test_invalid_patterns_and_parameters_are_refused(
    pattern: str, parameters: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(BadInput) as wrong:
        Sweep(pattern, parameters)
    assert message in str(wrong.value)


def test_a_sample_of_a_huge_grid_is_drawn_without_creating_the_grid() -> None:
    many = [str(number) for number in range(10_000)]
    huge = {"a": many, "b": many, "c": many}
    sweep = Sweep("{a} {b} {c}", huge, n_samples=5, seed=1)
    assert (sweep.count, sweep.grid_size) == (5, 10**12)
    assert len(set(lines(sweep))) == 5
    assert lines(sweep) == lines(Sweep("{a} {b} {c}", huge, n_samples=5, seed=1))
    assert Sweep("{a} {b} {c}", huge, sampling=Sampling.GRID).first(1)[0].command == "0 0 0"
    with pytest.raises(BadInput, match="too many to shuffle"):
        Sweep("{a} {b} {c}", huge)
    assert MOST_SHUFFLED < 10**12


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("0..3", "0 1 2 3"),
        ("3..0", "3 2 1 0"),
        ("0..10..4", "0 4 8"),
        ("-1..1", "-1 0 1"),
        ("lin:0:1:5", "0 0.25 0.5 0.75 1"),
        ("log:1e-5:1e-1:5", "1e-05 0.0001 0.001 0.01 0.1"),
        ("log:1:1000:4", "1 10 100 1000"),
        ("log:1:1234567:2", "1 1234567"),
        ("lin:5:9:1", "5"),
        ("lin:1:1.0000001:3", "1 1.00000005 1.0000001"),
    ],
)
def test_values_of_ranges(written: str, values: str) -> None:
    assert " ".join(values_of(written)) == values


@pytest.mark.parametrize(
    "written", ["", "0..", "0..9..0", "log:0:1:5", "lin:a:b:3", "lin:0:1:0", "lin:nan:1:3", "0..99999999", "exp:1:2:3"]
)
def test_an_invalid_range_is_refused(written: str) -> None:
    with pytest.raises(BadInput, match="-r lr: "):
        range_values("lr", [written])


@given(
    st.text(max_size=40), st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=5), max_size=3), max_size=3)
)
def test_any_pattern_is_filled_or_refused(pattern: str, parameters: dict[str, list[str]]) -> None:
    try:
        sweep = Sweep(pattern, parameters, seed=1)
        assert len(list(sweep)) == sweep.count
    except BadInput:
        pass


@given(st.text(alphabet="{}!:.[]xyqrs0123<>^ ", max_size=20))
def test_any_braces_are_filled_or_refused(pattern: str) -> None:
    with suppress(BadInput):
        list(Sweep(pattern, {"x": ["1", "a b"], "y": ["}", ""]}))


@given(st.text(alphabet="linog:.-+e0123456789", max_size=24))
def test_any_range_is_read_or_refused(written: str) -> None:
    with suppress(BadValue):
        assert values_of(written)
