"""`gputui doctor`: every finding says what to do, programs can read it, and what is serious is told by its status."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.machines import tmpfs
from support.sessions import Gputui

from gputui.cli.commands.daemon import unit, unit_name
from gputui.cli.doctor import machine as checks
from gputui.cli.doctor.machine import (
    Finding,
    directory_findings,
    kills_at_logout,
    limit_findings,
    logout_findings,
    terminal_findings,
)  # fmt: skip
from gputui.process.processes import user_name
from gputui.session.session_dir import Paths


def told(findings: list[Finding]) -> str:
    return "\n".join(f"{each.level} {each.text} → {each.advice}" for each in findings)


def test_doctor_reports_every_area_as_json(gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    seen = gputui("doctor", "--json")
    answer = json.loads(seen.out)
    assert seen.status == 0, seen.out
    assert answer["good"] is True
    areas = {finding["area"] for finding in answer["findings"]}
    assert areas == {"python", "gpus", "directory", "limits", "logout", "shell"}
    assert all(set(finding) == {"area", "level", "text", "advice"} for finding in answer["findings"])
    unwell = [finding for finding in answer["findings"] if finding["level"] != "ok"]
    assert all(finding["advice"] for finding in unwell)


def test_slurm_that_is_asked_for_and_not_there_is_serious(gputui: Gputui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    seen = gputui("doctor", "--slurm")
    assert seen.status == 1
    assert "bad   sbatch not found" in seen.out


def test_a_session_that_others_can_write_to_is_serious(gputui: Gputui, tmp_path: Path) -> None:
    private = tmp_path / "work/gputui_run/.gputui"
    private.mkdir(parents=True)
    (private / "session.db").touch()
    private.chmod(0o770)
    seen = gputui("doctor", "--session", str(tmp_path / "work/gputui_run"))
    assert seen.status == 1
    assert f"bad   others can write to {private}" in seen.out
    assert f"→ chmod 700 {private}" in seen.out
    assert private.stat().st_mode & 0o777 == 0o770  # nothing is mended behind the user's back


def test_a_directory_that_a_group_can_write_to_is_reported(tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    assert "can write to" in told(directory_findings(str(tmp_path / "gputui_run"), exists=False))
    tmp_path.chmod(0o755)
    assert "can write to" not in told(directory_findings(str(tmp_path / "gputui_run"), exists=False))


def test_a_full_disk_is_serious(tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", "2m") as disk:
        (disk / "ballast").write_bytes(bytes(1_500_000))
        findings = told(directory_findings(str(disk / "gputui_run"), exists=False))
    assert "bad 0.0 GiB free in" in findings
    assert "bad cannot write to" in findings
    assert "(tmpfs)" in findings


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_a_low_open_file_limit_is_reported_with_a_fix() -> None:
    assert "note open file limit: 512 → ulimit -n" in told(limit_findings())


def test_a_containers_limit_on_processes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_cgroup_value", lambda name, *_: {"pids.max": 100, "pids.current": 80}.get(name))
    assert "bad 20 more processes and threads available" in told(limit_findings())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with systemd, as far as its files tell."""
    for name in ("run", "linger", "etc/logind.conf.d"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(checks, "RUNNING", str(tmp_path / "run"))
    monkeypatch.setattr(checks, "LINGER", str(tmp_path / "linger"))
    monkeypatch.setattr(checks, "LOGIND", (str(tmp_path / "etc"),))
    return tmp_path


def test_killing_at_logout_is_reported_with_a_fix(machine: Path) -> None:
    (machine / "etc/logind.conf").write_text("[Login]\n#KillUserProcesses=no\nKillUserProcesses = yes\n")
    (finding,) = logout_findings()
    assert finding.level == "note"
    assert finding.advice == f"loginctl enable-linger {user_name(os.getuid())}, then: gputui daemon --install"
    (machine / "linger" / user_name(os.getuid())).touch()
    assert logout_findings()[0].good


def test_the_last_word_of_logind_counts(machine: Path) -> None:
    (machine / "etc/logind.conf").write_text("KillUserProcesses=yes\n")
    (machine / "etc/logind.conf.d/50-lab.conf").write_text("KillUserProcesses=no\n")
    assert not kills_at_logout()


def test_daemon_install_writes_a_service_and_says_how_to_start_it(
    gputui: Gputui, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(machine / "config"))
    root = Paths(str(machine / 'it\'s "50%" $x/gputui_run'))
    os.makedirs(root.root)
    root.create()
    root.check()
    (Path(root.private) / "session.db").touch()
    seen = gputui("daemon", "--install", root.root)
    assert seen.status == 0, seen.err
    name = unit_name(root.root)
    text = (machine / "config/systemd/user" / name).read_text()
    assert f"systemctl --user enable --now {name}" in seen.out
    assert "loginctl enable-linger" in seen.out
    assert '\\"50%%\\" $$x/gputui_run"' in text  # as systemd quotes
    assert "KillMode=process" in text


def test_without_systemd_a_crontab_line_is_suggested(
    gputui: Gputui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "RUNNING", str(tmp_path / "none"))
    root = Paths(str(tmp_path / "gputui_run"))
    root.create()
    (Path(root.private) / "session.db").touch()
    seen = gputui("daemon", "--install", root.root)
    assert seen.status == 1
    assert "@reboot cd " in seen.err
    assert not (tmp_path / "home/.config/systemd").exists()


def test_a_service_finds_the_cluster_as_the_shell_does(tmp_path: Path) -> None:
    text = unit(Paths(str(tmp_path / "gputui_run")), {"SLURM_CONF": "/etc/x.conf", "SECRET": "1"})
    assert 'Environment="SLURM_CONF=/etc/x.conf"' in text
    assert "SECRET" not in text


TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "en_US.UTF-8"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "ok the terminal (xterm-256color) supports 16 million colors and UTF-8"),
        ({"COLORTERM": ""}, "ok the terminal (xterm-256color) supports 256 colors and UTF-8"),
        (
            {"LANG": "en_US.ISO-8859-1"},
            "note the terminal (xterm-256color) supports 16 million colors, and the locale is not",
        ),
        ({"NO_COLOR": ""}, "no colors (NO_COLOR is set)"),
        ({"VTE_VERSION": "7600"}, "note this terminal (VTE"),
        ({"TERM_PROGRAM": "vscode"}, "ok VS Code takes Ctrl-P and F1 for itself"),
        ({"STY": "1.pts"}, "note GNU screen blocks copying"),
        ({"TMUX": "/tmp/tmux,1,0", "tmux": "tmux 3.3a"}, "ok copying (y) works through tmux"),
        ({"TMUX": "/tmp/tmux,1,0", "tmux": "tmux 3.0"}, "note tmux blocks copying with y"),
    ],
)
def test_the_abilities_of_the_terminal_are_reported(
    changes: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputui.cli.doctor.machine.refusal", lambda environment: None)
    monkeypatch.setattr("gputui.cli.doctor.machine._tmux", lambda *_: changes.get("tmux", ""))
    assert words in told(terminal_findings({**TERMINAL, **changes}))
