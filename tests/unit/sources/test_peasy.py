"""GPUPeasy's batches: read or refused as a whole."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.peasy import parse_batch
from gputui.sources.source import BadInput

DOCUMENT = b"""
NAME00;;
OUTPUTFILE00;;
COMMAND00 --a "b  c" > x;;;

NAME01;; OUT01;; python -u
  train.py;;;
"""


def test_batches_of_gpupeasy_are_read() -> None:
    first, second = parse_batch(DOCUMENT, "b.esy")
    assert (first.settings.name, first.settings.outfile) == ("NAME00", "OUTPUTFILE00")
    assert first.command == 'COMMAND00 --a "b  c" > x'
    assert second.command == "python -u   train.py"


def test_the_last_semicolons_may_be_omitted() -> None:
    (draft,) = parse_batch(b"a;; b;; c d", "b.esy")
    assert draft.command == "c d"


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (b"a;; b;;;", "b.esy, line 1: a job needs three parts, NAME;; OUTFILE;; COMMAND;;; but this one has 2"),
        (b"a;; b;; c;;;\n\nd;; e;; f;; g;;;", "b.esy, line 3: a job needs three parts"),
        (b"a;; b;; c;;;d;; e;; 'f;;;", "unclosed quote"),
        (b"a;; b;; c;;;\nd;; b;; e;;;", "b.esy, line 2: outfile b is already used on line 1"),
        (b"a;; b;; c;;; d;; b;; e;;;", "b.esy, line 1: outfile b is already used on line 1"),
        (b"a;; b;; c\0;;;", "NUL"),
        (b"a;; b;; \xff;;;", "not UTF-8"),
        (b" \n ;;; ", "no jobs in b.esy"),
        (b"a;; b;;; c;; d;;;", "(1 more job is invalid)"),
    ],
)
def test_one_bad_job_refuses_the_batch(batch: bytes, message: str) -> None:
    with pytest.raises(BadInput) as wrong:
        parse_batch(batch, "b.esy")
    assert message in str(wrong.value)


@given(st.binary() | st.lists(st.sampled_from([b";;", b";;;", b"a", b"'", b'"', b"\n", b" ", b"\\"])).map(b"".join))
def test_any_bytes_are_read_or_refused(batch: bytes) -> None:
    with suppress(BadInput):
        assert all(draft.command and draft.settings.outfile for draft in parse_batch(batch, "f"))
