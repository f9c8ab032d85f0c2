"""`ls` and `show`: what is there, why it waits, and nothing that acts on a terminal."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.core import operations
from support.sessions import Gputui, Home
from support.sources import valid
from support.wires import FakeOwner, job

from gputui.cli.commands import ls as listing
from gputui.cli.output import NOT_FOUND, Column, OutputFormat, table
from gputui.session.messages import Listed
from gputui.views.format import cut, width


def on_paper(columns: int | None, *, colour: bool = False) -> OutputFormat:
    paper = OutputFormat()
    paper.width, paper.colour = columns, colour
    return paper


def a_listing(*jobs: dict[str, Any], **changes: Any) -> Listed:
    counts: dict[str, int] = {}
    for one in jobs:
        counts[one["state"]] = counts.get(one["state"], 0) + 1
    scheduler = {"state": "running", "cause": None}
    fields = {"session": "/w", "scheduler": scheduler, "process": None, "counts": counts, "jobs": list(jobs)} | changes
    return msgspec.convert(fields, Listed)


def test_a_row_has_id_state_priority_gpu_time_and_name(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {12: job(12, "succeeded", name="lr=0.1", gpus=["0", "1"])}
    row = gputui("ls").out.splitlines()[-1]
    assert row.split() == ["12", "✓", "succeeded", "30", "0,1", "1:00", "lr=0.1"]


def test_a_job_without_a_name_shows_its_command(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0)}
    assert "python train.py 0" in gputui("ls").out


def test_why_a_job_waits_and_how_it_failed_is_listed(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {
        0: job(0, why="waiting for 2 GPUs: 0 2 busy, 1 used by alice"),
        1: job(1, "failed", end="ModuleNotFoundError: No module named 'timm'"),
        2: job(2, "failed"),
        3: job(3, "failed", signal=9, exit_code=137),
    }
    out = gputui("ls").out
    for words in ("used by alice", "No module named 'timm'", "exit 1", "signal 9"):
        assert words in out


def test_the_header_shows_the_pause_and_its_cause(owner: FakeOwner, gputui: Gputui) -> None:
    cause: dict[str, Any] = {"kind": "crashes", "message": "3 jobs crashed the same way", "jobs": [], "signature": None}
    owner.scheduler = {"state": "paused", "cause": cause}
    owner.jobs = {0: job(0), 1: job(1, "running")}
    first, second, *_ = gputui("ls").out.splitlines()
    assert "PAUSED" in first
    assert "1 queued · 1 running" in first
    assert "3 jobs crashed the same way" in second


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    jobs = [
        job(
            number, name="名前" * 40 if number % 2 else "n" * 300, why="because " * 30, gpus=[str(g) for g in range(16)]
        )
        for number in range(20)
    ]
    lines = listing.render(a_listing(*jobs, session="/a/long/path" * 20), on_paper(columns), 0.0)
    assert all(width(line) <= columns for line in lines)


def test_without_a_terminal_nothing_is_cut_or_colored(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, "failed", name="n" * 500)}
    out = gputui("ls").out
    assert "n" * 500 in out
    assert "\x1b" not in out


def test_without_a_terminal_one_long_command_widens_no_other_row(owner: FakeOwner, gputui: Gputui) -> None:
    for long in ("n" * 130_000, "名" * 130_000):
        owner.jobs = {0: job(0, name=long, why="w0"), 1: job(1, name="short", why="w1"), 2: job(2, name="名", why="w2")}
        *_, first, second, third = gputui("ls").out.splitlines()
        assert first.endswith(f"{long}  w0")
        assert width(second) == width(third)
        assert len(second) < 200
        assert (second[-2:], third[-2:]) == ("w1", "w2")


def test_color_is_never_the_only_sign_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = a_listing(job(0, "failed"))
    assert "\x1b[31m" in "\n".join(listing.render(rows, on_paper(80, colour=True), 0.0))
    assert "✗ failed" in "\n".join(listing.render(rows, on_paper(80, colour=False), 0.0))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda fd: type("S", (), {"columns": 80, "lines": 24}))
    monkeypatch.setenv("TERM", "xterm")
    assert OutputFormat().colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not OutputFormat().colour


@pytest.mark.parametrize("subcommand", [["ls"], ["show", "0"], ["ls", "--json"], ["show", "0", "--json"]])
def test_job_names_cannot_contain_control_sequences_when_printed(
    owner: FakeOwner, gputui: Gputui, subcommand: list[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jname\r\nnext"
    history = [{"time": 1.0, "text": evil}]
    owner.jobs = {
        0: job(0, name=evil, command=evil, why=evil, cwd=evil, group=evil, end=evil, out=evil, history=history)
    }
    out = gputui(*subcommand).out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\r" not in out


def test_states_ids_and_names_filter(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0), 1: job(1, "failed"), 2: job(2, name="base"), 3: job(3, "timed_out")}

    def shown(*words: str) -> list[int]:
        return [one["id"] for one in valid("ls", gputui("ls", "--json", *words).out)["jobs"]]

    assert shown("--state", "failed") == shown("--state", "crashed") == [1, 3]
    assert shown("--state", "timed_out", "--state", "queued") == [0, 2, 3]
    assert shown("0-1") == [0, 1]
    assert shown("base") == [2]


def test_an_unknown_job_is_an_error(owner: FakeOwner, gputui: Gputui) -> None:
    assert gputui("ls", "99").status == NOT_FOUND
    assert gputui("show", "nobody").status == NOT_FOUND


def test_show_has_history_settings_and_attempts(owner: FakeOwner, gputui: Gputui) -> None:
    past = {
        "state": "failed", "exit_code": 1, "signal": None, "gpus": ["0"], "started": 1.0, "ended": 2.0,
        "out": "/w/attempts/1/OUT", "err": None, "gpu_mean": None, "gpu_peak_memory": None,
    }  # fmt: skip
    attempts = [past | {"number": 1}, past | {"number": 2, "out": "/w/attempts/2/OUT"}]
    spec = {"command": "x", "cwd": "/", "environment": "d", "retries": 3, "request": {"gpus": 2}}
    owner.jobs = {0: job(0, "failed", attempts=attempts, spec=spec, out="/w/OUT")}
    out = gputui("show", "0").out
    for words in ("retries=3", "gpus=2", "/w/OUT", "/w/attempts/2/OUT", "history:", "added"):
        assert words in out


def test_the_environment_is_asked_for_only_on_demand(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, environment={"TOKEN": "secret"})}
    gputui("show", "0")
    assert "environment" not in owner.asks("show")[0]
    assert "TOKEN=secret" in gputui("show", "0", "--env").out
    assert owner.asks("show")[1]["environment"] is True


def test_an_ambiguous_name_is_an_error(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {0: job(0, name="twin"), 1: job(1, name="twin")}
    told = gputui("show", "twin")
    assert told.status == 1
    assert "0, 1" in told.err


@pytest.mark.parametrize("size", range(8))
def test_shortened_text_has_the_size_wanted(size: int) -> None:
    assert width(cut("名前名前", size)) <= size
    assert width(cut("abcdefghijk", size)) == size


def test_a_column_that_may_not_be_cut_stays() -> None:
    columns = (Column("id"), Column("job", least=5))
    lines = table(columns, [["123456", "x" * 50]], on_paper(20), [""])
    assert lines[1] == "123456  xxxxxxxxxxx…"


def test_listing_costs_little_for_each_job(tmp_path: Path, gputui: Gputui) -> None:
    """Counted in operations, with the answer from the store."""
    few, many = Home(tmp_path, "few"), Home(tmp_path, "many")
    few.begin("true")
    many.begin(*(f"python train.py --seed {seed}" for seed in range(1, 501)))
    costs = [operations(partial(gputui, "ls", "--session", str(home.root))) for home in (few, many)]
    assert 0 < costs[1] - costs[0] < 500 * 350, costs
