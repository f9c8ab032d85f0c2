"""Drafts become specs, with an identity where loading again can mean the same jobs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputui.core.job import DEFAULT_PRIORITY, JobSpec, Request
from gputui.sources.command_list import parse_command_list
from gputui.sources.settings import JobSettings
from gputui.sources.source import Draft, Occurrences, has_identity, specs


def one(draft: Draft, *, defaults: JobSettings | None = None, occurrences: Occurrences | None = None) -> JobSpec:
    (spec,) = specs(
        [draft],
        cwd="/work",
        environment="e1",
        group="jobs",
        defaults=defaults or JobSettings(),
        occurrences=occurrences,
    )
    return spec


def test_a_bare_command_gets_every_default() -> None:
    assert one(Draft("ls")) == JobSpec(command="ls", cwd="/work", environment="e1", group="jobs")
    assert one(Draft("ls")).priority == DEFAULT_PRIORITY


def test_every_setting_reaches_the_spec() -> None:
    text = (
        "#: name=a gpus=2 devices=0,1 priority=50 retries=3 timeout=5m after=prep,7 after-any\n"
        "#: hold=yes cwd=sub outfile=o.log group=g login_shell=on shell=zsh\n"
        "python train.py\n"
    )
    (spec,) = specs(parse_command_list(text.encode(), "f"), cwd="/work", environment="e1", group="jobs")
    assert spec == JobSpec(
        command="python train.py",
        cwd="/work/sub",
        environment="e1",
        name="a",
        group="g",
        request=Request(gpus=2, devices=("0", "1")),
        priority=50,
        retries=3,
        timeout=300.0,
        after=("prep", 7),
        after_any=True,
        hold=True,
        shell="zsh",
        login_shell=True,
        outfile="/work/sub/o.log",
    )


def test_settings_of_a_line_override_the_defaults() -> None:
    defaults = JobSettings(priority=10, gpus=4, hold=True)
    spec = one(Draft("ls", JobSettings(gpus=0, hold=False)), defaults=defaults)
    assert (spec.priority, spec.request.gpus, spec.hold) == (10, 0, False)


def test_defaults_may_name_the_group_and_the_directory() -> None:
    spec = one(Draft("ls"), defaults=JobSettings(group="project", cwd="/data"))
    assert (spec.group, spec.cwd) == ("project", "/data")


def test_paths_are_relative_to_the_job_s_directory_or_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    spec = one(Draft("ls", JobSettings(cwd="~/x/../y", outfile="logs/a.log")))
    assert (spec.cwd, spec.outfile) == ("/home/ann/y", "/home/ann/y/logs/a.log")
    assert one(Draft("ls", JobSettings(outfile="/abs/a.log"))).outfile == "/abs/a.log"


def numbers(drafts: list[Draft], occurrences: Occurrences | None) -> list[int | None]:
    given = specs(drafts, cwd="/work", environment="e1", occurrences=occurrences)
    return [spec.occurrence for spec in given]


def test_equal_commands_of_one_load_are_numbered() -> None:
    drafts = [Draft("a"), Draft("b"), Draft("a"), Draft("a")]
    assert numbers(drafts, Occurrences()) == [1, 1, 2, 3]


def test_the_count_continues_over_all_files_of_a_load() -> None:
    occurrences = Occurrences()
    assert numbers([Draft("a")], occurrences) == [1]
    assert numbers([Draft("a")], occurrences) == [2]


def test_the_same_command_in_another_directory_is_another_job() -> None:
    drafts = [Draft("a"), Draft("a", JobSettings(cwd="other")), Draft("a", JobSettings(cwd="/work"))]
    assert numbers(drafts, Occurrences()) == [1, 1, 2]


def test_without_identity_there_is_no_number() -> None:
    assert numbers([Draft("a"), Draft("a")], None) == [None, None]


def test_a_changed_setting_does_not_change_the_identity() -> None:
    plain = one(Draft("a"), occurrences=Occurrences())
    urgent = one(Draft("a", JobSettings(priority=99)), occurrences=Occurrences())
    assert (plain.cwd, plain.command, plain.occurrence) == (urgent.cwd, urgent.command, urgent.occurrence)


def test_regular_files_have_an_identity_also_behind_a_descriptor(tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text("ls\n")
    assert has_identity(str(file))
    with file.open() as stream:
        assert has_identity(stream.fileno())
        assert has_identity(f"/dev/fd/{stream.fileno()}")


def test_pipes_directories_and_missing_files_have_no_identity(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reader, writer = os.pipe()
    assert not has_identity(reader)
    assert not has_identity(f"/dev/fd/{reader}")
    os.close(reader)
    os.close(writer)
    assert not has_identity(str(tmp_path / "fifo"))
    assert not has_identity(str(tmp_path))
    assert not has_identity(str(tmp_path / "missing"))
    assert not has_identity("a\0b")
    assert not has_identity(10**6)
