"""`gputui exec`: a job of the session in a real terminal, with job control, and with each party killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Home, alive
from support.terminal import RecordedTerminal, recorded
from support.waiting import until

from gputui.core.job import StateName


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Home]:
    """A session with one GPU and nothing to do."""
    home = Home(tmp_path)
    home.begin(slots=[{"id": 0, "devices": ["0"]}])
    home.resume()
    yield home
    home.end()


@contextmanager
def execution(home: Home, *words: str, flags: tuple[str, ...] = (), **settings: Any) -> Iterator[RecordedTerminal]:
    line = [*GPUTUI, "exec", "--session", str(home.root), *flags, "--", *words]
    with recorded(line, cwd=home.directory, **settings) as terminal:
        yield terminal


def job(home: Home, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = home.ask("show", job=number)
    return found


def has_ended(home: Home, state: StateName, number: int = 0) -> None:
    until(lambda: job(home, number)["state"] == state, f"#{number} has {state}")


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} is written")
    return int(path.read_text())


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_the_command_has_a_terminal_and_its_gpus_and_its_exit_status_is_ours(lab: Home) -> None:
    (lab.directory / "gputui.toml").write_text("snapshot = true\n")  # does not apply here
    command = "tty; echo GPU $CUDA_VISIBLE_DEVICES; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && read line && exit $line"
    with execution(lab, command) as terminal:
        terminal.shows("GPU 0")
        assert job(lab)["state"] == "running"
        terminal.press("42\r")
        assert terminal.status() == 42
        assert terminal.modes == terminal.modes_before
    ended = job(lab)
    assert (ended["exit_code"], ended["priority"], ended["gpus"]) == (42, 80, ["0"])
    log = (lab.root / "job_0/job_0.OUT").read_text()
    assert "GPU 0" in log
    assert re.search(r"/dev/pts/\d+", log)


def test_ctrl_c_reaches_the_command(lab: Home) -> None:
    with execution(lab, "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.02; done") as terminal:
        terminal.shows("ready")
        terminal.press("\x03")
        assert terminal.status() == 3
        assert "caught" in terminal.text


def test_the_command_sees_the_size_of_the_window_and_its_changes(lab: Home) -> None:
    command = "stty size; trap 'stty size; exit 0' WINCH; while :; do sleep 0.02; done"
    with execution(lab, command, size=(90, 20)) as terminal:
        terminal.shows("20 90")
        terminal.resize(100, 33)
        assert terminal.status() == 0
        assert "33 100" in terminal.text


def test_an_interactive_python_is_served(lab: Home) -> None:
    with execution(lab, "python3", "-q", env={"PYTHON_BASIC_REPL": "1"}) as terminal:
        terminal.shows(">>>")
        terminal.press("print(6 * 7)\r")
        terminal.shows("42")
        terminal.press("\x04")
        assert terminal.status() == 0


def paste(terminal: RecordedTerminal, text: bytes) -> None:
    """Type as fast as the terminal takes it."""

    def all_taken() -> bool:
        nonlocal text
        with suppress(BlockingIOError):
            text = text[os.write(terminal._master, text) :]
        return not text

    until(all_taken, "the terminal takes all of it")


def test_much_output_and_input_arrive_whole(lab: Home) -> None:
    command = "stty -echo raw; echo ready; head -c 200000 | md5sum; seq 20000; echo the end"
    text = b"0123456789" * 20_000
    with execution(lab, command) as terminal:
        terminal.shows("ready")
        paste(terminal, text)
        terminal.shows("the end")
        assert terminal.status() == 0
    written = terminal.written.split()
    assert subprocess.run(["md5sum"], input=text, capture_output=True).stdout.split()[0].decode() in written
    assert set(map(str, range(1, 20_001))) <= set(written)


def test_ctrl_z_stops_the_command_and_gives_the_shell_back(lab: Home, tmp_path: Path) -> None:
    command = "'echo $$ >pid; while :; do echo turns >turns; sleep 0.02; done'"
    line = f"{' '.join(GPUTUI)} exec --session {lab.root} -- {command}"
    with recorded(["bash", "--norc", "-i"], cwd=lab.directory) as shell:
        shell.press(f"{line}\r")
        pid = pid_in(tmp_path / "pid")
        shell.press("\x1a")
        shell.shows("Stopped")
        until(lambda: is_stopped(pid), "it is stopped")
        (tmp_path / "turns").unlink(missing_ok=True)
        shell.press("echo the shell is $((20 + 22)); fg\r")
        shell.shows("the shell is 42")
        until((tmp_path / "turns").exists, "it continues")
        shell.press("\x03")
        has_ended(lab, StateName.FAILED)
        shell.press("echo status $?\r")
        shell.shows("status 130")


@pytest.mark.parametrize("how", ["hang up", "kill the client"])
def test_without_its_terminal_the_job_is_hung_up_and_says_so(lab: Home, tmp_path: Path, how: str) -> None:
    with execution(lab, "echo $$ >pid; exec sleep 600") as terminal:
        pid = pid_in(tmp_path / "pid")
        terminal.hang_up() if how == "hang up" else terminal.send_signal(signal.SIGKILL)
        has_ended(lab, StateName.FAILED)
    assert not alive(pid)
    assert job(lab)["history"][-1]["text"].endswith("hung up: its terminal is gone")
    assert os.listdir(lab.private / "terminals") == []


def test_with_keep_the_job_runs_on_without_its_terminal(lab: Home, tmp_path: Path) -> None:
    with execution(lab, f"echo $$ >pid; {lab.waits}; echo done", flags=("--keep",)) as terminal:
        pid = pid_in(tmp_path / "pid")
        terminal.hang_up()
        until(lambda: "disconnected" in (lab.root / "job_0/job_0.OUT").read_text(), "the job has noticed")
    assert alive(pid)
    lab.gate.touch()
    has_ended(lab, StateName.SUCCEEDED)
    assert "done" in (lab.root / "job_0/job_0.OUT").read_text()


def test_a_killed_owner_takes_nothing_from_the_terminal(lab: Home) -> None:
    with execution(lab, "echo ready; read line; exit $line") as terminal:
        terminal.shows("ready")
        owner = lab.owner()
        lab.has_waiter(owner)
        os.kill(owner, signal.SIGKILL)
        assert lab.owner(but=owner) != owner
        terminal.press("5\r")
        assert terminal.status() == 5
    assert job(lab)["exit_code"] == 5


def test_a_killed_job_gives_the_terminal_back(lab: Home) -> None:
    with execution(lab, "stty raw; echo ready; exec sleep 600") as terminal:
        terminal.shows("ready")
        assert lab.call("kill", "0").returncode == 0
        assert terminal.status() == 143
        assert "#0 killed" in terminal.text
        assert terminal.modes == terminal.modes_before


def test_a_shell_has_job_control(lab: Home) -> None:
    line = [*GPUTUI, "shell", "--session", str(lab.root)]
    (lab.directory / ".bashrc").write_text("PS1='here> '\n")
    with recorded(line, cwd=lab.directory, env={"SHELL": "/bin/bash", "HOME": str(lab.directory)}) as terminal:
        terminal.shows("here>")
        terminal.press("sh -c 'echo $$ >pid; while :; do sleep 0.02; done'\r")
        pid = pid_in(lab.directory / "pid")
        terminal.press("\x1a")
        terminal.shows("Stopped")
        assert is_stopped(pid)
        terminal.press("fg\r")
        until(lambda: not is_stopped(pid), "it continues")
        terminal.press("\x03")
        until(lambda: not alive(pid), "it has ended")
        terminal.press("exit 9\r")
        assert terminal.status() == 9


def test_a_requeued_job_comes_back_to_its_terminal(lab: Home) -> None:
    with execution(lab, "echo attempt $GPUTUI_ATTEMPT; read line") as terminal:
        terminal.shows("attempt 1")
        assert lab.call("requeue", "0").returncode == 0
        terminal.shows("attempt 2")
        terminal.press("\r")
        assert terminal.status() == 0


def test_the_first_one_starts_a_session(tmp_path: Path) -> None:
    home = Home(tmp_path, "gputui_run")
    with recorded([*GPUTUI, "exec", "--", "echo job $GPUTUI_JOB_ID"], cwd=tmp_path) as terminal:
        assert terminal.status() == 0
        assert "job 0" in terminal.text
    home.end()


def test_a_session_on_slurm_refuses_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.begin(slots=[{"id": 0, "devices": [], "kind": "slurm"}])
    with execution(home, "true", size=(120, 20)) as terminal:
        assert terminal.status() == 2
        assert "gputui exec cannot reach jobs on Slurm: use srun --pty" in terminal.text
    home.end()


@pytest.fixture
def busy(lab: Home) -> Home:
    """The one GPU is taken until `gate` exists, and another job waits."""
    lab.add(lab.waits, "true")
    until(lambda: job(lab)["state"] == "running", "the first job runs")
    return lab


def test_it_comes_before_ordinary_jobs_and_says_why_it_waits(busy: Home) -> None:
    with execution(busy, "echo now; read line") as terminal:
        terminal.shows("#2 waiting: waiting for a GPU: 0 busy")
        busy.gate.touch()
        terminal.shows("now")
        assert [job(busy, number)["state"] for number in (0, 1, 2)] == ["succeeded", "queued", "running"]
        terminal.press("\r")
        assert terminal.status() == 0
    has_ended(busy, StateName.SUCCEEDED, 1)


def test_a_wait_that_takes_too_long_ends_with_its_own_exit_status(busy: Home, tmp_path: Path) -> None:
    with execution(busy, "touch ran", flags=("--wait", "1s")) as terminal:
        assert terminal.status() == 4
        assert "#2 did not start in time and was removed from the queue" in terminal.text
    has_ended(busy, StateName.KILLED, 2)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("how", ["Ctrl-C", "hang up"])
def test_who_leaves_while_waiting_takes_the_job_along(busy: Home, tmp_path: Path, how: str) -> None:
    with execution(busy, "touch ran") as terminal:
        terminal.shows("#2 waiting")
        if how == "Ctrl-C":
            terminal.press("\x03")
            assert terminal.status() == 130
        else:
            terminal.hang_up()
        has_ended(busy, StateName.KILLED, 2)
    assert not (tmp_path / "ran").exists()


def test_a_job_whose_client_was_killed_while_it_waited_never_runs(busy: Home, tmp_path: Path) -> None:
    with execution(busy, "touch ran") as terminal:
        terminal.shows("#2 waiting")
        terminal.send_signal(signal.SIGKILL)
        terminal.process.wait()
    busy.gate.touch()
    has_ended(busy, StateName.FAILED, 2)
    assert not (tmp_path / "ran").exists()
    assert job(busy, 2)["history"][-1]["text"].endswith("hung up: its terminal is gone")


def test_it_is_not_rerun(lab: Home) -> None:
    with execution(lab, "exit 1") as terminal:
        assert terminal.status() == 1
    done = lab.call("rerun", "0")
    assert "#0 was interactive; start it again with gputui exec" in done.stderr


@pytest.mark.parametrize(
    ("words", "inside", "sentence"),
    [
        (["exec", "--", "true"], False, "gputui exec needs a terminal; without one: gputui add -- COMMAND"),
        (["shell"], False, "gputui shell needs a terminal"),
        (["exec", "--", "true"], True, "gputui exec cannot run inside a job"),
        (["exec", "--wait", "soon", "--", "true"], False, "not a duration"),
    ],
)
def test_what_cannot_be_interactive_is_refused_in_a_sentence(
    lab: Home, words: list[str], inside: bool, sentence: str
) -> None:
    done = lab.call(*words, env={"GPUTUI_RUN": "x.1.1"} if inside else None)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert lab.ask("listing")["jobs"] == []
