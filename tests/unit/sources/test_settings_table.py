"""The one table of job settings feeds every place in which a job can be described."""

from __future__ import annotations

import msgspec
import pytest

from gputui.core.job import JobSpec
from gputui.python.api.jobs import JobOptions
from gputui.session.config import JOB_SETTINGS
from gputui.sources.documents import read_table, table_schema
from gputui.sources.settings import SETTINGS, JobSettings, settings_in
from gputui.sources.source import Draft, changed_spec, settings_of, specs

WRITTEN = {
    "name": "big", "gpus": "2", "devices": "0, GPU-1", "memory": "6G", "priority": "0", "after": "prepare, 3",
    "env": "SEED=1 NAME='two words'", "cwd": "/data", "retries": "3", "timeout": "5400", "after_any": "yes",
    "retry_on": "oom, exit:75", "on_oom": "bigger", "hang_after": "600", "on_hang": "kill", "notify": "yes",
    "metric": "val_acc max",
    "checkpoint": "yes", "preempt": "yes", "hold": "yes",
    "outfile": "/logs/a.log", "group": "lr", "shell": "zsh", "login_shell": "yes",
    "wrap": "apptainer exec x.sif", "task": "module:function", "key": "night lr=0.1", "budget": "20 gpu-h",
    "snapshot": "yes",
}  # fmt: skip


def test_every_setting_has_an_example_here() -> None:
    assert set(WRITTEN) == set(SETTINGS)


def test_the_python_api_has_exactly_these_settings() -> None:
    assert set(JobOptions.__annotations__) == set(SETTINGS)


def test_the_config_file_has_the_settings_that_the_table_allows() -> None:
    assert set(JOB_SETTINGS) == {key for key, setting in SETTINGS.items() if setting.in_config}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_means_the_same_in_a_line_and_in_a_file(key: str) -> None:
    setting = SETTINGS[key]
    in_line = JobSettings(**settings_in(f'{key}="{WRITTEN[key]}"'))
    assert getattr(in_line, setting.field) == setting.read(WRITTEN[key])
    if key not in ("gpus", "priority", "retries", "env", "after") and setting.metavar:
        assert read_table({key: WRITTEN[key]}).settings == in_line
    assert set(table_schema()["properties"]) >= {key, *setting.also}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_formatted_value_is_parsed_to_the_same_value(key: str) -> None:
    setting = SETTINGS[key]
    value = setting.read(WRITTEN[key])
    assert setting.read(setting.write(value)) == value


def test_the_settings_of_a_job_are_those_it_was_given() -> None:
    given = JobSettings(**{setting.field: setting.read(WRITTEN[key]) for key, setting in SETTINGS.items()})
    (spec,) = specs([Draft("train", given)], cwd="/w", environment="e")
    assert settings_of(spec) == given
    blank = JobSpec(command="train", cwd="/w", environment="e")
    assert changed_spec(blank, "train", given) == spec
    assert changed_spec(spec, "train", JobSettings(cwd="/w")) == blank


def test_settings_are_stored_and_read_back() -> None:
    given = JobSettings(**{setting.field: setting.read(WRITTEN[key]) for key, setting in SETTINGS.items()})
    assert msgspec.json.decode(msgspec.json.encode(given), type=JobSettings) == given
