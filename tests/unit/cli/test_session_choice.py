"""Which session a command means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.sessions import Gputui
from support.wires import FakeOwner

from gputui.__main__ import _normalize
from gputui.cli.commands import SUBCOMMANDS
from gputui.cli.output import NOT_FOUND
from gputui.session.client import NeedsSession, chosen, nearest
from gputui.session.control.connection import NoSession


def a_session(directory: Path) -> Path:
    (directory / ".gputui").mkdir(parents=True)
    return directory


def found(start: Path, home: Path) -> Path | None:
    start.mkdir(parents=True, exist_ok=True)
    root = nearest(str(start), str(home))
    return Path(root) if root is not None else None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "user"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    ("sessions", "repository", "start", "expected"),
    [
        (["project/gputui_run"], "", "project/deep/er", "project/gputui_run"),
        (["project/hog_run"], "", "project/deep/er", "project/hog_run"),
        (["project/results"], "", "project/results/job_3", "project/results"),
        (["project/gputui_run", "project/sub/gputui_run"], "", "project/sub", "project/sub/gputui_run"),
        (["project/gputui_run"], "project/repository", "project/repository/src", None),
        (["repository/gputui_run"], "repository", "repository/src", "repository/gputui_run"),
        (["gputui_run", ""], "", "project", None),
        (["gputui_run"], "", "", "gputui_run"),
        ([""], "", "", None),
        ([], "", "project/gputui_run", None),
    ],
    ids=[
        "upward", "hog", "within", "nearest", "not beyond the git root", "in the git root", "home from below",
        "home itself", "home is marked", "no session",
    ],
)  # fmt: skip
def test_the_nearest_session_upward_is_found(
    home: Path, sessions: list[str], repository: str, start: str, expected: str | None
) -> None:
    for session in sessions:
        a_session(home / session)
    if repository:
        (home / repository / ".git").mkdir(parents=True)
    assert found(home / start, home) == (home / expected if expected is not None else None)


def test_a_session_of_another_user_is_skipped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_session(home / "project" / "gputui_run")
    monkeypatch.setattr("os.getuid", lambda: 4242)
    assert found(home / "project", home) is None


def test_the_parent_of_a_session_may_be_named(tmp_path: Path) -> None:
    session = a_session(tmp_path / "project" / "gputui_run")
    assert chosen("ls", str(tmp_path / "project")) == str(session)
    assert chosen("ls", str(session)) == str(session)


def test_the_flag_overrides_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = a_session(tmp_path / "one"), a_session(tmp_path / "two")
    monkeypatch.setenv("GPUTUI_SESSION", str(first))
    assert chosen("kill") == str(first)
    assert chosen("kill", str(second)) == str(second)


@pytest.mark.parametrize("subcommand", ["add", "ls", "show"])
def test_inside_a_job_some_commands_use_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subcommand: str
) -> None:
    session = a_session(tmp_path / "one")
    monkeypatch.setenv("GPUTUI_SESSION", str(session))
    monkeypatch.setenv("GPUTUI_RUN", "token")
    assert chosen(subcommand) == str(session)


@pytest.mark.parametrize("subcommand", ["kill", "stop", "pause", "rerun", "wait", "logs", "gpus"])
def test_inside_a_job_other_commands_need_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subcommand: str
) -> None:
    session = a_session(tmp_path / "one")
    monkeypatch.setenv("GPUTUI_SESSION", str(session))
    monkeypatch.setenv("GPUTUI_RUN", "token")
    with pytest.raises(NeedsSession, match="--session"):
        chosen(subcommand)
    assert chosen(subcommand, str(session)) == str(session)


def test_without_a_session_the_error_says_how_to_start_one(gputui: Gputui) -> None:
    told = gputui("ls")
    assert told.status == NOT_FOUND
    assert "gputui run FILE" in told.err
    with pytest.raises(NoSession):
        chosen("ls")


def test_the_configured_directory_is_found_too(tmp_path: Path) -> None:
    session = a_session(tmp_path / "work" / "results")
    Path("gputui.toml").write_text('output_dir = "results"\n')
    assert chosen("ls") == str(session)


def test_a_subcommand_finds_its_session_from_a_directory_below(
    owner: FakeOwner, gputui: Gputui, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    assert str(owner.root) in gputui("ls").out


def test_a_session_named_before_the_subcommand_is_the_subcommands() -> None:
    assert _normalize(["--session", "dir", "ls", "-l"]) == ["ls", "--session", "dir", "-l"]
    assert _normalize(["--session", "dir"]) == ["--session", "dir"]
    assert _normalize(["ls"]) == ["ls"]


OF_A_SESSION = set(SUBCOMMANDS) - {"app", "completion", "config", "demo", "doctor", "hosts", "sessions"}
ADVISED = re.compile(rf"gputui (?:{'|'.join(OF_A_SESSION)})\b(?! --help)[^;.·!)\n]*")
FOR_ONE_SESSION = [
    "ls", "ls --json 99", "wait", "add --no-start --after 99 -- true", "pause", "ls", "add --no-start -- true",
    "rerun 0 --no-start", "logs 0", "logs 99", "show 99", "kill --all", "hold", "reload", "reload --forget none.txt",
    "gpus", "gpus -9", "gpus --now", "gpus slurm:2", "results", "summary", "report -o nowhere/x", "move 0 --before 99",
    "priority 50 99", "notify 99", "release --all -y", "drain --no-wait", "stop -y", "resume --no-start", "rm 0",
]  # fmt: skip


def test_every_suggested_command_contains_the_named_session(
    gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gputui("run", "--gpus", "cpu:1", "--no-daemon", *_a_file("echo said >&2\n"))
    gputui("add", "--no-start", "--", "true")
    monkeypatch.chdir(tmp_path)
    Path("work/jobs.txt").unlink()
    advised = []
    for line in FOR_ONE_SESSION:
        subcommand, *words = line.split()
        told = gputui(subcommand, "--session", "work", *words)
        assert "Traceback" not in told.err
        advised += [(line, advice) for advice in ADVISED.findall(told.out + told.err)]
    assert [(line, advice) for line, advice in advised if "--session work" not in advice and "work" not in advice] == []
    assert len({advice.split()[1] for _, advice in advised}) > 3, "some was given"


def _a_file(text: str) -> list[str]:
    Path("jobs.txt").write_text(text)
    return ["jobs.txt"]


def test_a_missing_session_is_suggested_where_it_was_named(gputui: Gputui, tmp_path: Path) -> None:
    for subcommand in ("ls", "pause", "resume", "results"):
        told = gputui(subcommand, "--session", f"{tmp_path}/my runs")
        assert f"start one with: gputui run --output-dir '{tmp_path}/my runs' FILE" in told.err
