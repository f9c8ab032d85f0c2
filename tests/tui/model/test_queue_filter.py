"""What is typed after `/`: settings are compared, other words are looked for, and nothing typed is ever an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queues import STATES, TEXTS, job, jobs

from gputui.core.job import Crashed, Failed, Job, TimedOut
from gputui.tui.queue.rows import Filter, text_of

SWEPT = job(12, Failed(1), command="python train.py --lr 0.1 --bs=32 --Deep", params={"LR": "0.1"}, group="Night",
            name="Resnet", priority=40)  # fmt: skip
PLAIN = job(3, STATES[5], command="python train.py --lr 0.1 --bs=32 --Deep")


def matches(written: str, one: Job) -> bool:
    return Filter(written).matches(one, text_of(one))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("", True),
        ("   ", True),
        ("!", True),
        ("resnet", True),
        ("RESNET train", True),
        ("resnet missing", False),
        ("!missing", True),
        ("!resnet", False),
        ("#12", True),
        ("state:failed", True),
        ("state:fail,crash", True),
        ("state:crash", False),
        ("!state:failed", False),
        ("!state:queued", True),
        ("state:timed-out", False),
        ("state:", True),
        ("!state:", True),
        ("state:failed,", True),
        ("state:crashed,", False),
        ("pri:40", True),
        ("priority:4", False),
        ("group:night", True),
        ("project:day", False),
        ("gpu:0", True),
        ("gpu:1,0", True),
        ("gpu:1", False),
        ("lr=0.1", True),
        ("lr=0.10", False),
        ("lr=", True),
        ("=0.1", True),
        ("bs=32", True),
        ("http://x", False),
    ],
)
def test_the_grammar(written: str, found: bool) -> None:
    assert matches(written, SWEPT) is found


def test_a_setting_is_found_in_the_command_of_a_job_without_parameters() -> None:
    assert matches("lr=0.1", PLAIN)
    assert matches("bs=32", PLAIN)
    assert matches("deep", PLAIN)
    assert not matches("lr=0.2", PLAIN)


def test_states_of_two_words_can_be_written_either_way() -> None:
    late = job(0, TimedOut(5.0))
    assert matches("state:timed-out", late)
    assert matches("state:timed_out", late)
    assert not matches("state:timed", job(0, Crashed(11)))


def test_a_filter_that_says_nothing_is_none() -> None:
    assert not Filter("  ! ")
    assert Filter("x")


@given(st.text() | st.lists(st.sampled_from([*"!:=,-# ", "state", "gpu", "lr", "\x1b", "日"])).map("".join), jobs(0))
def test_nothing_that_can_be_typed_is_an_error(written: str, one: Job) -> None:
    assert matches(written, one) in (True, False)


@given(TEXTS.filter(lambda text: text.split() == [text] and not set(text) & set(":=!")), jobs(0))
def test_a_word_and_its_opposite_share_the_jobs_between_them(word: str, one: Job) -> None:
    assert matches(word, one) is not matches(f"!{word}", one)
