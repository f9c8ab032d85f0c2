"""The screen looks the same wherever the tests run: no settings, no colours and no time zone of the user's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

FIXED = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_ANIMATIONS": "none", "TZ": "UTC"}
FOREIGN = ("NO_COLOR", "TEXTUAL", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_THEME", "GPUTUI_SESSION", "GPUTUI_RUN",
           "GPUTUI_JOB_DIR", "XDG_CONFIG_HOME", "PAGER")  # fmt: skip

os.environ.update(FIXED)
for name in FOREIGN:
    os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in FIXED.items():
        monkeypatch.setenv(name, value)
    for name in FOREIGN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    time.tzset()
    yield
    time.tzset()
