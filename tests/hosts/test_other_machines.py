"""Several machines by the user's own ssh: the same words there, one look at all of them, a job where there is room."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from support.nvml import FakeNvml, NoCompiler, build_fake_nvml
from support.sessions import GPUTUI, Done, finished
from support.sshd import Lab

GIB = 1024**3


def gputui(lab: Lab, *words: str, given: str | None = None, **environment: str) -> Done:
    process = subprocess.Popen(
        [*GPUTUI, *words],
        cwd=lab.folder,
        env=lab.environment(**environment),
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    done = finished(process, given)
    assert "Traceback" not in done.stderr
    return done


def configure(lab: Lab, text: str) -> None:
    file = lab.folder / "config" / "gputui" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def with_gpus(lab: Lab, library: Path, name: str, *totals: int, used: int = 0) -> dict[str, str]:
    """The environment of a machine with such cards."""
    folder = lab.folder / f"nvml-{name}"
    folder.mkdir()
    driver = FakeNvml(library, folder)
    driver.set(
        [
            {"name": "NVIDIA A100", "uuid": f"GPU-{name}-{index}", "mem_total": total, "mem_used": used}
            for index, total in enumerate(totals)
        ]
    )
    return {key: driver.environment[key] for key in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE", "GPUTUI_LEASES")}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build_fake_nvml(tmp_path_factory.mktemp("nvml"))
    except NoCompiler as reason:
        pytest.skip(str(reason))


def test_a_verb_with_a_host_runs_there_with_its_input_its_output_and_its_status(lab: Lab) -> None:
    home = lab.machine("lab7")
    done = gputui(
        lab, "--host", "lab7", "run", "--gpus", "cpu:1", "--no-keeper", given='echo "it\'s here" $HOME\nexit 3\n'
    )
    assert done.returncode == 1, done
    assert (home / "gputui_run" / "job_0" / "job_0.OUT").read_text() == f"it's here {home}\n"
    listed = gputui(lab, "ls", "--json", "--host=lab7")
    assert [job["state"] for job in json.loads(listed.stdout)["jobs"]] == ["succeeded", "failed"]


def test_a_folder_that_was_named_once_is_remembered_and_the_settings_win_over_it(lab: Lab) -> None:
    home = lab.machine("lab7")
    for name in ("runs and more", "other"):
        (home / name).mkdir()
    first = gputui(lab, "--host", "lab7:runs and more", "add", "--no-start", "--", "true")
    assert (first.returncode, first.stdout) == (0, "0\n"), first
    assert "from now on --host lab7 means its folder runs and more" in first.stderr
    again = gputui(lab, "--host", "lab7", "ls", "--json")
    assert json.loads(again.stdout)["session"] == str(home / "runs and more" / "gputui_run")
    configure(lab, '[host."lab7"]\nfolder = "~/other"\n')
    assert "there is no session" in gputui(lab, "--host", "lab7", "ls").stderr


def test_what_stands_behind_the_dashes_is_the_jobs_own(lab: Lab) -> None:
    done = gputui(lab, "add", "--no-start", "--", "serve", "--host", "0.0.0.0")
    assert done.returncode == 0, done
    shown = json.loads(gputui(lab, "show", "0", "--json").stdout)
    assert shown["command"] == "serve --host 0.0.0.0"


def test_machines_that_are_dead_or_silent_hold_nobody_up_and_are_named(lab: Lab, library: Path) -> None:
    lab.machine("lab7", with_gpus(lab, library, "lab7", 40 * GIB))
    lab.machine("lab8", with_gpus(lab, library, "lab8", 24 * GIB, 24 * GIB))
    lab.dead("lab9")
    done = gputui(lab, "hosts", "--host", "lab7,lab8,lab9", "--json")
    told = {host["host"]: host for host in json.loads(done.stdout)["hosts"]}
    assert [len(told[name]["look"]["cards"]) for name in ("lab7", "lab8")] == [1, 2]
    assert told["lab9"]["look"] is None
    assert "Connection refused" in told["lab9"]["trouble"]
    table = gputui(lab, "hosts", "--host", "lab7,lab9").stdout
    assert "0.0/40G" in table
    assert "free" in table
    assert table.splitlines()[-1].startswith("lab9: ssh: connect to host")


def test_a_machine_that_never_answers_is_told_as_slow(lab: Lab) -> None:
    lab.machine("lab7")
    lab.silent("lab8")
    began = time.monotonic()
    done = gputui(lab, "hosts", "--host", "lab8,lab7")
    assert "lab8: " in done.stdout
    assert "no answer" in done.stdout or "timed out" in done.stdout.lower()
    assert "cpu 0" in done.stdout
    assert time.monotonic() - began < 60


def test_a_machine_without_gputui_says_what_to_do(lab: Lab) -> None:
    lab.machine("lab7", {"SHELL": "/bin/sh"}, has_gputui=False)
    assert "gputui is not found there: install it" in gputui(lab, "hosts", "--host", "lab7").stdout
    done = gputui(lab, "--host", "lab7", "ls")
    assert done.returncode == 1
    assert "install gputui on lab7" in done.stderr
    configure(lab, f'[host."lab7"]\ngputui = "{_own_program(lab)}"\n')
    assert gputui(lab, "--host", "lab7", "--version").returncode == 0


def _own_program(lab: Lab) -> Path:
    program = lab.folder / "my gputui"
    program.write_text(f'#!/bin/sh\nexec {" ".join(GPUTUI)} "$@"\n')
    program.chmod(0o755)
    return program


def test_a_job_for_any_machine_goes_where_a_card_of_its_size_is_free(lab: Lab, library: Path) -> None:
    lab.machine("lab7", with_gpus(lab, library, "lab7", 24 * GIB, 24 * GIB))
    home = lab.machine("lab8", with_gpus(lab, library, "lab8", 80 * GIB))
    configure(lab, 'hosts = ["lab7", "lab8", "lab9"]\n')
    lab.dead("lab9")
    done = gputui(lab, "add", "--host", "any", "--memory", "60G", "--no-start", "--", "true")
    assert (done.returncode, done.stdout) == (0, "0\n"), done
    assert "lab8 has 1 free GPU with 60" in done.stderr
    assert "lab9: ssh: connect" in done.stderr
    assert (home / "gputui_run" / ".gputui").is_dir()
    refused = gputui(lab, "add", "--host", "any", "--memory", "200G", "--no-start", "--", "true")
    assert refused.returncode == 1
    assert "no host has 1 free GPU with 200G now; name one to wait there: --host lab7" in refused.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host"], "--host needs one name"),
        (["--host", "-oProxyCommand=touch sprung", "ls"], "is no host"),
        (["--host", "lab7;touch sprung", "ls"], "is no host"),
        (["--host", "lab7:", "ls"], "names no folder"),
        (["--host", "lab7,lab8", "ls"], "ls is for one machine"),
        (["ls", "--host", "any"], "--host any is for gputui add"),
        (["add", "--host", "any", "--", "true"], "no hosts are set"),
        (["hosts", "--every", "1"], "--every goes with --here --json"),
        (["hosts", "--here", "--host", "lab7"], "give one of them"),
        (["hosts", "--live"], "no hosts are set"),
    ],
)
def test_a_host_that_cannot_be_meant_is_refused_in_a_sentence(lab: Lab, words: list[str], sentence: str) -> None:
    done = gputui(lab, *words)
    assert done.returncode == 2, done
    assert sentence in done.stderr
    assert not (lab.folder / "sprung").exists()


def test_a_colleagues_project_file_names_no_machines_and_no_ssh(lab: Lab) -> None:
    for line in ('ssh = "touch sprung"', 'hosts = ["lab7"]'):
        (lab.folder / "gputui.toml").write_text(line + "\n")
        done = gputui(lab, "hosts")
        assert done.returncode == 2
        assert "is read only from your own" in done.stderr
    assert not (lab.folder / "sprung").exists()


def test_no_ssh_is_said(lab: Lab) -> None:
    done = gputui(lab, "--host", "lab7", "ls", GPUTUI_SSH="no-such-ssh")
    assert done.returncode == 1
    assert "no-such-ssh cannot be started" in done.stderr
    assert "no-such-ssh cannot be started" in gputui(lab, "hosts", "--host", "lab7", GPUTUI_SSH="no-such-ssh").stdout


def test_one_connection_serves_all_that_is_asked_unless_the_user_has_it_otherwise(lab: Lab) -> None:
    lab.machine("lab7")
    gputui(lab, "--host", "lab7", "--version")
    (control,) = (lab.folder / "run" / "gputui").glob("ssh-*")
    assert control.is_socket()
    assert os.stat(control.parent).st_mode & 0o077 == 0
