"""Filters: settings are compared, other words are searched for, and no text is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.app import STATES, TEXTS, job, jobs

from gputui.core.job import Failed, Job, TimedOut
from gputui.tui.queue.rows import Filter, text_of

SWEPT = job(12, Failed(1), command="python train.py --lr 0.1 --bs=32 --Deep", params={"LR": "0.1"}, group="Night",
            name="Resnet", priority=40)  # fmt: skip
PLAIN = job(3, STATES[5], command="python train.py --lr 0.1 --bs=32 --Deep")


def matches(written: str, one: Job) -> bool:
    return Filter(written).matches(one, text_of(one))


MATCHING = [
    "", "   ", "!", "resnet", "RESNET train", "!missing", "#12", "state:failed", "state:fail,crash",
    "!state:queued", "state:", "!state:", "state:failed,", "pri:40", "group:night", "gpu:0", "gpu:1,0", "lr=0.1",
    "lr=", "=0.1", "bs=32",
]  # fmt: skip
OTHER = [
    "resnet missing", "!resnet", "state:crash", "!state:failed", "state:timed-out", "state:crashed,", "priority:4",
    "project:day", "gpu:1", "lr=0.10", "bs=3", "s=32", "http://x",
]  # fmt: skip


@pytest.mark.parametrize("written", [*MATCHING, *OTHER])
def test_the_grammar(written: str) -> None:
    assert matches(written, SWEPT) is (written in MATCHING)


def test_a_setting_is_also_found_in_the_command() -> None:
    assert matches("lr=0.1", PLAIN)
    assert matches("bs=32", PLAIN)
    assert matches("deep", PLAIN)
    assert not matches("lr=0.2", PLAIN)


def test_states_of_two_words_can_be_written_either_way() -> None:
    late = job(0, TimedOut(5.0))
    assert matches("state:timed-out", late)
    assert matches("state:timed_out", late)
    assert not matches("state:timed", job(0, Failed(139)))


def test_an_empty_filter_is_false() -> None:
    assert not Filter("  ! ")
    assert Filter("x")


@given(st.text() | st.lists(st.sampled_from([*"!:=,-# ", "state", "gpu", "lr", "\x1b", "日"])).map("".join), jobs(0))
def test_no_text_is_an_error(written: str, one: Job) -> None:
    assert matches(written, one) in (True, False)


@given(TEXTS.filter(lambda text: text.split() == [text] and not set(text) & set(":=!")), jobs(0))
def test_a_word_or_its_negation_matches(word: str, one: Job) -> None:
    assert matches(word, one) is not matches(f"!{word}", one)
