"""Which kind of input a file is, by its name or, for Python, by what it defines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.sources.kinds import READERS, Kind, kind_of, read_drafts
from gputui.sources.source import BadInput


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("jobs.txt", Kind.COMMANDS),
        ("jobs", Kind.COMMANDS),
        ("run.sh", Kind.COMMANDS),
        ("a.toml", Kind.SPEC),
        ("a.yaml", Kind.SPEC),
        ("a.YML", Kind.SPEC),
        ("a.esy", Kind.PEASY),
        ("a.peasy", Kind.PEASY),
    ],
)
def test_the_kind_of_a_file_by_its_name(name: str, kind: Kind) -> None:
    assert kind_of(name) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def yielder():\n    yield 'a'", Kind.YIELDER),
        ("yielder = lambda: ['a']", Kind.YIELDER),
        ("from x import jobs as yielder", Kind.YIELDER),
        ("if 1:\n    config = {}", Kind.TASK_CONFIG),
        ("from base import config\nconfig['a'] = 1", Kind.TASK_CONFIG),
        ("config = {}\ndef yielder(): return []", Kind.YIELDER),
    ],
)
def test_the_kind_of_a_python_file_is_found_without_running_it(tmp_path: Path, text: str, kind: Kind) -> None:
    path = tmp_path / "x.py"
    path.write_text(text + "\nraise SystemExit('it was run')\n")
    assert kind_of(str(path)) is kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"x = 1", "defines neither yielder() nor config"),
        (b"def yielder(:", "line 1: invalid Python"),
        (b"\0", "invalid Python: source code string cannot contain null bytes"),
    ],
)
def test_any_other_python_file_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(text)
    with pytest.raises(BadInput) as wrong:
        kind_of(str(path))
    assert message in str(wrong.value)


def test_a_missing_python_file_is_named() -> None:
    with pytest.raises(BadInput, match="no such file"):
        kind_of("/nowhere/x.py")


def test_every_kind_of_plain_jobs_has_its_reader(tmp_path: Path) -> None:
    texts = {Kind.COMMANDS: "ls\n", Kind.SPEC: "[[job]]\ncommand = 'ls'\n", Kind.PEASY: "a;; b;; ls"}
    assert texts.keys() == READERS.keys()
    for kind, text in texts.items():
        path = tmp_path / {Kind.SPEC: "jobs.toml", Kind.PEASY: "jobs.esy"}.get(kind, "jobs.txt")
        path.write_text(text)
        assert [draft.command for draft in read_drafts(str(path), kind)] == ["ls"]


@given(st.binary())
def test_any_python_file_has_a_kind_or_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.py"
    path.write_bytes(content)
    with suppress(BadInput):
        kind_of(str(path))
