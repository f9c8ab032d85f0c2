"""Several hosts over the user's own ssh: commands there, an overview, and a job where a GPU is free."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.nvml import FakeNvml, NoCompiler, build_fake_nvml
from support.sessions import GPUTUI, Done, finished
from support.sshd import Lab

from gputui.cli.commands import SUBCOMMANDS, reads_stdin
from gputui.cli.output import UNREACHABLE

GIB = 1024**3


def gputui(lab: Lab, *words: str, given: str | None = None, **environment: str) -> Done:
    process = subprocess.Popen(
        [*GPUTUI, *words],
        cwd=lab.directory,
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
    file = lab.directory / "config" / "gputui" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def with_gpus(lab: Lab, library: Path, name: str, *totals: int, used: int = 0) -> dict[str, str]:
    """The environment of a machine with such cards."""
    directory = lab.directory / f"nvml-{name}"
    directory.mkdir()
    driver = FakeNvml(library, directory)
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


def test_a_command_with_a_host_runs_there_with_its_input_output_and_status(lab: Lab) -> None:
    home = lab.machine("lab7")
    done = gputui(
        lab, "--host", "lab7", "run", "--gpus", "cpu:1", "--no-daemon", given='echo "it\'s here" $HOME\nexit 3\n'
    )
    assert done.returncode == 1, done
    assert (home / "gputui_run" / "job_0" / "job_0.OUT").read_text() == f"it's here {home}\n"
    listed = gputui(lab, "ls", "--json", "--host=lab7")
    assert [job["state"] for job in json.loads(listed.stdout)["jobs"]] == ["succeeded", "failed"]


def test_a_directory_that_was_named_once_is_remembered_and_the_settings_win_over_it(lab: Lab) -> None:
    home = lab.machine("lab7")
    for name in ("runs and more", "other"):
        (home / name).mkdir()
    first = gputui(lab, "--host", "lab7:runs and more", "add", "--no-start", "--", "true")
    assert (first.returncode, first.stdout) == (0, "0\n"), first
    assert "--host lab7 now means the directory runs and more" in first.stderr
    again = gputui(lab, "--host", "lab7", "ls", "--json")
    assert json.loads(again.stdout)["session"] == str(home / "runs and more" / "gputui_run")
    configure(lab, '[host."lab7"]\ndirectory = "~/other"\n')
    assert "no session" in gputui(lab, "--host", "lab7", "ls").stderr


def test_with_json_the_answer_of_another_machine_and_an_unreachable_one_are_one_object_each(lab: Lab) -> None:
    home = lab.machine("lab7")
    lab.dead("lab9")
    done = gputui(lab, "--host", "lab7", "sessions", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "sessions": []}, done
    failed = gputui(lab, "--host", "lab7", "ls", "--json")
    assert json.loads(failed.stderr)["error"] == "no-session", home
    gone = gputui(lab, "--host", "lab9", "ls", "--json")
    assert (gone.returncode, gone.stdout, json.loads(gone.stderr)["error"]) == (UNREACHABLE, "", "unreachable")
    assert "Connection refused" in json.loads(gone.stderr)["message"]


def test_words_after_two_dashes_belong_to_the_job(lab: Lab) -> None:
    done = gputui(lab, "add", "--no-start", "--", "serve", "--host", "0.0.0.0")
    assert done.returncode == 0, done
    shown = json.loads(gputui(lab, "show", "0", "--json").stdout)
    assert shown["command"] == "serve --host 0.0.0.0"


def test_unreachable_hosts_are_named_and_delay_no_others(lab: Lab, library: Path) -> None:
    lab.machine("lab7", with_gpus(lab, library, "lab7", 40 * GIB))
    lab.machine("lab8", with_gpus(lab, library, "lab8", 24 * GIB, 24 * GIB))
    lab.dead("lab9")
    done = gputui(lab, "hosts", "--host", "lab7,lab8,lab9", "--json")
    told = {host["host"]: host for host in json.loads(done.stdout)["hosts"]}
    assert [len(told[name]["status"]["cards"]) for name in ("lab7", "lab8")] == [1, 2]
    assert told["lab9"]["status"] is None
    assert "Connection refused" in told["lab9"]["trouble"]
    table = gputui(lab, "hosts", "--host", "lab7,lab9").stdout
    assert "0.0/40G" in table
    assert "free" in table
    assert table.splitlines()[-1].startswith("lab9: ssh: connect to host")


def test_a_host_that_never_answers_is_reported(lab: Lab) -> None:
    lab.machine("lab7")
    lab.silent("lab8")
    done = gputui(lab, "hosts", "--host", "lab8,lab7")
    assert "lab8: " in done.stdout
    assert "no answer within" in done.stdout or "timed out" in done.stdout.lower()
    assert "cpu 0" in done.stdout


def test_a_host_without_gputui_gets_advice_to_install_it(lab: Lab) -> None:
    lab.machine("lab7", {"SHELL": "/bin/sh"}, has_gputui=False)
    checkout = Path(__file__).parents[3]
    way = f"copy {checkout} there, then: pipx install ./{checkout.name}"
    assert f"gputui not found there: {way}" in gputui(lab, "hosts", "--host", "lab7").stdout
    done = gputui(lab, "--host", "lab7", "ls")
    assert done.returncode == UNREACHABLE
    assert f"install gputui on lab7: {way}" in done.stderr
    configure(lab, f'[host."lab7"]\ngputui = "{_own_program(lab)}"\n')
    assert gputui(lab, "--host", "lab7", "--version").returncode == 0


def test_nothing_of_ours_advises_a_name_on_a_package_index() -> None:
    top = Path(__file__).parents[3]
    texts = [*top.glob("*.md"), *(top / ".github").glob("*.md"), *(top / "gputui").rglob("*.*")]
    advice = re.compile(r"(pip|pipx|uvx?|tool) +(install|run|inject)? *(-\S+ +)*['\"]?gputui\b")
    found = [path for path in texts if path.suffix != ".pyc" and advice.search(path.read_text(errors="replace"))]
    assert found == []


def _own_program(lab: Lab) -> Path:
    program = lab.directory / "my gputui"
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
    assert "no host has 1 free GPU with 200G now; to wait on one: --host lab7" in refused.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host"], "--host needs a host name: --host lab7"),
        (["--host", "-oProxyCommand=touch sprung", "ls"], "invalid host"),
        (["--host", "lab7;touch sprung", "ls"], "invalid host"),
        (["--host", "lab7:", "ls"], "no directory in"),
        (["--host", "lab7,lab8", "ls"], "ls works on one host"),
        (["ls", "--host", "any"], "otherwise name a host: --host lab7"),
        (["add", "--host", "any", "--", "true"], "no hosts configured"),
        (["hosts", "--every", "1"], "--every needs --here --json"),
        (["hosts", "--here", "--host", "lab7"], "use either --here or --host"),
        (["hosts", "--live"], "no hosts configured"),
    ],
)
def test_an_invalid_host_is_an_error(lab: Lab, words: list[str], sentence: str) -> None:
    done = gputui(lab, *words)
    assert done.returncode == 2, done
    assert sentence in done.stderr
    assert not (lab.directory / "sprung").exists()


def test_a_colleagues_project_file_names_no_machines_and_no_ssh(lab: Lab) -> None:
    for line in ('ssh = "touch sprung"', 'hosts = ["lab7"]'):
        (lab.directory / "gputui.toml").write_text(line + "\n")
        done = gputui(lab, "hosts")
        assert done.returncode == 2
        assert "is only allowed in your own" in done.stderr
    assert not (lab.directory / "sprung").exists()


def test_a_missing_ssh_client_is_an_error(lab: Lab) -> None:
    done = gputui(lab, "--host", "lab7", "ls", GPUTUI_SSH="no-such-ssh")
    assert done.returncode == 1
    assert "cannot start no-such-ssh" in done.stderr
    assert "cannot start no-such-ssh" in gputui(lab, "hosts", "--host", "lab7", GPUTUI_SSH="no-such-ssh").stdout


def test_one_connection_serves_all_that_is_asked_unless_the_user_has_it_otherwise(lab: Lab) -> None:
    lab.machine("lab7")
    gputui(lab, "--host", "lab7", "--version")
    (control,) = (lab.directory / "run" / "gputui").glob("ssh-*")
    assert control.is_socket()
    assert os.stat(control.parent).st_mode & 0o077 == 0


READ_STDIN = [["add", "-"], ["run"], ["run", "-"], ["run", "--gpus", "0", "1"], ["app"], ["app", "-"], []]
LEAVE_STDIN = [
    *([subcommand] for subcommand in SUBCOMMANDS if subcommand not in ("run", "app")),
    ["run", "jobs.txt"], ["run", "--follow", "queue"], ["run", "--job-file", "jobs.txt"], ["run", "--help"],
    ["app", "jobs.txt"], ["jobs.txt"], ["--version"], ["help"], ["add", "--", "python", "train.py"],
    ["add", "--script", "job.sh"], ["add", "--", "cat", "-"], ["sweep", "{x}", "-p", "x", "-"],
]  # fmt: skip


@pytest.mark.parametrize("words", [*READ_STDIN, *LEAVE_STDIN], ids=" ".join)
def test_only_commands_that_read_standard_input_get_it(words: list[str]) -> None:
    assert reads_stdin(words) is (words in READ_STDIN)


def test_a_command_in_a_shell_loop_leaves_the_loops_input_alone(lab: Lab) -> None:
    """The program there reads all of its input, as ssh does: the rest of the loop's lines, if they are passed on."""
    home = lab.machine("lab7")
    program = home / ".local" / "bin" / "gputui"
    program.write_text('#!/bin/sh\necho "$*|$(cat | wc -l)" >>"$HOME/called"\n')
    loop = f"while read -r line; do {shlex.join(GPUTUI)} --host lab7 $line; done"
    subprocess.run(["sh", "-c", loop], input="ls\nadd -- x\n", text=True, env=lab.environment(), cwd=lab.directory)
    gputui(lab, "--host", "lab7", "add", "-", given="one\ntwo\n")
    assert (home / "called").read_text() == "ls|0\nadd -- x|0\nadd -|2\n"


def test_a_loop_that_adds_jobs_on_a_machine_adds_them_all(lab: Lab) -> None:
    lab.machine("lab7", {"GPUTUI_DAEMON": "false"})
    configure(lab, 'hosts = ["lab7"]\n')
    loop = f'while read -r line; do {shlex.join(GPUTUI)} add --no-start --host any -- "$line"; done'
    lines = [f"echo {number}" for number in range(4)]
    subprocess.run(
        ["sh", "-c", loop],
        input="".join(f"{line}\n" for line in lines),
        text=True,
        env=lab.environment(),
        cwd=lab.directory,
    )
    assert [job["command"] for job in _jobs(lab, "lab7")] == lines


def _jobs(lab: Lab, host: str, *words: str) -> list[dict[str, object]]:
    jobs: list[dict[str, object]] = json.loads(gputui(lab, "--host", host, "ls", "--json", *words).stdout)["jobs"]
    return jobs


@pytest.mark.parametrize(
    "adding", [["add", "--no-start", "--", "true"], ["sweep", "echo {x}", "-p", "x", "1", "2", "--add", "--no-start"]]
)
def test_a_connection_lost_while_adding_says_how_to_check(lab: Lab, adding: list[str]) -> None:
    home = lab.machine("lab7")
    (home / "my runs").mkdir()
    program = home / ".local" / "bin" / "gputui"
    whole = program.read_text()
    cut = 'pid=$$; until grep -q ^sshd /proc/$pid/comm; do pid=$(ps -o ppid= -p $pid | tr -d " "); done; kill -9 $pid'
    program.write_text(f'#!/bin/sh\n{" ".join(GPUTUI)} "$@"\n{cut}\n')
    done = gputui(lab, *adding[:1], "--host", "lab7:my runs", *adding[1:])
    assert done.returncode == 5
    last = done.stderr.splitlines()[-1]
    assert "may have been added" in last
    program.write_text(whole)
    way = last.partition("Check first: gputui ")[2]
    assert way == "--host 'lab7:my runs' ls"
    looked = gputui(lab, *shlex.split(way), "--json")
    assert len(json.loads(looked.stdout)["jobs"]) == (1 if adding[0] == "add" else 2)


def test_a_machine_that_cannot_be_reached_was_asked_for_nothing_else_than_a_look(lab: Lab) -> None:
    lab.dead("lab9")
    done = gputui(lab, "--host", "lab9", "ls")
    assert (done.returncode, "Try: ssh lab9" in done.stderr) == (5, True)
    assert "added" not in done.stderr


def test_messages_from_another_host_name_it(lab: Lab) -> None:
    home = lab.machine("lab1")
    (lab.directory / "jobs.txt").write_text("true\n")
    done = gputui(lab, "run", "jobs.txt", "--host", "lab1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"gputui on lab1: no such file: jobs.txt in {home}"
    gputui(lab, "--host", "lab1", "run", "--gpus", "cpu:1", "--no-daemon", "-", given="env\n")
    assert "GPUTUI_HOST" not in (home / "gputui_run" / "job_0" / "job_0.OUT").read_text()
    assert "to resume: gputui --host lab1 resume" in gputui(lab, "pause", "--host", "lab1").stderr
