"""Settings: which one counts, where it was said, and what is wrong with one that means nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.calling import Gputui

from gputui.cli.run.run import parser
from gputui.cli.run.session_options import job_settings, settle
from gputui.core.events import Settings
from gputui.core.job import JobSpec
from gputui.gpus.lanes import NamedDevices
from gputui.session import config
from gputui.session.config import JOB_SETTINGS, KEYS, VARIABLES, load
from gputui.session.errors import ConfigError


def user_config(text: str) -> Path:
    path = Path(config.user_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def project_config(text: str, folder: str = ".") -> Path:
    path = Path(folder, "gputui.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.absolute()


def test_nothing_said_is_the_default() -> None:
    assert load().get("output_dir") == ("gputui_run", "default")
    assert load().get("grace") == (None, "default")


def test_variables_count_more_than_the_project_and_that_more_than_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_config("retries = 1\ngrace = 10\nprefix = 'u_'\n")
    project = project_config("retries = 2\ngrace = '20s'\n")
    monkeypatch.setenv("GPUTUI_RETRIES", "3")
    found = load()
    assert found.get("retries") == (3, "GPUTUI_RETRIES")
    assert found.get("grace") == (20.0, str(project))
    assert found.get("prefix") == ("u_", str(user))


def test_the_file_beside_the_job_file_counts_before_the_one_here() -> None:
    project_config("retries = 1\n")
    beside = project_config("retries = 2\n", "experiments")
    assert load(["experiments/jobs.txt"]).get("retries") == (2, str(beside))
    assert load(["-"]).get("retries")[0] == 1


def test_a_part_for_this_host_counts_here_only() -> None:
    here = os.uname().nodename
    user_config(f'gpus = "all"\n[host."{here}"]\ngpus = "0,1"\n[host."lab-never"]\ngpus = "7"\n')
    assert load().get("gpus")[0] == "0,1"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('gpus = "0-3"', ("gpus", "0-3")),
        ("gpus = [0, 1]", ("gpus", "0,1")),
        ("gpus = 0", ("gpus", "0")),
        ("timeout = '2h'", ("timeout", 7200.0)),
        ("timeout = 90", ("timeout", 90.0)),
        ("keeper = false", ("keeper", False)),
        ("login_shell = true", ("login_shell", True)),
        ("pause_after = 0", ("pause_after", 0)),
    ],
)
def test_values(written: str, expected: tuple[str, Any]) -> None:
    project_config(written)
    assert load().get(expected[0])[0] == expected[1]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("retires = 1", ["retires", "did you mean retries?"]),
        ("colour = 1", ["colour", "known are"]),
        ("grace = 'soon'", ["grace", "not a duration"]),
        ("timeout = 0", ["timeout", "at once"]),
        ("retries = -1", ["retries"]),
        ("prefix = 3", ["prefix", "quotes"]),
        ("prefix = { a = 1 }", ["prefix", "table"]),
        ("keeper = 'maybe'", ["keeper", "yes nor no"]),
        ("retries = ", ["no TOML"]),
        ("[hooks]\non_pause = 'x'", ["hooks", "your own"]),
        ("[host.lab7]\ngpus = 0", ["host", "your own"]),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(gputui: Gputui, written: str, words: list[str]) -> None:
    file = project_config(written)
    told = gputui("config")
    assert told.status == 2
    for word in [str(file), *words]:
        assert word in told.err


def test_a_wrong_key_in_another_hosts_part_is_said_here_too() -> None:
    user_config('[host."lab-never"]\ngpu = 1\n')
    with pytest.raises(ConfigError, match=r'host."lab-never".gpu is not a setting; did you mean gpus\?'):
        load()


def test_a_wrong_variable_is_said_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_GRACE", "soon")
    with pytest.raises(ConfigError, match="GPUTUI_GRACE"):
        load()


def test_hooks_come_from_the_users_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    user_config("[hooks]\non_pause = 'mail me'\ntimeout = 5\n")
    monkeypatch.setenv("GPUTUI_HOOKS.ON_PAUSE", "evil")
    assert load().get("hooks.on_pause")[0] == "mail me"
    assert load().get("hooks.timeout")[0] == 5.0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_another_users_project_cannot_choose_the_shell() -> None:
    os.chown(project_config("shell = '/home/mallory/sh'\n"), 4243, -1)
    with pytest.raises(ConfigError, match="another user"):
        load()


def test_the_variable_that_tells_a_job_its_folder_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_JOB_DIR", "/session/job_3")
    assert load().get("job_dir")[1] == "default"


def test_every_setting_is_listed_with_its_origin(gputui: Gputui) -> None:
    project_config("retries = 7\n")
    rows = {line.split()[0]: line for line in gputui("config").out.splitlines()[1:]}
    assert list(rows) == list(KEYS)
    assert "gputui.toml" in rows["retries"]
    settings = json.loads(gputui("config", "--json").out)["settings"]
    assert settings["retries"]["value"] == 7
    assert set(VARIABLES) <= set(settings)


def test_a_flag_of_run_counts_more_than_any_setting() -> None:
    project_config("retries = 1\nprefix = 'p_'\ngpus = '0,1'\nlogin_shell = true\nkeeper = false\n")
    options = parser("run").parse_args(["--retries", "5"])
    settle(options)
    assert (options.retries, options.prefix, options.output_dir) == (5, "p_", "gputui_run")
    assert options.gpus == NamedDevices((("0",), ("1",)))
    assert options.login_shell
    assert options.no_keeper


def test_what_a_file_says_for_all_jobs_counts_for_run_and_the_app_as_for_add() -> None:
    examples = {
        "retries": "3", "retry_on": '["oom"]', "on_oom": '"bigger"', "hang_after": '"10m"', "on_hang": '"kill"',
        "metric": '"val_acc max"', "timeout": '"2h"', "shell": '"zsh"', "login_shell": "true",
    }  # fmt: skip
    assert set(examples) <= set(JOB_SETTINGS)
    project_config("".join(f"{key} = {value}\n" for key, value in examples.items()))
    options = parser("run").parse_args(["jobs.txt", "--timeout", "1h"])
    settle(options)
    assert job_settings(options) == replace(load().job_settings(), timeout=3600.0)
    assert None not in (getattr(load().job_settings(), JOB_SETTINGS[key].field) for key in examples)


def test_wrong_gpus_in_a_file_end_run_with_its_name(gputui: Gputui) -> None:
    file = project_config("gpus = 'zero'\n")
    Path("jobs.txt").write_text("true\n")
    told = gputui("run", "jobs.txt")
    assert told.status == 2
    assert str(file) in told.err
    assert not Path("gputui_run").exists()


def test_a_default_is_told_as_what_it_really_is(gputui: Gputui) -> None:
    settings, values = Settings(), json.loads(gputui("config", "--json").out)["settings"]
    for key in ("pause_after", "grace", "keep_free", "ignore_strangers", "at_most"):
        assert values[key] == {"value": getattr(settings, key), "from": "default"}
    spec = JobSpec(command="", cwd="", environment="")
    assert (values["retries"]["value"], values["login_shell"]["value"]) == (spec.retries, spec.login_shell)
    assert values["gpus"]["value"] == "all"
    shown = [line.split()[:3] for line in gputui("config").out.splitlines()]
    assert ["pause_after", "3", "default"] in shown
    assert all(value != "-" for _, value, _ in shown)


def test_the_mouse_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().get("mouse")[0] is True
    project_config("mouse = false\n")
    assert load().get("mouse")[0] is False
    monkeypatch.setenv("GPUTUI_MOUSE", "yes")
    assert load().get("mouse")[0] is True


def test_what_calls_the_user_comes_from_their_own_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_NOTIFY", "evil")
    assert load().get("notify")[0] is None
    user_config("notify = 'mail -s gputui me'\nbell = false\n")
    assert load().get("notify")[0] == "mail -s gputui me"
    assert load().get("bell")[0] is False
    project_config("notify = 'evil'\n")
    with pytest.raises(ConfigError, match="notify is read only from your own"):
        load()
