"""The end of a log can be read whatever the log is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.logs.line_index import read_tail


def test_a_short_file_is_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"short\n")
    assert read_tail(str(log)) == b"short\n"


def test_of_a_long_file_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 50_000 + b"the end")
    assert read_tail(str(log)) == b"a" * (16384 - 7) + b"the end"
    assert read_tail(str(log), limit=3) == b"end"


def test_a_huge_sparse_file_costs_no_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 34)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    assert read_tail(str(log), limit=3) == b"end"


@pytest.mark.parametrize("name", ["missing", "missing/below", "nul\0byte", ""])
def test_a_missing_file_is_empty(tmp_path: Path, name: str) -> None:
    assert read_tail(f"{tmp_path}/{name}") == b""


def test_a_fifo_does_not_make_us_wait(tmp_path: Path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    assert read_tail(fifo) == b""


def test_a_device_is_not_a_log() -> None:
    assert read_tail("/dev/zero") == b""
