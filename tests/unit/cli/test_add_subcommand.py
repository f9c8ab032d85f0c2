"""`gputui add`: what is added is what was written, here, with this environment."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.sessions import Gputui, only
from support.wires import FakeOwner

from gputui.cli.output import NOT_FOUND

Spec = dict[str, Any]


def added(owner: FakeOwner) -> Spec:
    spec: Spec = only(only(owner.asks("load"))["specs"])
    return spec


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--", "python", "train.py", "--lr", "0.1"], "python train.py --lr 0.1"),
        (["--", "echo", "a b", "$HOME"], "echo 'a b' '$HOME'"),
        (["echo a && echo $b"], "echo a && echo $b"),
        (["--", "--version"], "--version"),
    ],
)
def test_several_words_are_quoted_and_one_is_taken_as_it_is(
    owner: FakeOwner, gputui: Gputui, words: list[str], command: str
) -> None:
    told = gputui("add", *words)
    assert (told.status, told.out) == (0, "7\n")
    assert added(owner)["command"] == command


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--name", "big"], {"name": "big"}),
        (["--priority", "50"], {"priority": 50}),
        (["--gpus", "2"], {"request": {"gpus": 2}}),
        (["--gpus=0"], {"request": {"gpus": 0}}),
        (["--devices", "0,3"], {"request": {"devices": ["0", "3"]}}),
        (["--memory", "6G"], {"request": {"memory": 6 << 30}}),
        (["--memory", "40%"], {"request": {"memory_share": 0.4}}),
        (["--after", "3,prepare"], {"after": [3, "prepare"]}),
        (["--after-any", "3"], {"after": [3], "after_any": True}),
        (["--retries", "2", "--timeout", "1h30m"], {"retries": 2, "timeout": 5400.0}),
        (["--env", "A=1", "--env", "B=x=y"], {"variables": {"A": "1", "B": "x=y"}}),
        (["--hold", "--login-shell", "--shell", "zsh"], {"hold": True, "login_shell": True, "shell": "zsh"}),
        (["--project", "sweep"], {"group": "sweep"}),
        (["--group", "sweep"], {"group": "sweep"}),
        (["--cwd", "/"], {"cwd": "/"}),
    ],
    ids=lambda case: " ".join(map(str, case)),
)
def test_only_given_settings_are_sent(owner: FakeOwner, gputui: Gputui, words: list[str], expected: Spec) -> None:
    assert gputui("add", *words, "true").status == 0
    assert added(owner) == {"command": "true", "cwd": os.getcwd(), "environment": ""} | expected


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["--priority", "100", "true"],
        ["--timeout", "0", "true"],
        ["--timeout", "soon", "true"],
        ["--gpus", "all", "true"],
        ["--memory", "lots", "true"],
        ["--env", "novalue", "true"],
        ["--cwd", "/does/not/exist", "true"],
        ["--after", "1", "--after-any", "2", "true"],
        ["--script", "/does/not/exist"],
        ["--name"],
        ["--gpu", "1", "true"],
        ["x" * 140_000],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_an_invalid_job_is_refused_before_anything_is_added(owner: FakeOwner, gputui: Gputui, words: list[str]) -> None:
    told = gputui("add", *words)
    assert told.status == 2
    assert told.err.startswith("gputui: ")
    assert owner.asked == []


def test_the_environment_is_the_callers_without_its_login(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "42")
    monkeypatch.setenv("TMUX", "/tmp/tmux")
    gputui("add", "true")
    environment = only(owner.asks("load"))["environment"]
    assert environment["SECRET"] == "42"
    assert "TMUX" not in environment


def test_a_script_is_one_job(owner: FakeOwner, gputui: Gputui, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("set -e\necho one\n\necho two\n")
    gputui("add", "--script", str(script))
    assert added(owner)["command"] == "set -e\necho one\n\necho two"


def test_standard_input_is_one_job(owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"echo one\necho two\n")))
    gputui("add", "-")
    assert added(owner)["command"] == "echo one\necho two"


def test_a_nul_byte_is_refused(owner: FakeOwner, gputui: Gputui, tmp_path: Path) -> None:
    script = tmp_path / "bad.sh"
    script.write_bytes(b"echo \0")
    assert gputui("add", "--script", str(script)).status == 2


def test_inside_a_job_it_joins_that_jobs_session(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTUI_RUN", "token")
    monkeypatch.setenv("GPUTUI_SESSION", str(owner.root))
    assert gputui("add", "true").status == 0
    environment = only(owner.asks("load"))["environment"]
    assert "GPUTUI_RUN" not in environment
    assert "GPUTUI_SESSION" not in environment


def test_settings_of_the_project_count_where_no_flag_is(owner: FakeOwner, gputui: Gputui) -> None:
    Path("gputui.toml").write_text('retries = 2\ntimeout = "1h"\nshell = "dash"\nlogin_shell = true\n')
    gputui("add", "--retries", "5", "true")
    spec = added(owner)
    assert (spec["retries"], spec["timeout"], spec["shell"], spec["login_shell"]) == (5, 3600.0, "dash", True)


def test_a_named_session_is_never_created(gputui: Gputui, tmp_path: Path) -> None:
    told = gputui("add", "--session", str(tmp_path / "none"), "true")
    assert told.status == NOT_FOUND
    assert not (tmp_path / "none").exists()
