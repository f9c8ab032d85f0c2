"""Settings: which one applies, where it comes from, and errors that name file and key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.sessions import Gputui

from gputui.cli.run.session_options import session_options
from gputui.cli.session_flags import parser
from gputui.core.events import Settings
from gputui.core.job import JobSpec
from gputui.gpus.slots import NamedDevices
from gputui.session import config
from gputui.session.config import JOB_SETTINGS, KEYS, VARIABLES, load
from gputui.session.errors import ConfigError


def user_config(text: str) -> Path:
    path = Path(config.user_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def project_config(text: str, directory: str = ".") -> Path:
    path = Path(directory, "gputui.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.absolute()


def test_variables_override_the_project_which_overrides_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_config("retries = 1\ngrace = 10\nprefix = 'u_'\n")
    project = project_config("retries = 2\ngrace = '20s'\n")
    monkeypatch.setenv("GPUTUI_RETRIES", "3")
    found = load()
    assert found.get("retries") == (3, "GPUTUI_RETRIES")
    assert found.get("grace") == (20.0, str(project))
    assert found.get("prefix") == ("u_", str(user))


def test_the_file_beside_the_job_file_overrides_the_one_here() -> None:
    project_config("retries = 1\n")
    beside = project_config("retries = 2\n", "experiments")
    assert load(["experiments/jobs.txt"]).get("retries") == (2, str(beside))
    assert load(["-"]).get("retries")[0] == 1


def test_a_host_table_applies_on_that_host_only() -> None:
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
        ("daemon = false", ("daemon", False)),
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
        ("colour = 1", ["colour", "is not a setting"]),
        ("grace = 'soon'", ["grace", "not a duration"]),
        ("timeout = 0", ["timeout", "at once"]),
        ("retries = -1", ["retries"]),
        ("probe = 'never'", ["probe", "invalid probe delay 'never'"]),
        ("prefix = 3", ["prefix", "quotes"]),
        ("prefix = { a = 1 }", ["prefix", "table"]),
        ("daemon = 'maybe'", ["daemon", "invalid value"]),
        ("retries = ", ["invalid TOML"]),
        ("[hooks]\non_pause = 'x'", ["hooks", "your own"]),
        ("[host.lab7]\ngpus = 0", ["host", "your own"]),
    ],
)
def test_an_error_names_file_and_key(gputui: Gputui, written: str, words: list[str]) -> None:
    file = project_config(written)
    told = gputui("config")
    assert told.status == 2
    for word in [str(file), *words]:
        assert word in told.err


def test_an_unknown_key_for_another_host_is_an_error_too() -> None:
    user_config('[host."lab-never"]\ngpu = 1\n')
    with pytest.raises(ConfigError, match=r'host."lab-never".gpu is not a setting; did you mean gpus\?'):
        load()


def test_an_invalid_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_GRACE", "soon")
    with pytest.raises(ConfigError, match="GPUTUI_GRACE"):
        load()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_another_users_project_cannot_choose_the_shell() -> None:
    os.chown(project_config("shell = '/home/mallory/sh'\n"), 4243, -1)
    with pytest.raises(ConfigError, match="another user"):
        load()


def test_the_job_directory_variable_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_flag_of_run_overrides_any_setting() -> None:
    project_config("retries = 1\nprefix = 'p_'\ngpus = '0,1'\nlogin_shell = true\ndaemon = false\n")
    options = session_options(parser("run").parse_args(["--retries", "5"]))
    assert (options.jobs.retries, options.layout.prefix, options.output_dir) == (5, "p_", "gputui_run")
    assert options.gpus == NamedDevices((("0",), ("1",)))
    assert options.jobs.login_shell
    assert not options.daemon


def test_job_settings_in_a_file_apply_to_run_as_to_add() -> None:
    examples = {
        "retries": "3", "retry_on": '["oom"]', "on_oom": '"bigger"', "hang_after": '"10m"', "on_hang": '"kill"',
        "metric": '"val_acc max"', "timeout": '"2h"', "shell": '"zsh"', "login_shell": "true",
    }  # fmt: skip
    assert set(examples) <= set(JOB_SETTINGS)
    project_config("".join(f"{key} = {value}\n" for key, value in examples.items()))
    options = parser("run").parse_args(["jobs.txt", "--timeout", "1h"])
    assert session_options(options).jobs == replace(load().job_settings(), timeout=3600.0)
    assert None not in (getattr(load().job_settings(), JOB_SETTINGS[key].field) for key in examples)


def test_invalid_gpus_in_a_file_are_an_error_that_names_it(gputui: Gputui) -> None:
    file = project_config("gpus = 'zero'\n")
    Path("jobs.txt").write_text("true\n")
    told = gputui("run", "jobs.txt")
    assert told.status == 2
    assert str(file) in told.err
    assert not Path("gputui_run").exists()


def test_config_shows_the_effective_defaults(gputui: Gputui) -> None:
    settings, values = Settings(), json.loads(gputui("config", "--json").out)["settings"]
    for key in ("pause_after", "grace", "keep_free", "share_gpus", "max_gpus"):
        assert values[key] == {"value": getattr(settings, key), "from": "default"}
    spec = JobSpec(command="", cwd="", environment="")
    assert (values["retries"]["value"], values["login_shell"]["value"]) == (spec.retries, spec.login_shell)
    assert values["gpus"]["value"] == "all"
    shown = [line.split()[:3] for line in gputui("config").out.splitlines()]
    assert ["pause_after", "3", "default"] in shown
    assert all(value != "-" for _, value, _ in shown)


def test_notify_is_only_read_from_the_users_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTUI_NOTIFY", "evil")
    assert load().get("notify")[0] is None
    user_config("notify = 'mail -s gputui me'\nbell = false\n")
    assert load().get("notify")[0] == "mail -s gputui me"
    assert load().get("bell")[0] is False
    project_config("notify = 'evil'\n")
    with pytest.raises(ConfigError, match="notify is only allowed in your own"):
        load()
