"""Followed files and yielders continue under the next scheduler: each line and each item runs once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.sessions import Home, Process, finished, kill
from support.waiting import until

from gputui.session.lock import OwnerKind


def appended(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def followed(home: Home) -> Path:
    queue = home.directory / "gpu.queue"
    queue.write_text(home.told("before") + "\n")
    return queue


def follow(home: Home, path: Path, *words: str) -> Process:
    run = home.start("--follow", path, *words)
    until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
    return run


def ran(home: Home, *labels: str) -> None:
    until(lambda: home.runs() == dict.fromkeys(labels, 1), f"{labels} ran once each, not {home.runs()}")


def test_a_daemon_follows_a_file_from_where_the_killed_run_was(home: Home) -> None:
    queue = followed(home)
    run = follow(home, queue)
    appended(queue, home.told("one") + "\n" + home.told("two")[:5])
    ran(home, "one")
    home.waiter()
    run.kill()
    run.communicate()
    appended(queue, home.told("two")[5:] + "\n")
    home.owner(OwnerKind.DAEMON)
    ran(home, "one", "two")
    daemon = home.owner()
    home.waiter()
    kill(daemon)
    appended(queue, home.told("three") + "\n")
    home.owner(but=daemon)
    ran(home, "one", "two", "three")


def test_the_next_run_reads_what_was_appended_while_the_session_was_stopped(home: Home) -> None:
    queue = followed(home)
    run = follow(home, queue)
    appended(queue, home.told("one") + "\n")
    ran(home, "one")
    run.send_signal(signal.SIGTERM)
    assert finished(run).returncode == 143
    home.gone()
    appended(queue, home.told("two") + "\n")
    run = home.start()
    ran(home, "one", "two")
    run.send_signal(signal.SIGTERM)
    run.communicate()


def test_a_run_ends_when_its_file_is_forgotten(home: Home) -> None:
    queue = followed(home)
    run = follow(home, queue)
    assert home.ask("forget", paths=[str(queue)]) == [str(queue)]
    assert finished(run).returncode == 0


@pytest.mark.parametrize("killed", ["run", "run and daemon"])
def test_a_daemon_runs_the_remaining_items_of_a_yielder(home: Home, killed: str) -> None:
    gate = home.directory / "gate"
    path = home.directory / "gen.py"
    path.write_text(
        "import os, time\n"
        "def yielder():\n"
        "    for n in range(6):\n"
        f"        yield 'echo %d >>{home.lines}; exit %d' % (n, n == 1)\n"
        f"        while n == 2 and not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
    )
    run = home.start("--job_yielder", path)
    ran(home, "0", "1", "2")
    home.waiter()
    run.kill()
    run.communicate()
    daemon = home.owner(OwnerKind.DAEMON)
    if killed == "run and daemon":
        home.waiter()
        kill(daemon)
        home.owner(but=daemon)
    gate.touch()
    ran(home, *"012345")
    home.gone("the yielder and the daemon have ended")
    again = finished(home.start("--job_yielder", path))
    assert again.returncode == 1
    assert home.runs() == dict.fromkeys("012345", 1) | {"1": 2}, "only the failed job is rerun"


def write(writer: int, text: str) -> None:
    """Write to the FIFO. Retry while it has no reader."""

    def written() -> bool:
        try:
            return os.write(writer, text.encode()) > 0
        except BrokenPipeError:
            return False

    until(written, "the FIFO is read")


def test_no_line_of_a_fifo_is_lost_at_a_hand_over(home: Home) -> None:
    fifo = home.directory / "fifo"
    os.mkfifo(fifo)
    run = follow(home, fifo)
    writer = os.open(fifo, os.O_WRONLY)
    for number in range(4):
        write(writer, home.told(number) + "\necho ")
        run.send_signal(signal.SIGHUP)
        run.communicate()
        home.owner(OwnerKind.DAEMON)
        write(writer, "half\n")
        run = home.start()
        home.owner(OwnerKind.RUN)
    ran(home, *"0123")
    os.close(writer)
    until(lambda: home.ask("status")["counts"].get("succeeded") == 8, "the halves became whole commands")
    run.send_signal(signal.SIGTERM)
    run.communicate()


def test_a_followed_file_can_be_given_again_with_other_settings(home: Home) -> None:
    queue = followed(home)
    with home.running("--follow", queue) as run:
        until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
        again = finished(home.start("--follow", queue, "--project", "other"))
        assert "now read by that process" in again.stderr
        appended(queue, home.told("one") + "\n")
        ran(home, "one")
        appended(queue, home.told("two") + "\n")
        ran(home, "one", "two")
        assert {job["group"] for job in home.ask("listing")["jobs"]} == {"other"}
        run.send_signal(signal.SIGTERM)
        run.wait()


def test_a_yielder_that_is_given_again_restarts(home: Home) -> None:
    gen = home.directory / "gen.py"
    text = f"import time\ndef yielder():\n    yield 'echo LABEL >>{home.lines}'\n    time.sleep(1000)\n"
    gen.write_text(text.replace("LABEL", "old"))
    with home.running(gen) as run:
        ran(home, "old")
        gen.write_text(text.replace("LABEL", "new").replace("1000", "0"))
        assert finished(home.start(gen)).returncode == 0
        ran(home, "old", "new")
        run.send_signal(signal.SIGTERM)
        run.wait()
