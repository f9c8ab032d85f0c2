"""Identifying and signalling processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from support.waiting import until

from gputui.process import processes
from gputui.process.processes import AttemptMarks

TOKEN = "0123abcd.3.1"


@pytest.fixture
def bearer() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], env={"A": "1", "GPUTUI_RUN": TOKEN}, start_new_session=True) as process:
        until(lambda: processes.bears_token(process.pid, TOKEN), "the kernel shows its environment")
        yield process
        process.kill()


@pytest.fixture
def external_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_token_is_matched_whole(bearer: subprocess.Popen[bytes]) -> None:
    assert processes.bears_token(bearer.pid, TOKEN)
    for other in (TOKEN[1:], TOKEN[:-1], TOKEN + "1", ""):
        assert not processes.bears_token(bearer.pid, other)


def test_the_dead_are_not_in_the_tree(bearer: subprocess.Popen[bytes]) -> None:
    assert bearer.pid in processes.tree(AttemptMarks(TOKEN, bearer.pid))
    bearer.kill()
    os.waitid(os.P_PID, bearer.pid, os.WEXITED | os.WNOWAIT)
    zombie = processes.stat_of(bearer.pid)
    assert zombie is not None
    assert not zombie.alive
    assert processes.tree(AttemptMarks(TOKEN, bearer.pid)) == {}


def test_a_session_with_the_number_of_a_dead_wrapper_is_trusted_only_with_the_token() -> None:
    """Pids are given out anew: who leads a session of that number now may be an innocent daemon's dead parent."""
    script = "sleep 60 & exec true"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as dead:
        dead.wait()
        until(lambda: len(members_of_session(dead.pid)) == 1, "an innocent is left in that session")
        [innocent] = members_of_session(dead.pid)
        assert processes.tree(AttemptMarks(TOKEN, dead.pid)) == {}
        assert set(processes.tree(AttemptMarks(TOKEN, dead.pid, pinned=True))) == {innocent}
        os.kill(innocent, signal.SIGKILL)


def test_members_of_a_bearers_session_belong_to_the_tree_without_bearing_the_token() -> None:
    script = "env -i sleep 60 & exec sleep 61"
    environment = {**os.environ, "GPUTUI_RUN": TOKEN}
    with subprocess.Popen(["sh", "-c", script], start_new_session=True, env=environment) as wrapper:
        until(lambda: len(processes.tree(AttemptMarks(TOKEN, wrapper.pid))) == 2, "both are found")
        for pid, stat in processes.tree(AttemptMarks(TOKEN, wrapper.pid)).items():
            processes.signal_member(pid, stat.started, signal.SIGKILL)


def members_of_session(number: int) -> list[int]:
    return [pid for pid, stat in processes._processes() if stat.session == number]


def test_a_process_with_an_odd_name_is_read_rightly() -> None:
    script = "printf 'a) R (1 2' >/proc/$$/comm; echo; read x"
    with subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = processes.stat_of(process.pid)
        assert stat is not None
        assert stat.parent == os.getpid()
        process.kill()


def test_a_process_that_started_at_another_time_is_not_signalled(external_process: subprocess.Popen[bytes]) -> None:
    stat = processes.stat_of(external_process.pid)
    assert stat is not None
    processes.signal_member(external_process.pid, stat.started + 1, signal.SIGKILL)
    assert external_process.poll() is None
    processes.signal_member(external_process.pid, stat.started, signal.SIGKILL)
    assert external_process.wait() == -signal.SIGKILL
