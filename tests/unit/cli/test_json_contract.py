"""`--json`: one object on standard output or, for an error, one on standard error with an exit status for its class."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Answers, Gputui, Home, Session
from support.sources import ANSWERS, valid
from support.wires import FakeOwner, job

from gputui.cli.commands import SUBCOMMANDS, parser_of
from gputui.cli.commands.config import answer_schema
from gputui.cli.output import NOT_FOUND, REFUSED, UNREACHABLE, USAGE
from gputui.cli.top import AGENTS


@pytest.fixture
def jobs(owner: FakeOwner) -> FakeOwner:
    owner.jobs = {0: job(0), 1: job(1, "running"), 2: job(2, "failed")}
    return owner


def error_of(gputui: Gputui, *words: str) -> tuple[int, dict[str, Any]]:
    told = gputui(*words)
    assert told.out == ""
    error = json.loads(told.err)
    assert error["schema"] == 1
    assert error["message"]
    return told.status, error


BEGIN = "mkdir -p nowhere && cd nowhere && gputui add -- COMMAND"


def test_the_hint_for_a_missing_session_creates_it(tmp_path: Path) -> None:
    command = (
        BEGIN.replace("gputui", f"{shlex.join(GPUTUI)}").replace("COMMAND", "true").replace("add", "add --no-start")
    )
    assert (
        subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout
        == b"0\n"
    )
    listing = [*GPUTUI, "ls", "--json", "--session", "nowhere"]
    found = subprocess.run(listing, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    assert len(json.loads(found.stdout)["jobs"]) == 1


@pytest.mark.parametrize(
    ("words", "status", "error", "hint"),
    [
        (["ls", "--json", "99"], NOT_FOUND, "not-found", "gputui ls"),
        (["show", "nobody", "--json"], NOT_FOUND, "not-found", "gputui ls"),
        (["ls", "--json", "--sttae", "failed"], USAGE, "usage", "gputui ls --help"),
        (["results", "--json", "--top", "0"], USAGE, "usage", "gputui results --help"),
        (["ls", "--json", "--session", "nowhere"], NOT_FOUND, "no-session", BEGIN),
        (["add", "--json", "--session", "nowhere", "true"], NOT_FOUND, "no-session", BEGIN),
        (["lss", "--json"], USAGE, "usage", "gputui ls"),
        (["help", "agent", "--json"], USAGE, "usage", "gputui help agents"),
        (["help", "wrongword", "--json"], USAGE, "usage", "gputui help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_an_object_with_its_class_and_a_hint(
    jobs: FakeOwner, gputui: Gputui, words: list[str], status: int, error: str, hint: str
) -> None:
    got, described = error_of(gputui, *words)
    assert (got, described["error"], described["hint"]) == (status, error, hint)
    assert gputui(*(word for word in words if word != "--json")).status == status


def test_what_the_owner_refuses_and_an_owner_that_does_not_answer_are_different_errors(
    jobs: FakeOwner, gputui: Gputui
) -> None:
    def refuse(fields: dict[str, Any]) -> None:
        raise PermissionError("not now")

    jobs.answers["listing"] = refuse
    assert error_of(gputui, "ls", "--json")[1]["error"] == "refused"
    assert gputui("ls").status == REFUSED
    jobs.answers["listing"] = "nonsense"
    status, described = error_of(gputui, "ls", "--json")
    assert (status, described["error"]) == (UNREACHABLE, "unreachable")


def test_the_shapes_only_grow() -> None:
    """To promise what was added: gputui config --schema json > tests/unit/cli/answers.json"""
    promised, current = json.loads(ANSWERS.read_text()), json.loads(json.dumps(answer_schema()))
    assert list(lost(promised, current)) == []


def lost(promised: Any, current: Any, where: str = "") -> Iterator[str]:
    """What the promised schema has and the current one does not. Texts for people may change."""
    if isinstance(promised, dict) and isinstance(current, dict):
        for key, value in promised.items():
            if key in ("title", "description") and isinstance(value, str):
                continue
            if key not in current:
                yield f"{where}/{key}"
            else:
                yield from lost(value, current[key], f"{where}/{key}")
    elif isinstance(promised, list) and isinstance(current, list):
        yield from (f"{where}: {value}" for value in promised if value not in current)
    elif promised != current:
        yield f"{where}: {promised} is now {current}"


def test_a_lost_or_changed_field_is_noticed_and_an_added_one_is_not() -> None:
    promised = {"properties": {"id": {"type": "integer"}}, "required": ["id"], "enum": ["a"]}
    assert list(lost(promised, promised | {"enum": ["a", "b"], "title": "new"})) == []
    assert list(lost(promised, {"properties": {"id": {"type": "string"}}, "required": [], "enum": []})) == [
        "/properties/id/type: integer is now string", "/required: id", "/enum: a",
    ]  # fmt: skip


WITHOUT_JSON = ("app", "demo", "completion", "mcp", "exec", "shell")
"""Commands that use the terminal for something else, print code for a shell or speak MCP."""


def test_every_command_takes_json_and_has_a_shape() -> None:
    shapes = answer_schema()["properties"]
    for subcommand in set(SUBCOMMANDS) - set(WITHOUT_JSON):
        assert "--json" in parser_of(subcommand).format_help(), subcommand
        assert subcommand in shapes, subcommand


JOBS_CHANGED = ["hold 0", "kill 1", "requeue 1", "rerun 2", "rm 2", "priority 50 0", "move 0 --top", "notify 1"]


@pytest.mark.parametrize("line", JOBS_CHANGED)
def test_a_command_on_jobs_answers_with_what_became_of_each(jobs: FakeOwner, gputui: Gputui, line: str) -> None:
    command, *words = line.split()
    told = gputui(command, "--json", *words)
    (changed,) = valid(command, told.out)["jobs"]
    assert (told.status, told.err, changed["changed"]) == (0, "", True)
    jobs.answers["commands"] = lambda fields: [{"job": 0, "refused": "not \x1b[31mnow"} for _ in fields["events"]]
    told = gputui(command, "--json", *words)
    (refused,) = valid(command, told.out)["jobs"]
    assert (told.status, refused["changed"], refused["message"]) == (REFUSED, False, "not \x1b[31mnow")
    assert "\x1b" not in told.out


@pytest.mark.parametrize("line", ["pause", "resume", "drain --no-wait"])
def test_a_command_on_the_scheduler_answers_with_its_state(jobs: FakeOwner, gputui: Gputui, line: str) -> None:
    command, *words = line.split()
    shown = valid(command, gputui(command, *words, "--json").out)
    assert (shown["session"], shown["running"], shown["waiting"]) == (str(jobs.root), 1, 1)
    assert shown["messages"]


def test_questions_are_not_asked(jobs: FakeOwner, gputui: Gputui, answers: Answers) -> None:
    answers("y\n")
    jobs.jobs[3] = job(3, "running")
    status, error = error_of(gputui, "kill", "--all", "--json")
    assert (status, error["error"]) == (USAGE, "usage")
    assert jobs.events() == []


def test_answers_of_a_real_session_have_the_promised_shapes(session: Session) -> None:
    jobs = session.write("echo loss=0.5", "echo loss=0.4; exit 3")
    ran = session.run("--json", jobs, "--pause-after", "0")
    assert ran.returncode == 1
    shown = valid("run", ran.stdout)
    assert (shown["jobs"], shown["succeeded"], shown["failed"]) == ([0, 1], 1, 1)
    assert any("exit code 3" in message for message in shown["messages"])
    assert ran.stderr == ""
    for line in (
        "ls", "show 0", "logs 1", "results", "summary", "gpus", "reload", "reload --list", "add --no-start true",
        "sweep {x} -p x 1 2 --add --no-start", "report -o page.html", "edit 2 -y", "stop -y",
    ):  # fmt: skip
        done = session.call(*line.split(), "--json", env={"EDITOR": "sed -i s/true/false/"})
        assert done.returncode == 0, (line, done)
        assert done.stderr == "", line
        valid(line.split()[0], done.stdout)
    assert json.loads(session.call("logs", "1", "--json").stdout)["text"] == "loss=0.4\n"


@pytest.mark.parametrize("line", ["config", "sessions", "doctor", "hosts", "sweep {x} -p x 1 2"])
def test_answers_without_a_session_have_the_promised_shapes(gputui: Gputui, line: str) -> None:
    valid(line.split()[0], gputui(*line.split(), "--json").out)


def test_words_after_two_dashes_are_not_flags(jobs: FakeOwner, gputui: Gputui) -> None:
    assert gputui("add", "--no-start", "--", "train", "--json").out == "7\n"


def test_an_error_cannot_act_on_the_terminal(jobs: FakeOwner, gputui: Gputui) -> None:
    told = gputui("show", "--json", "\x1b]0;owned\x07")
    assert "\x1b" not in told.err
    assert "owned" in json.loads(told.err)["message"]


AGENT_CALL = re.compile(r"^     (gputui .*?)(?: {2,}\(.*\))?$", re.M)


def test_the_page_for_agents_is_true(session: Session) -> None:
    """Its calls are made in order, as they are written, and the answers have the fields that it names."""
    assert max(map(len, AGENTS.splitlines())) <= 100
    program = "import sys; print('val_loss=' + sys.argv[2]); sys.exit(sys.argv[2] == '0.1')"
    (session.directory / "train.py").write_text(program)
    calls = AGENT_CALL.findall(AGENTS)
    assert len(calls) == 8
    cursor = ""
    for call in calls:
        line = call.replace("python ", f"{sys.executable} ").replace("CURSOR", cursor)
        words = [*GPUTUI, *shlex.split(line)[1:]]
        environment = {**os.environ, "GPUTUI_GPUS": "cpu:1", "GPUTUI_OUTPUT_DIR": str(session.root)}
        environment |= {"GPUTUI_SESSION": str(session.root)} if session.root.exists() else {}
        done = subprocess.run(words, cwd=session.directory, env=environment, capture_output=True, text=True, timeout=60)
        if "kill" in line:
            assert json.loads(done.stdout)["jobs"][0]["message"] == "#0 has failed: it has already ended"
            continue
        shown = valid("--dry-run" if "--dry-run" in line else words[3], done.stdout)
        cursor = cursor or shown["cursor"]
        if "wait" in line:
            assert {"state", "exit_code", "kind", "message", "result", "lines"} <= set(shown["ended"][0])
            assert done.returncode in (0, 1), done
        else:
            assert (done.returncode, done.stderr) == (0, ""), done
    Home(session.directory, session.root.name).end()
