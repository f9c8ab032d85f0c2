"""The end of a log can be read whatever the log is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.logs.line_index import read_tail


def test_only_the_end_of_a_file_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a" * 50_000 + b"the end")
    assert read_tail(str(log)) == b"a" * (16384 - 7) + b"the end"
    log.write_bytes(b"short\n")
    assert read_tail(str(log)) == b"short\n"
    os.truncate(log, 1 << 34)  # sparse
    with log.open("ab") as file:
        file.write(b"end")
    assert read_tail(str(log), limit=3) == b"end"


@pytest.mark.parametrize("name", ["missing", "missing/below", "nul\0byte", "", "fifo", "/dev/zero"])
def test_anything_but_a_regular_file_is_empty(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert read_tail(os.path.join(tmp_path, name)) == b""
