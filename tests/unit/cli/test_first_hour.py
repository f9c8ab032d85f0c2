"""Messages for new users: what a command did, to which session, and what to do next."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from support.sessions import Gputui


@pytest.fixture
def begun(gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of a session with one job and no scheduler."""
    monkeypatch.setenv("GPUTUI_GPUS", "sim:3")
    words = ("--timeout", "90", "--env", "SEED=1", "--retries", "2", "--retry-on", "oom,exit:75")
    assert gputui("add", "--no-start", *words, "--", "true", "--lr", "0.1").out == "0\n"
    return os.path.abspath("gputui_run")


def test_adding_to_a_session_in_a_parent_directory_says_so(begun: str, gputui: Gputui) -> None:
    assert gputui("add", "--no-start", "--", "true").err == ""
    below = Path("deep", "down")
    below.mkdir(parents=True)
    os.chdir(below)
    added = gputui("add", "--no-start", "--", "true")
    assert (added.out, added.err) == ("2\n", f"gputui: added to {begun}; for another: --session DIR\n")
    assert gputui("add", "--no-start", "--session", begun, "--", "true").err == ""


def test_a_job_that_can_never_start_gets_a_warning(begun: str, gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> None:
    never = "can never start: needs 99 GPUs; this session has GPU 0, 1, 2"
    added = gputui("add", "--no-start", "--gpus", "99", "--", "true")
    assert (added.status, added.out, added.err) == (0, "1\n", f"gputui: warning: #1 {never}\n")
    swept = gputui("sweep", "true {n}", "-p", "n", "1", "2", "--gpus", "99", "--add", "--no-start")
    assert f"gputui: warning: #2 and 1 other {never}\n" in swept.err
    assert gputui("add", "--no-start", "--gpus", "3", "--", "true").err == ""
    monkeypatch.setenv("EDITOR", "sed -i 's/^gpus = 3/gpus = 99/'")
    assert f"gputui: warning: #4 {never}\n" in gputui("edit", "4").err
    outlook = json.loads(gputui("ls", "--json").out)["outlook"]
    assert [each["job"] for each in outlook["never"]] == [1, 2, 3, 4]
    assert outlook["never"][0]["needs"] == "needs 99 GPUs"


def test_sessions_lists_a_session_without_a_scheduler_and_does_not_open_it(begun: str, gputui: Gputui) -> None:
    (row,) = (line for line in gputui("sessions").out.splitlines() if begun in line)
    assert "1 queued" in row
    assert re.search(r" local +idle +- ", row)
    database = os.stat(os.path.join(begun, ".gputui", "session.db"))
    gputui("sessions")
    assert os.stat(os.path.join(begun, ".gputui", "session.db")) == database


def test_a_damaged_last_look_is_ignored(begun: str, gputui: Gputui) -> None:
    Path(begun, ".gputui", "last_look").write_text("{half")
    (row,) = (line for line in gputui("sessions").out.splitlines() if begun in line)
    assert "queued" not in row


def test_simulated_gpus_are_shown_as_such_and_not_mixed_with_real_ones(begun: str, gputui: Gputui) -> None:
    shown = gputui("gpus").out
    assert shown.count("Simulated GPU") == 3
    refused = gputui("gpus", "+9")
    assert refused.status == 2
    assert "cannot mix simulated and real GPUs" in refused.err
    assert "gputui gpus sim:4" in refused.err
    assert gputui("gpus", "sim:4").status == 0


def test_advice_contains_the_session_that_was_named(begun: str, gputui: Gputui) -> None:
    elsewhere = os.path.relpath(begun, "/")
    os.chdir("/")
    paused = gputui("pause", "--session", elsewhere)
    assert (
        paused.err
        == f"gputui: paused: nothing running, 1 job waiting; to resume: gputui resume --session {elsewhere}\n"
    )
    stopped = gputui("stop", "--session", elsewhere)
    assert stopped.out.endswith(f"1 job waiting. To continue: gputui resume --session {elsewhere}\n")
    added = gputui("add", "--no-start", "--session", elsewhere, "--", "true")
    assert f"resume with: gputui resume --session {elsewhere}\n" in added.err


def test_settings_of_a_job_are_shown_as_they_could_be_written(begun: str, gputui: Gputui) -> None:
    (settings,) = (line for line in gputui("show", "0").out.splitlines() if line.startswith("  settings"))
    written = ("retries=2", "retry_on=oom,exit:75", "hang_after=30m", "timeout=90s", "variables=SEED=1")
    assert [setting for setting in written if setting not in settings.split()] == []
    assert not set("{}[]()'\"") & set(settings)
