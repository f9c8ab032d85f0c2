"""A job as form fields and back: nothing is lost, and errors name their field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gputui.core.job import JobSpec, Request
from gputui.tui.dialogs.forms import FIELDS, BadField, spec_of, texts_of

GIB = 1 << 30
NOTHING = JobSpec(command="", cwd="/", environment="e")
WORDS = st.text("abcäß日-_.x09", min_size=1, max_size=12)
VARIABLES = st.dictionaries(st.text("ABC_", min_size=1, max_size=8), st.text("ab '\"$\\=", max_size=9))
LINES = st.text(st.characters(min_codepoint=32, exclude_characters="\x7f"), min_size=1).map(str.strip).filter(bool)
MEMORIES = st.one_of(
    st.none(),
    st.integers(1, 64).map(lambda size: Request(memory=size * GIB)),
    st.integers(1024, 100 * GIB).map(lambda size: Request(memory=size)),
    st.floats(0.001, 1.0).map(lambda share: Request(memory_share=round(share, 6))),
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    request = draw(MEMORIES) or Request()
    return JobSpec(
        command=draw(LINES),
        cwd="/",
        environment="e",
        name=draw(st.none() | LINES),
        request=Request(draw(st.none() | st.integers(0, 16)), (), request.memory, request.memory_share),
        priority=draw(st.integers(0, 99)),
        after=draw(st.tuples() | st.tuples(st.integers(0, 10**6), WORDS.filter(lambda word: not word.isdecimal()))),
        variables=draw(VARIABLES),
        retries=draw(st.integers(0, 1000)),
        timeout=draw(st.none() | st.integers(1, 3650 * 86400).map(float) | st.just(0.25)),
        group="kept",
        params={"kept": "too"},
        shell="zsh",
    )


@given(specs())
def test_unchanged_fields_give_the_same_job(spec: JobSpec) -> None:
    again = spec_of(texts_of(spec), spec)
    assert again.request.memory_share == pytest.approx(spec.request.memory_share)
    share = replace(again.request, memory_share=spec.request.memory_share)
    assert replace(again, request=share) == spec


@given(specs(), st.integers(0, 99))
def test_the_field_has_the_current_priority(spec: JobSpec, priority: int) -> None:
    assert spec_of(texts_of(spec, priority), spec).priority == priority


@pytest.mark.parametrize(
    ("request_", "written"),
    [
        (Request(memory=6 * GIB), "6G"),
        (Request(memory=500 << 20), "500M"),
        (Request(memory=int(0.3 * GIB)), "0.3G"),
        (Request(memory=2 << 40), "2T"),
        (Request(memory_share=0.4), "40%"),
        (Request(memory_share=0.333), "33.3%"),
    ],
)
def test_memory_is_written_as_people_write_it(request_: Request, written: str) -> None:
    assert texts_of(JobSpec(command="x", cwd="/", environment="", request=request_))["memory"] == written


LABELS = {each.name: each.label for each in FIELDS}


@pytest.mark.parametrize(
    ("field", "written", "said"),
    [
        ("command", "  ", "enter a command"),
        ("command", "a\0b", "NUL"),
        ("name", "a\x1bb", "control character"),
        ("gpus", "two", "not a whole number"),
        ("gpus", "-1", "out of range"),
        ("memory", "6", "is not a size"),
        ("memory", "0G", "requests nothing"),
        ("memory", "140%", "not between"),
        ("priority", "100", "out of range"),
        ("after", "a,,b", "has an extra comma"),
        ("variables", "SEED", "'SEED' is not NAME=VALUE"),
        ("variables", "A='x", "No closing quotation"),
        ("cwd", "/there/is/none", "no such directory: /there/is/none"),
        ("retries", "x", "not a whole number"),
        ("timeout", "soon", "is not a duration"),
        ("timeout", "0", "at once"),
    ],
)
def test_errors_name_their_field(field: str, written: str, said: str) -> None:
    texts = {each.name: "" for each in FIELDS} | {"command": "train", field: written}
    with pytest.raises(BadField, match=said) as bad:
        spec_of(texts, NOTHING)
    assert str(bad.value).startswith(f"{LABELS[field]}: ")


@given(st.sampled_from([field.name for field in FIELDS]), st.text())
def test_any_text_gives_a_job_or_an_error(field: str, written: str) -> None:
    texts: dict[str, Any] = {each.name: "" for each in FIELDS} | {"command": "train", field: written}
    complaint = None
    try:
        spec_of(texts, NOTHING)
    except BadField as bad:
        complaint = bad
    assert complaint is None or str(complaint).startswith(f"{LABELS[field]}: ")
