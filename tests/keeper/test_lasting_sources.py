"""Followed files and yielders go on under the next owner: every line once, every item once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.homes import Home, kill
from support.sessions import finished, listened
from support.waiting import until

from gputui.session.lock import OwnerKind


def appended(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def followed(home: Home) -> Path:
    queue = home.folder / "gpu.queue"
    queue.write_text(home.told("before") + "\n")
    return queue


def ran(home: Home, *labels: str) -> None:
    until(lambda: home.runs() == dict.fromkeys(labels, 1), f"{labels} ran once each, not {home.runs()}")


def test_a_keeper_follows_on_where_the_killed_run_had_read_to(home: Home) -> None:
    queue = followed(home)
    run = home.start("--follow", queue)
    until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
    appended(queue, home.told("one") + "\n" + home.told("two")[:5])
    ran(home, "one")
    home.waiter()
    run.kill()
    run.communicate()
    appended(queue, home.told("two")[5:] + "\n")
    home.owner(OwnerKind.KEEPER)
    ran(home, "one", "two")
    keeper = home.owner()
    home.waiter()
    kill(keeper)
    appended(queue, home.told("three") + "\n")
    home.owner(but=keeper)
    ran(home, "one", "two", "three")


def test_stopping_ends_the_keeper_and_the_next_run_reads_what_was_appended_meanwhile(home: Home) -> None:
    queue = followed(home)
    run = home.start("--follow", queue)
    until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
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


def test_a_forgotten_file_is_followed_no_more_and_the_run_ends(home: Home) -> None:
    queue = followed(home)
    run = home.start("--follow", queue)
    until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
    assert home.ask("forget", paths=[str(queue)]) == [str(queue)]
    assert finished(run).returncode == 0


@pytest.mark.parametrize("killed", ["run", "run and keeper"])
def test_a_keeper_takes_the_rest_of_a_yielder_s_items(home: Home, killed: str) -> None:
    gate = home.folder / "gate"
    path = home.folder / "gen.py"
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
    keeper = home.owner(OwnerKind.KEEPER)
    if killed == "run and keeper":
        home.waiter()
        kill(keeper)
        home.owner(but=keeper)
    gate.touch()
    ran(home, *"012345")
    home.gone("the yielder has ended and so has the keeper")
    again = finished(home.start("--job_yielder", path))
    assert again.returncode == 1
    assert home.runs() == dict.fromkeys("012345", 1) | {"1": 2}, "what failed is rerun when the user runs it again"


def test_a_line_that_cannot_be_taken_is_told_and_costs_no_other(home: Home) -> None:
    queue = followed(home)
    with home.running("--follow", queue) as run:
        heard = listened(run)
        until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
        bad = "#: after=nobody\necho x\n#: gpsu=1\necho y\n"
        appended(queue, home.told("one") + "\n" + bad + home.told("two") + "\n")
        ran(home, "one", "two")
        until(lambda: "nobody" in "".join(heard) and "gpsu" in "".join(heard), "both are told")
        run.send_signal(signal.SIGTERM)
        run.wait()


def put(writer: int, text: str) -> None:
    """A writer is told when nobody reads, and tries again."""

    def written() -> bool:
        try:
            return os.write(writer, text.encode()) > 0
        except BrokenPipeError:
            return False

    until(written, "somebody reads the FIFO")


def test_lines_of_a_fifo_survive_hand_overs(home: Home) -> None:
    """What a writer has written is either still in the pipe or durable, whoever reads."""
    fifo = home.folder / "fifo"
    os.mkfifo(fifo)
    run = home.start("--follow", fifo)
    until(lambda: home.ask_quietly() and home.ask("sources"), "the FIFO is followed")
    writer = os.open(fifo, os.O_WRONLY)
    for number in range(4):
        put(writer, home.told(number) + "\necho ")
        run.send_signal(signal.SIGHUP)
        run.communicate()
        home.owner(OwnerKind.KEEPER)
        put(writer, "half\n")
        run = home.start()
        home.owner(OwnerKind.RUN)
    ran(home, *"0123")
    os.close(writer)
    until(lambda: home.ask("status")["counts"].get("succeeded") == 8, "the halves became whole commands")
    run.send_signal(signal.SIGTERM)
    run.communicate()


def test_a_file_that_is_named_again_is_followed_on(home: Home) -> None:
    queue = followed(home)
    with home.running("--follow", queue) as run:
        until(lambda: home.ask_quietly() and home.ask("sources"), "the file is followed")
        again = finished(home.start("--follow", queue, "--project", "other"))
        assert "read there from now on" in again.stderr
        appended(queue, home.told("one") + "\n")
        ran(home, "one")
        appended(queue, home.told("two") + "\n")
        ran(home, "one", "two")
        assert {job["group"] for job in home.ask("listing")["jobs"]} == {"other"}
        run.send_signal(signal.SIGTERM)
        run.wait()


def test_a_yielder_that_is_given_again_begins_anew(home: Home) -> None:
    gen = home.folder / "gen.py"
    text = f"import time\ndef yielder():\n    yield 'echo LABEL >>{home.lines}'\n    time.sleep(1000)\n"
    gen.write_text(text.replace("LABEL", "old"))
    with home.running(gen) as run:
        ran(home, "old")
        gen.write_text(text.replace("LABEL", "new").replace("1000", "0"))
        assert finished(home.start(gen)).returncode == 0
        ran(home, "old", "new")
        run.send_signal(signal.SIGTERM)
        run.wait()
