"""`gputui edit`: a text that round-trips, is checked, and is never lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.sessions import Answers, Gputui, only
from support.wires import FakeOwner, job

from gputui.cli.commands.edit import BadText, spec_in, text_of
from gputui.core.job import JobSpec
from gputui.session.messages import ShownJob

SPEC: dict[str, Any] = {"command": "python a.py", "cwd": "/tmp", "environment": "digest", "hold": True}


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that is the editor; what it gets as $1 is the text."""
    path = tmp_path / "an editor"
    path.mkdir()
    script = path / "edit.sh"
    monkeypatch.setenv("VISUAL", f"sh '{script}'")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return script


def shown(spec: dict[str, Any]) -> ShownJob:
    return msgspec.convert(job(0, spec=spec), ShownJob)


def edited(job: ShownJob, before: str, after: str) -> JobSpec:
    text = text_of(job)
    assert before in text
    return spec_in(text.replace(before, after), job.spec, "file")


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
SPECS = st.fixed_dictionaries(
    {"command": TEXT.filter(str.strip), "cwd": st.just("/tmp"), "environment": st.just("digest")},
    optional={
        "name": TEXT,
        "variables": st.dictionaries(TEXT, TEXT, max_size=3),
        "request": st.fixed_dictionaries(
            {},
            optional={
                "gpus": st.integers(0, 9),
                "devices": st.just(["0"]),
                "memory": st.integers(1, 80).map(lambda g: g << 30),
            },
        ),
        "after": st.lists(st.integers(0, 99) | TEXT, max_size=3),
        "retries": st.integers(0, 9),
        "timeout": st.floats(1, 1e6).map(round).map(float),
        "login_shell": st.booleans(),
    },
)


@given(SPECS)
@example({**SPEC, "variables": {"\n": "two\nlines'"}})
@example({**SPEC, "command": "\nfor x in a b\ndo echo ''$x''\ndone"})
def test_a_text_left_as_it_is_means_the_same_job(spec: dict[str, Any]) -> None:
    before = shown(spec)
    read = spec_in(text_of(before), before.spec, "file")
    assert read == before.spec


def test_an_edit_changes_only_the_edited_settings() -> None:
    spec = edited(shown(SPEC), "priority = 30", "priority = 50")
    assert spec.priority == 50
    assert (spec.hold, spec.environment) == (True, "digest")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("comand = 'x'", "'comand' is not a setting; did you mean command?"),
        ("priority = 'high'", "priority: expected a whole number"),
        ("gpus = 'two'", "gpus: expected a whole number"),
        ("gpus = true", "gpus: expected a whole number"),
        ("timeout = 'soon'", "timeout: 'soon' is not a duration"),
        ("memory = 'lots'", "memory: 'lots' is not a size"),
        ("after = [1.5]", "after[0]: expected a whole number or text"),
        ("env = { A = [1] }", "env: expected"),
        ("command = ' '", "command is empty"),
        ("priority =", "invalid TOML in"),
    ],
)
def test_an_invalid_edit_names_file_and_key(line: str, words: str) -> None:
    key = line.split()[0]
    lines = [one for one in text_of(shown(SPEC)).splitlines() if not one.startswith(f"{key} =")]
    with pytest.raises(BadText, match="file") as wrong:
        spec_in("\n".join([*lines, line]), shown(SPEC).spec, "file")
    assert words in str(wrong.value)


def test_an_edit_carries_the_state_that_was_edited(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, spec=SPEC)}
    editor.write_text("sed -i 's/a.py/b.py/' \"$1\"\n")
    assert gputui("edit", "3").status == 0
    event = only(owner.events())
    assert (event["type"], event["job"], event["seen"]) == ("edit", 3, {"attempt": 0, "state": "queued"})
    assert event["spec"]["command"] == "python b.py"
    assert list(editor.parent.parent.glob("gputui-*")) == []


def test_a_new_priority_counts_though_the_spec_had_it(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, spec=SPEC | {"priority": 30}, priority=60)}
    editor.write_text("sed -i 's/priority = 60/priority = 30/' \"$1\"\n")
    gputui("edit", "3")
    assert owner.events()[1] == {"type": "priority", "job": 3, "priority": 30}


def test_nothing_changed_sends_nothing(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, spec=SPEC)}
    editor.write_text("true\n")
    assert gputui("edit", "3").status == 1
    assert owner.events() == []


def test_a_running_job_is_not_edited(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, "running", spec=SPEC)}
    editor.write_text("false\n")
    assert "only waiting jobs can be edited" in gputui("edit", "3").err


def test_an_invalid_text_is_kept(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, spec=SPEC)}
    editor.write_text("echo 'comand = 1' >>\"$1\"\n")
    told = gputui("edit", "3")
    assert told.status == 1
    kept = re.search(r"kept in (\S+)", told.err)
    assert kept is not None
    assert "comand = 1" in Path(kept[1]).read_text()
    assert owner.events() == []


def test_on_a_terminal_it_can_be_fixed(owner: FakeOwner, gputui: Gputui, editor: Path, answers: Answers) -> None:
    owner.jobs = {3: job(3, spec=SPEC)}
    editor.write_text(
        'if grep -q comand "$1"; then sed -i "/comand/d; s/a.py/c.py/" "$1"; else echo "comand = 1" >>"$1"; fi\n'
    )
    answers("\n")
    assert gputui("edit", "3").status == 0
    assert only(owner.events())["spec"]["command"] == "python c.py"


def test_a_refused_edit_keeps_the_text(owner: FakeOwner, gputui: Gputui, editor: Path) -> None:
    owner.jobs = {3: job(3, spec=SPEC)}
    owner.answers["commands"] = [{"job": 3, "refused": "#3 just started"}]
    editor.write_text("sed -i 's/a.py/b.py/' \"$1\"\n")
    told = gputui("edit", "3")
    assert told.status == 1
    assert "#3 just started" in told.err
    assert "kept in" in told.err
