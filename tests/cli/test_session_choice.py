"""Which session a verb means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.calling import Gputui
from support.fake_owner import FakeOwner

from gputui.__main__ import _verb_first
from gputui.cli.verbs import VERBS
from gputui.session.client import NeedsSession, chosen, nearest
from gputui.session.control.connection import NoSession


def a_session(folder: Path) -> Path:
    (folder / ".gputui").mkdir(parents=True)
    return folder


def found(start: Path, home: Path) -> Path | None:
    start.mkdir(parents=True, exist_ok=True)
    root = nearest(str(start), str(home))
    return Path(root) if root is not None else None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "user"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", ["gputui_run", "hog_run"])
def test_upward_from_here(home: Path, name: str) -> None:
    session = a_session(home / "project" / name)
    assert found(home / "project" / "deep" / "er", home) == session


def test_within_a_session_it_is_that_one(home: Path) -> None:
    session = a_session(home / "project" / "results")
    assert found(session / "job_3", home) == session


def test_the_nearest_wins(home: Path) -> None:
    a_session(home / "project" / "gputui_run")
    near = a_session(home / "project" / "sub" / "gputui_run")
    assert found(home / "project" / "sub", home) == near


def test_not_beyond_the_git_root(home: Path) -> None:
    a_session(home / "project" / "gputui_run")
    (home / "project" / "repository" / ".git").mkdir(parents=True)
    assert found(home / "project" / "repository" / "src", home) is None


def test_the_git_root_itself_counts(home: Path) -> None:
    (home / "repository" / ".git").mkdir(parents=True)
    session = a_session(home / "repository" / "gputui_run")
    assert found(home / "repository" / "src", home) == session


def test_the_home_folder_is_never_found_from_below(home: Path) -> None:
    a_session(home / "gputui_run")
    (home / ".gputui").mkdir()
    assert found(home / "project", home) is None


def test_the_home_folders_session_is_found_right_there(home: Path) -> None:
    session = a_session(home / "gputui_run")
    assert found(home, home) == session


def test_a_home_that_is_itself_marked_is_no_session(home: Path) -> None:
    (home / ".gputui").mkdir()
    assert found(home, home) is None


def test_a_folder_of_that_name_without_a_session_is_none(home: Path) -> None:
    (home / "project" / "gputui_run").mkdir(parents=True)
    assert found(home / "project", home) is None


def test_somebody_elses_session_is_passed_by(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_session(home / "project" / "gputui_run")
    monkeypatch.setattr("os.getuid", lambda: 4242)
    assert found(home / "project", home) is None


def test_the_folder_that_holds_the_session_may_be_named(tmp_path: Path) -> None:
    session = a_session(tmp_path / "project" / "gputui_run")
    assert chosen("ls", str(tmp_path / "project")) == str(session)
    assert chosen("ls", str(session)) == str(session)


def test_the_variable_counts_and_the_flag_counts_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = a_session(tmp_path / "one"), a_session(tmp_path / "two")
    monkeypatch.setenv("GPUTUI_SESSION", str(first))
    assert chosen("kill") == str(first)
    assert chosen("kill", str(second)) == str(second)


@pytest.mark.parametrize("verb", ["add", "ls", "show"])
def test_inside_a_job_some_verbs_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    session = a_session(tmp_path / "one")
    monkeypatch.setenv("GPUTUI_SESSION", str(session))
    monkeypatch.setenv("GPUTUI_RUN", "token")
    assert chosen(verb) == str(session)


@pytest.mark.parametrize("verb", ["kill", "stop", "pause", "rerun", "wait", "logs", "gpus"])
def test_inside_a_job_the_others_must_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    session = a_session(tmp_path / "one")
    monkeypatch.setenv("GPUTUI_SESSION", str(session))
    monkeypatch.setenv("GPUTUI_RUN", "token")
    with pytest.raises(NeedsSession, match="--session"):
        chosen(verb)
    assert chosen(verb, str(session)) == str(session)


def test_none_says_how_to_begin(gputui: Gputui) -> None:
    told = gputui("ls")
    assert told.status == 1
    assert "gputui run FILE" in told.err
    with pytest.raises(NoSession):
        chosen("ls")


def test_the_configured_folder_is_found_too(tmp_path: Path) -> None:
    session = a_session(tmp_path / "work" / "results")
    Path("gputui.toml").write_text('output_dir = "results"\n')
    assert chosen("ls") == str(session)


def test_a_verb_finds_its_session_from_a_folder_below(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    assert str(owner.root) in gputui("ls").out


def test_a_session_named_before_the_verb_is_the_verbs() -> None:
    assert _verb_first(["--session", "dir", "ls", "-l"]) == ["ls", "--session", "dir", "-l"]
    assert _verb_first(["--session", "dir"]) == ["--session", "dir"]
    assert _verb_first(["ls"]) == ["ls"]


OF_A_SESSION = set(VERBS) - {"app", "completion", "config", "demo", "doctor", "hosts", "sessions"}
ADVISED = re.compile(rf"gputui (?:{'|'.join(OF_A_SESSION)})\b(?! --help)[^;.·!)\n]*")
FOR_ONE_SESSION = [
    "ls", "ls --json 99", "wait", "add --no-start --after 99 -- true", "pause", "ls", "add --no-start -- true",
    "rerun 0 --no-start", "logs 0", "logs 99", "show 99", "kill --all", "hold", "reload", "reload --forget none.txt",
    "gpus", "gpus -9", "gpus --now", "gpus slurm:2", "results", "summary", "report -o nowhere/x", "move 0 --before 99",
    "priority 50 99", "notify 99", "release --all -y", "drain --no-wait", "stop -y", "resume --no-start", "rm 0",
]  # fmt: skip


def test_every_command_that_is_advised_names_the_session_that_was_named(
    gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gputui("run", "--gpus", "cpu:1", "--no-keeper", *_a_file("echo said >&2\n"))
    gputui("add", "--no-start", "--", "true")
    monkeypatch.chdir(tmp_path)
    Path("work/jobs.txt").unlink()
    advised = []
    for line in FOR_ONE_SESSION:
        verb, *words = line.split()
        told = gputui(verb, "--session", "work", *words)
        assert "Traceback" not in told.err
        advised += [(line, advice) for advice in ADVISED.findall(told.out + told.err)]
    assert [(line, advice) for line, advice in advised if "--session work" not in advice and "work" not in advice] == []
    assert len({advice.split()[1] for _, advice in advised}) > 3, "some was given"


def _a_file(text: str) -> list[str]:
    Path("jobs.txt").write_text(text)
    return ["jobs.txt"]


def test_a_session_that_is_not_there_is_begun_where_it_was_named(gputui: Gputui, tmp_path: Path) -> None:
    for verb in ("ls", "pause", "resume", "results"):
        told = gputui(verb, "--session", f"{tmp_path}/my runs")
        assert f"begin one with: gputui run --output-dir '{tmp_path}/my runs' FILE" in told.err
