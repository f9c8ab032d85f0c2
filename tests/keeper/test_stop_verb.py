"""`gputui stop` ends whoever owns the session and whoever waits for it, and says so only when it is true."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.sessions import GPUTUI, Process, alive
from support.waiting import until

from gputui.core.events import Mode, PauseKind

STOPPED = "nothing of gputui runs here any more"
Run = Callable[[Home], Process]


def stop(home: Home) -> subprocess.CompletedProcess[str]:
    line = [*GPUTUI, "stop", "--session", str(home.root)]
    return subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def on_a_pipe(home: Home) -> Process:
    run = home.start("-", stdin=subprocess.PIPE)
    assert run.stdin is not None
    run.stdin.write(home.told("a") + "\n")
    run.stdin.flush()
    until(home.runs, "its first job ran")
    return run


def following(home: Home, *words: str) -> Process:
    (home.folder / "queue").touch()
    run = home.start("--follow", home.folder / "queue", *words)
    until(home.ask_quietly, "it owns the session")
    until(lambda: "lanes" in home.ask("lanes") and home.ask("sources"), "it follows the file")
    return run


def paused(home: Home) -> Process:
    run = following(home)
    home.command({"type": "pause", "kind": "user"})
    return run


def paused_by_crashes(home: Home) -> Process:
    run = following(home, "--pause-after", "1", "--wait-when-paused")
    (home.folder / "queue").write_text("false\ntrue\n")
    until(lambda: home.ask("status")["scheduler"]["cause"], "the crash has paused it")
    return run


def waiting_when_paused(home: Home) -> Process:
    run = home.start(home.write("sleep 600"), "--wait-when-paused")
    until(lambda: home.database.exists() and home.ask("status")["active"], "the job runs")
    home.command({"type": "pause", "kind": "user"})
    return run


OWNERS: list[Run] = [on_a_pipe, following, paused, paused_by_crashes, waiting_when_paused]


@pytest.mark.parametrize("begin", OWNERS, ids=lambda run: run.__name__)
def test_whatever_a_run_waits_for_it_ends_and_its_keeper_with_it(home: Home, begin: Run) -> None:
    run = begin(home)
    home.waiter()
    told = stop(home)
    assert told.returncode == 0, told
    assert STOPPED in told.stdout
    assert home.members() == []
    assert home.processes() == []
    run.communicate()


@pytest.mark.parametrize("begin", [following, paused, paused_by_crashes], ids=lambda run: run.__name__)
def test_a_followed_file_is_left_when_its_run_is_terminated(home: Home, begin: Run) -> None:
    run = begin(home)
    home.waiter()
    run.terminate()
    run.communicate(timeout=60)
    assert run.returncode == 143
    assert home.members() == []
    assert home.load().mode is Mode.PAUSED


def test_a_keeper_that_follows_a_file_ends_too(home: Home) -> None:
    run = paused(home)
    kill(run.pid)
    run.communicate()
    home.owner()
    assert STOPPED in stop(home).stdout
    assert home.members() == []


def test_crashes_stay_the_cause_of_a_pause_that_was_left_on_purpose(home: Home) -> None:
    run = paused_by_crashes(home)
    assert STOPPED in stop(home).stdout
    run.communicate()
    cause = home.load().cause
    assert cause is not None
    assert (cause.kind, cause.left) == (PauseKind.CRASHES, True)


def test_a_daemon_that_nothing_can_be_known_of_is_named(home: Home, tmp_path: Path) -> None:
    daemon = "env -i setsid sh -c 'echo $$ >daemon.new; mv daemon.new daemon; exec sleep 600' >/dev/null 2>&1"
    run = home.start(home.write(f"({daemon} </dev/null &); sleep 600"))
    number = home.folder / "daemon"
    until(number.exists, "the daemon runs")
    pid = int(number.read_text())
    try:
        told = stop(home)
        assert told.returncode == 0
        assert f"not known: pid {pid} (sleep 600) began where these jobs ran" in told.stderr
        assert alive(pid)
    finally:
        kill(pid)
        run.communicate()


def test_daemons_of_others_that_began_meanwhile_are_not_named(
    home: Home, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As an sshd for somebody who logs in: of the same user here, without an environment, and no child of a job."""
    run = home.start(home.write("touch begun; sleep 600"))
    until((home.folder / "begun").exists, "the job runs")
    places = ("/", tmp_path_factory.mktemp("elsewhere"))
    others = [subprocess.Popen(["sleep", "600"], cwd=cwd, env={}, start_new_session=True) for cwd in places]
    try:
        told = stop(home)
        assert (told.returncode, told.stderr) == (0, "")
    finally:
        for other in others:
            other.kill()
            other.wait()
        run.communicate()
