"""Claims: reading, creating, revoking and removing them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gputui.engines.claims import (
    Absent,
    Claim,
    Claimed,
    Claims,
    DirectoryGone,
    Empty,
    Garbled,
    Missing,
    Revoked,
    Unreadable,
    WrittenExit,
)

NOW = 17.5
CONTENTS: list[tuple[bytes, Claim]] = [
    (b"", Empty()), (b"41", Empty()), (b"4121", Empty()), (b"4121\n", Claimed(4121)),
    (b"4121\nexit 0", Claimed(4121)), (b"4121\nexi", Claimed(4121)), (b"4121\nexit 0\n", WrittenExit(0, NOW)),
    (b"4121\nexit 137\n", WrittenExit(137, NOW)), (b"4121\nnocwd\n", DirectoryGone(NOW)),
    (b"4121\nnocwd", Claimed(4121)), (b"revoked", Empty()), (b"revoked\n", Revoked()),
    (b"revoked\nexit 3\n", WrittenExit(3, NOW)), (b"revoked\n4121\n", Claimed(4121)),
    (b"revoked\n4121\nexit 3\n", WrittenExit(3, NOW)), (b"exit 3\n4121\n", WrittenExit(3, NOW)),
    (b"4121\nsignalled\nexit 0\n", WrittenExit(0, NOW, signalled=True)),
    (b"exit 42\n", WrittenExit(42, NOW)), (b"exit 42", Empty()), (b"nonsense\n", Garbled()), (b"-7\n", Garbled()),
]  # fmt: skip


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    return Claims(str(tmp_path))


@pytest.mark.parametrize(("content", "expected"), CONTENTS)
def test_a_line_counts_only_with_its_newline(claims: Claims, content: bytes, expected: Claim) -> None:
    path = Path(claims.path(3, 1))
    path.write_bytes(content)
    os.utime(path, (NOW, NOW))
    assert claims.read(3, 1) == expected


def test_an_unreadable_claim_is_not_absent(claims: Claims) -> None:
    os.mkdir(claims.path(3, 1))
    assert isinstance(claims.read(3, 1), Unreadable)


@pytest.mark.parametrize(("output", "expected"), [("", Absent()), ("epoch 1\n", Missing())])
def test_the_deleted_claim_of_an_attempt_with_output_is_missing(
    claims: Claims, tmp_path: Path, output: str, expected: Claim
) -> None:
    (tmp_path / "OUT").write_text(output)
    assert claims.read_with_log(3, 1, str(tmp_path / "OUT")) == expected
    assert claims.read_with_log(3, 1, str(tmp_path / "none")) == Absent()


def test_of_two_owners_that_revoke_only_one_is_first(claims: Claims) -> None:
    assert claims.revoke(3, 1)
    assert not claims.revoke(3, 1)
    assert claims.read(3, 1) == Revoked()


def test_a_claimed_attempt_cannot_be_revoked(claims: Claims) -> None:
    Path(claims.path(3, 1)).write_bytes(b"4121\n")
    assert not claims.revoke(3, 1)
    assert claims.read(3, 1) == Claimed(4121)


def test_removing_a_claim_twice_is_no_error(claims: Claims) -> None:
    claims.revoke(3, 1)
    claims.remove(3, 1)
    claims.remove(3, 1)
    assert claims.read(3, 1) == Absent()


@pytest.mark.parametrize(
    ("content", "age", "wanted", "all_dead", "stays"),
    [
        (b"revoked\n", 601, False, True, False), (b"revoked\n", 599, False, True, True),
        (b"revoked\n", 601, True, True, True), (b"revoked\n", 100_000, False, False, True),
        (b"", 100_000, False, False, True), (b"4121\nexit 0\n", 601, False, False, False),
        (b"4121\n", 100_000, False, True, True),
    ],
)  # fmt: skip
def test_only_old_decided_unwanted_claims_are_cleared_away(
    claims: Claims, content: bytes, age: float, wanted: bool, all_dead: bool, stays: bool
) -> None:
    path = Path(claims.path(3, 1))
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)
    (path.parent / "notes.txt").write_text("of the user")
    claims.remove_unwanted(lambda job, attempt: wanted, all_dead=all_dead)
    assert path.exists() == stays
    assert (path.parent / "notes.txt").exists()
