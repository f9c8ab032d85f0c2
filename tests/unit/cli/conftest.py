"""A session of which a thread pretends to be the owner, and the command line called within this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import Answers, Gputui, Told
from support.wires import FakeOwner

from gputui.__main__ import main


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no session but the test's own."""
    for name in ("GPUTUI_SESSION", "GPUTUI_RUN", "GPUTUI_JOB_DIR", "NO_COLOR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[FakeOwner]:
    made = FakeOwner(tmp_path / "work" / "gputui_run")
    yield made
    made.close()


@pytest.fixture
def gputui(capfd: pytest.CaptureFixture[str]) -> Gputui:
    def call(*words: str) -> Told:
        capfd.readouterr()
        status = main(list(words))
        sys.stdout.flush()
        printed = capfd.readouterr()
        return Told(status, printed.out, printed.err)

    return call


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Puts somebody at a terminal who will type this."""

    def type_in(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", Keyboard(text))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    return type_in
