"""The commands together with a real owner: a daemon that they start, real jobs, real files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.machines import read_only
from support.sessions import GPUTUI, Home, reap, said
from support.sources import valid
from support.waiting import until

from gputui.cli.output import NOT_FOUND, UNREACHABLE

Done = subprocess.CompletedProcess[str]


class Shell:
    """A user in a directory with one session in ./gputui_run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = Home(directory, "gputui_run")

    def __call__(self, *words: str, status: int = 0, **variables: str) -> Done:
        done = subprocess.run(
            [*GPUTUI, *words],
            cwd=self.directory,
            env=os.environ | {"GPUTUI_GPUS": "cpu:2"} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == status, done
        return done

    def state(self, job: int) -> str:
        return str(json.loads(self("show", str(job), "--json").stdout)["state"])


@pytest.fixture
def sh(tmp_path: Path) -> Iterator[Shell]:
    directory = tmp_path / "project"
    directory.mkdir()
    made = Shell(directory)
    yield made
    made.home.end()
    reap()


def test_add_starts_a_session_and_runs_with_this_environment(sh: Shell) -> None:
    done = sh("add", "--env", "B=2", "--", "sh", "-c", "echo $A $B; pwd", A="1")
    assert done.stdout == "0\n"
    assert "started a session" in done.stderr
    sh("wait")
    assert sh("logs", "0").stdout == f"1 2\n{sh.directory}\n"
    assert sh("add", "true").stdout == "1\n"
    assert str(sh.directory / "gputui_run") in sh("sessions").stdout


def test_json_has_the_promised_shapes(sh: Shell) -> None:
    for command in ("true", "exit 3", "kill -9 $$", "sleep 0.01"):
        sh("add", command)
    sh("add", "--after", "1", "true")
    sh("add", "--hold", "--gpus", "0", "true")
    until(lambda: not {"queued", "running", "starting"} & set(valid("ls", sh("ls", "--json").stdout)["counts"]), "done")
    jobs = valid("ls", sh("ls", "--json").stdout)["jobs"]
    assert [one["state"] for one in jobs] == ["succeeded", "failed", "failed", "succeeded", "skipped", "held"]
    assert (jobs[1]["exit_code"], jobs[2]["signal"]) == (3, 9)
    for one in jobs:
        valid("show", sh("show", str(one["id"]), "--json").stdout)
    valid("gpus", sh("gpus", "--json").stdout)


def test_hold_release_priority_move_edit_rm(sh: Shell) -> None:
    sh("pause", status=NOT_FOUND)
    sh("add", "--hold", "--name", "a", "echo one")
    sh("pause")
    sh("add", "echo two")
    sh("release", "a")
    assert sh.state(0) == "queued"
    sh("hold", "0")
    sh("hold", "0", status=1)
    sh("priority", "+10", "1")
    sh("move", "1", "--top")
    sh("edit", "1", EDITOR="sed -i s/two/three/")
    shown = json.loads(sh("show", "1", "--json").stdout)
    assert (shown["priority"], shown["command"]) == (40, "echo three")
    sh("release", "--all")
    sh("resume")
    sh("wait")
    assert sh("logs", "1").stdout == "three\n"
    sh("rm", "--succeeded", "-y")
    assert valid("ls", sh("ls", "--json").stdout)["jobs"] == []


def test_kill_requeue_suspend_continue_rerun(sh: Shell) -> None:
    sh("add", "echo began; sleep 600")
    until(lambda: sh.state(0) == "running", "it runs")
    sh("suspend", "0")
    assert sh.state(0) == "suspended"
    sh("continue", "0")
    sh("requeue", "0")
    until(lambda: json.loads(sh("show", "0", "--json").stdout)["attempt"] == 2, "it runs again")
    until(lambda: sh.state(0) == "running", "it runs again")
    sh("kill", "--now", "0")
    sh("wait", "0", status=1)
    assert sh.state(0) == "killed"
    sh("rerun", "0")
    until(lambda: sh.state(0) == "running", "it runs once more")
    sh("kill", "0")
    assert sh("logs", "0", "-f").stdout == "began\n"


def test_following_a_log_ends_with_the_job(sh: Shell) -> None:
    sh("add", "--retries", "1", "echo hello; sleep 0.3; echo bye; exit 1")
    told = sh("logs", "-f", "0")
    assert told.stdout.count("hello\nbye\n") >= 1
    until(lambda: sh.state(0) == "failed", "it has failed for good")
    assert sh("logs", "0", "--attempt", "1").stdout == sh("logs", "0", "--attempt", "2").stdout == "hello\nbye\n"


def test_drain_lets_running_jobs_end(sh: Shell) -> None:
    sh("gpus", "cpu:1", status=NOT_FOUND)
    sh("add", "sleep 0.5")
    sh("gpus", "cpu:1")
    sh("add", "sleep 0.5")
    until(lambda: sh.state(0) in ("running", "succeeded"), "the first runs")
    sh("drain")
    listing = valid("ls", sh("ls", "--json").stdout)
    assert listing["scheduler"]["cause"]["kind"] == "drained"
    assert "running" not in listing["counts"]


def test_stop_leaves_nothing_running_and_resume_continues(sh: Shell) -> None:
    sh("add", "sleep 600 & sleep 600")
    sh("add", "echo later")
    until(lambda: sh.state(0) == "running", "it runs")
    assert "stopped, nothing left running" in sh("stop").stdout
    assert sh.home.members() == []
    assert sh.home.processes() == []
    counts = valid("ls", sh("ls", "--json").stdout)["counts"]
    assert counts.get("queued", 0) + counts.get("succeeded", 0) == 2
    sh("hold", "0")
    sh("resume")
    sh("wait", "1")


def test_stop_of_a_session_with_nothing_left_to_do_pauses_nothing(sh: Shell) -> None:
    sh("add", "true")
    sh("wait")
    assert sh("stop").stdout == "stopped, nothing left running; 0 jobs waiting\n"
    assert sh.home.members() == []
    assert valid("ls", sh("ls", "--json").stdout)["scheduler"]["cause"] is None
    assert "paused" not in sh("add", "true").stderr
    sh("wait", "1")


def test_adding_to_a_paused_session_prints_the_id_and_the_pause(sh: Shell) -> None:
    sh("add", "--no-start", "true")
    sh("stop")
    stopped = sh("add", "true")
    assert stopped.stdout == "1\n"
    assert "scheduler paused (stopped by you: no new jobs start); resume with: gputui resume" in stopped.stderr
    sh("resume")
    sh("wait")
    sh("pause")
    paused = sh("add", "--no-start", "true")
    assert paused.stdout == "2\n"
    assert "scheduler paused (paused by you); resume with: gputui resume" in paused.stderr


def test_a_read_only_session_is_one_line_of_error(sh: Shell) -> None:
    sh("add", "true")
    sh("wait")
    sh("stop")
    with read_only(sh.directory):
        for words in (["add", "true"], ["add", "--no-start", "true"], ["hold", "0"]):
            told = sh(*words, status=UNREACHABLE)
            assert not told.stdout
            assert "Read-only file system; to continue it, copy the directory" in told.stderr
            assert told.stderr.count("\n") == 1
        assert "succeeded" in sh("ls", "-l").stdout, "looking works all the same"


def test_no_start_adds_without_a_daemon(sh: Shell) -> None:
    sh("add", "--no-start", "true")
    assert sh.home.members() == []
    assert sh.state(0) == "queued"
    sh("wait", status=UNREACHABLE)


def test_inside_a_job_add_uses_its_session_and_kill_needs_one(sh: Shell) -> None:
    inner = " ".join(GPUTUI)
    sh("add", f"cd /; {inner} add -- echo inner; {inner} kill 1; echo $?; {inner} ls")
    until(lambda: sh.state(0) == "succeeded", "it has succeeded")
    sh("wait", "1")
    assert sh("logs", "1").stdout == "inner\n"
    printed = sh("logs", "0").stdout
    assert printed.startswith("1\n2\n")
    assert "gputui_run" in printed
    assert "--session" in sh("logs", "0", "--err").stdout


def test_rerun_failed_means_the_pause_and_takes_the_new_environment(sh: Shell) -> None:
    for _ in range(3):
        sh("add", 'test -n "$MENDED" || { echo no luck >&2; exit 1; }; until test -e told; do sleep 0.05; done')
    until(lambda: valid("ls", sh("ls", "--json").stdout)["scheduler"]["state"] == "paused", "the breaker trips")
    assert "#0 runs first" in sh("rerun", "--failed", "-y", MENDED="yes").stderr
    (sh.directory / "told").touch()
    sh("wait")


def test_an_edited_job_of_a_sweep_is_listed_with_the_parameters_of_its_new_command(sh: Shell) -> None:
    sh("sweep", "train --lr {lr} --bs {bs}", "-p", "lr", "0.1", "-p", "bs", "32", "--add", "--hold", "--name", "lr{lr}")
    sh("edit", "0", VISUAL="sed -i 's/--lr 0.1/--lr 0.9/'")
    [listed] = json.loads(sh("ls", "--json").stdout)["jobs"]
    assert (listed["params"], listed["name"]) == ({"lr": "0.9", "bs": "32"}, "job_0")
    assert "lr0.1" not in sh("show", "0").stdout
    sh("edit", "0", VISUAL="sed -i 's/^command = .*/command = \"make all\"/'")
    [listed] = json.loads(sh("ls", "--json").stdout)["jobs"]
    assert (listed["command"], listed["params"]) == ("make all", {})


def test_ls_says_running_only_while_something_can_run(sh: Shell) -> None:
    def head() -> str:
        return sh("ls").stdout.splitlines()[0]

    sh("add", "--no-start", "true")
    assert " · IDLE · " in head()
    assert "gputui resume" in sh("ls").stdout
    sh("hold", "0")
    sh("add", "sleep 60")
    until(lambda: " · RUNNING · " in head(), "the job runs")
    sh("kill", "--now", "1")
    until(lambda: " · WAITING · " in head() or " · IDLE · " in head(), "only a held job is left")
    scheduler = json.loads(sh("ls", "--json").stdout)["scheduler"]
    assert (scheduler["state"], scheduler["status"]) in (("running", "waiting"), ("running", "idle"))
    assert scheduler["waiting_for"]
    sh("rm", "0")
    assert " · DONE · " in head()


def test_ls_names_a_followed_file_that_may_add_jobs(sh: Shell) -> None:
    (sh.directory / "queue").touch()
    with subprocess.Popen([*GPUTUI, "run", "--gpus", "cpu:1", "--follow", "queue"], cwd=sh.directory) as run:
        try:
            until(lambda: (sh.home.root / ".gputui" / "control.sock").exists(), "it owns the session")
            until(lambda: " · WAITING · " in sh("ls").stdout, "it waits for the file")
            assert f"jobs from {sh.directory}/queue" in sh("ls").stdout
        finally:
            run.terminate()


def test_a_readable_private_directory_is_fixed_with_one_notice(sh: Shell) -> None:
    sh("add", "--no-start", "true")
    sh.home.private.chmod(0o755)
    assert "which contains your jobs' environments" in sh("ls").stderr
    assert sh.home.private.stat().st_mode & 0o777 == 0o700
    assert sh("ls").stderr == ""


def test_the_daemon_prints_no_control_characters(tmp_path: Path) -> None:
    made = Shell(tmp_path)
    made.home = Home(tmp_path, "evil\x1b]52;c;cm0=\x07\x1b[2Jname")
    try:
        made.home.begin("sleep 600")
        made.home.resume()
        told = made("daemon", str(made.home.root)).stdout
        assert told == f"daemon {made.home.owner()} runs {tmp_path}/evilname\n"
    finally:
        made.home.end()
        reap()


def test_a_directory_whose_name_is_not_utf_8_is_refused_in_a_sentence(sh: Shell) -> None:
    odd = os.fsdecode(os.fsencode(sh.directory) + b"/\xff")
    os.mkdir(odd)
    sh("add", "--no-start", "true")
    assert "is not valid UTF-8" in said(sh("add", "--cwd", odd, "true", status=2))
    (sh.directory / "jobs.txt").write_text("true\n")
    assert "is not valid UTF-8" in said(sh("run", "--output-dir", f"{odd}/out", "jobs.txt", status=2))


def test_rerun_failed_without_a_pause_means_all_that_failed(sh: Shell) -> None:
    sh("add", "exit 3")
    sh("add", "kill -9 $$")
    sh("add", "true")
    sh("wait", status=1)
    sh("pause")
    assert "2 jobs: queued again" in sh("rerun", "--failed", "-y").stderr


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_output_that_cannot_be_written_is_an_error_in_one_sentence(sh: Shell, redirection: str, reason: str) -> None:
    sh("add", "--no-start", "--", "true")
    commands = ("ls", "ls --json", "add --no-start --json -- true", "add --no-start -- true", "events", "show 0")
    for command in (*commands, "gpus", "events --json", "results --json", "config", "sweep {n} -p n 1 2"):
        words = ["sh", "-c", f'exec "$@" {redirection}', "sh", *GPUTUI, *command.split()]
        done = subprocess.run(words, cwd=sh.directory, capture_output=True, text=True, check=False, timeout=60)
        said_there = json.loads(done.stderr)["message"] if "--json" in command else done.stderr
        assert said_there.strip().removeprefix("gputui: ") == f"cannot write the output: {reason}", command
        assert done.returncode == 1, command


def test_a_reader_that_ends_early_is_not_an_error(sh: Shell) -> None:
    for _ in range(3):
        sh("add", "--no-start", "--", "true")
    for command in ("ls", "ls --json", "events", "events --follow"):
        words = ["sh", "-c", '"$@" | head -n 1', "sh", *GPUTUI, *command.split()]
        done = subprocess.run(words, cwd=sh.directory, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.count("\n") == 1, command
        assert (done.returncode, done.stderr) == (0, ""), command


def test_a_job_that_needs_more_memory_than_any_gpu_has_gets_a_warning(sh: Shell) -> None:
    sh("add", "--", "exec sleep 600", GPUTUI_GPUS="sim:2")
    until(lambda: sh.state(0) == "running", "it runs")
    needs = "needs a slot with 30.0 GiB; this session has GPU 0, 1"
    assert sh("add", "--memory", "30G", "--", "true").stderr == f"gputui: warning: #1 can never start: {needs}\n"
    assert sh("add", "--memory", "20G", "--", "true").stderr == ""
    until(lambda: sh.state(2) == "succeeded", "the one that fits has run")
    assert sh.state(1) == "queued"
    sh("stop")
