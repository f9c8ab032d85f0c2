"""Values mean what users expect, and nonsense gets a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.settings import settings_in
from gputui.sources.values import BadValue, boolean, bytes_or_share, count, duration, priority, text, words


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("1.5h", 5400), ("1h30m", 5400), ("0", 0),
     (" 2H ", 7200), ("0.5", 0.5), ("1d2h3m4s", 93784)],
)  # fmt: skip
def test_durations(written: str, seconds: float) -> None:
    assert duration(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "s", "-5", "5x", "5 m", "1h30", "1e3", "inf", "nan", "5m!", "٣", "1.", "99999d", "9" * 500]
)
def test_what_is_no_duration_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(BadValue, match="write"):
        duration(written)


@pytest.mark.parametrize(("written", "number"), [("0", 0), ("99", 99), (" 30 ", 30), ("+5", 5)])
def test_priorities(written: str, number: int) -> None:
    assert priority(written) == number


@pytest.mark.parametrize("written", ["100", "-1", "high", "", "1.5", "1_0", "٣", "9" * 500])
def test_priorities_outside_their_range_are_refused(written: str) -> None:
    with pytest.raises(BadValue, match="from 0 to 99"):
        priority(written)


@pytest.mark.parametrize(("written", "number"), [("0", 0), ("8", 8)])
def test_counts(written: str, number: int) -> None:
    assert count(written, highest=8) == number


@pytest.mark.parametrize(
    ("written", "truth"),
    [("yes", True), ("TRUE", True), ("on", True), ("1", True), ("no", False), ("False", False), ("off", False),
     ("0", False)],
)  # fmt: skip
def test_booleans(written: str, truth: bool) -> None:
    assert boolean(written) is truth


@pytest.mark.parametrize("written", ["", "maybe", "2", "y e s"])
def test_what_is_neither_yes_nor_no_is_refused(written: str) -> None:
    with pytest.raises(BadValue, match="neither yes nor no"):
        boolean(written)


def test_texts_and_lists_of_words() -> None:
    assert text(" a b ") == "a b"
    assert words("a, b,c") == ("a", "b", "c")


@pytest.mark.parametrize("written", ["", "  ", "a\x1bb", "a\nb"])
def test_a_text_is_something_on_one_line(written: str) -> None:
    with pytest.raises(BadValue):
        text(written)


@pytest.mark.parametrize("written", ["", ",", "a,", "a,,b"])
def test_a_list_has_no_holes(written: str) -> None:
    with pytest.raises(BadValue):
        words(written)


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_sentence(written: str) -> None:
    for reader in (duration, priority, count, boolean, text, words):
        try:
            reader(written)
        except BadValue as bad:
            sentence = str(bad)
            if not sentence.isprintable():
                raise


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("6G", (6 * 1024**3, None)),
        ("500M", (500 * 1024**2, None)),
        ("1.5GiB", (1536 * 1024**2, None)),
        ("40%", (None, 0.4)),
    ],
)
def test_gpu_memory_is_a_size_or_a_share(written: str, meant: tuple[int | None, float | None]) -> None:
    assert bytes_or_share(written) == meant


@pytest.mark.parametrize("written", ["", "6", "G", "-1G", "0G", "0%", "140%", "6 apples", "1e9G"])
def test_what_is_no_size_is_refused_with_a_sentence(written: str) -> None:
    with pytest.raises(BadValue):
        bytes_or_share(written)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("retry_on=oom,sginal", "retry_on: 'sginal' is not a failure that is known; did you mean signal?"),
        ("retry_on=exit:0", "retry_on: 0 is out of range; write a number from 1 to 255"),
        ("retry_on=exit:abc", "retry_on: 'abc' is not a whole number; write one from 1 to 255"),
        ("retry_on=lost", "retry_on: 'lost' is not a failure that is known; known are oom, signal, node, timeout"),
        ("on_oom=larger", "on_oom: 'larger' is not known; known are alone, bigger, fail"),
        ("on_hang=kil", "on_hang: 'kil' is not known; did you mean kill?"),
        ("hang_after=soon", "hang_after: 'soon' is not a duration"),
        ("memory=lern", "memory: 'lern' is not a size"),
        ("checkpoint=maybe", "checkpoint: 'maybe' is neither yes nor no"),
    ],
)
def test_a_wish_for_a_job_in_trouble_that_means_nothing_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(BadValue) as bad:
        settings_in(line)
    assert str(bad.value).startswith(sentence)
