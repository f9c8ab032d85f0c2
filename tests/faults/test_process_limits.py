"""Too few processes or too little memory: a scheduler answers, exits when asked to, and loses no job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.app import SIZE, at_home, restored
from support.sessions import GPUTUI, VICTIM, Home, Process, all_pids, finished
from support.terminal import recorded
from support.waiting import until

from gputui.cli.output import UNREACHABLE
from gputui.session.control.connection import ClientError

_CGROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


_JOIN = 'echo $$ >"$0" && exec "$@"'


class Limit:
    """A limit on a program. `words` are put before the words of the program, and `lift` removes the limit."""

    def __init__(self, words: Sequence[str], group: Path | None = None) -> None:
        self.words = tuple(words)
        self._group = group

    def lift(self) -> None:
        if self._group is not None:
            (self._group / "pids.max").write_text("max")

    def close_in(self) -> None:
        """Allow no further processes."""
        if self._group is None:
            pytest.skip("without a control group, running processes cannot be limited")
        (self._group / "pids.max").write_text((self._group / "pids.current").read_text())


@contextmanager
def few_processes(most: int) -> Iterator[Limit]:
    """Limit the number of processes and threads together, or skip the test if that is impossible here."""
    group = _made_group()
    if group is None:
        yield _by_user(most)
        return
    (group / "pids.max").write_text(str(most))
    try:
        yield Limit(("/bin/sh", "-c", _JOIN, str(group / "cgroup.procs")), group)
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "all processes of the group have ended")
        group.rmdir()


def _made_group() -> Path | None:
    for place in _CGROUPS:
        group = place / f"gputui-test-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "pids.max").exists():
            return group
        group.rmdir()
    return None


def _by_user(most: int) -> Limit:
    """Limit the processes of the user. The kernel does not limit those of root."""
    if os.geteuid() == 0:
        pytest.skip("no control group for processes can be made here, and root has no other limit")
    mine = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in all_pids() if _is_mine(pid))
    return Limit(("bash", "-c", f'ulimit -S -u {mine + most} && exec "$@"', "bash"))


def _is_mine(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/task").st_uid == os.geteuid()
    except OSError:
        return False


def little_memory(kilobytes: int) -> Limit:
    """Limit the address space. Starting a thread fails first, because its stack needs much of it."""
    return Limit(("bash", "-c", f'ulimit -S -v {kilobytes} && exec "$@"', "bash"))


JOBS = 8
"""Number of jobs, which all start in one turn."""


def start(home: Home, limit: Limit) -> Process:
    jobs = home.write(*(home.told(job, "sleep 0.05") for job in range(JOBS)))
    words = [*GPUTUI, "run", "--gpus", f"0x{JOBS}", "--pause-after", "0", "--output-dir", str(home.root), str(jobs)]
    return subprocess.Popen(
        [*limit.words, *words], cwd=home.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def has_tried_again(home: Home) -> bool:
    """Return whether an attempt that could not be started was followed by another."""
    with suppress(ClientError):  # it may not answer for a while
        return bool(home.ask_quietly()) and any(job["attempt"] > 1 for job in home.ask("listing")["jobs"])
    return False


def run_and_finish_without_the_limit(home: Home, limit: Limit) -> None:
    run = start(home, limit)
    until(lambda: run.poll() is not None or has_tried_again(home), "it has ended, or retries")
    run.send_signal(signal.SIGINT)  # drain
    done = finished(run)
    assert "Traceback" not in done.stderr, done.stderr
    limit.lift()
    again = finished(start(home, Limit(())))
    assert again.returncode == 0, again.stderr
    home.gone()
    assert home.runs() == {str(job): 1 for job in range(JOBS)}
    assert {job.state.name for job in home.jobs()} == {"succeeded"}
    assert home.claims() == []


@pytest.mark.parametrize("most", [1, 2, 5, 9, 16])
def test_with_few_processes_nothing_hangs_and_every_job_runs_once(home: Home, most: int) -> None:
    with few_processes(most) as limit:
        try:
            run_and_finish_without_the_limit(home, limit)
        finally:
            limit.lift()
            home.end()


@pytest.mark.parametrize("megabytes", [18, 20, 25, 30, 35, 45, 60, 120])
def test_with_little_memory_nothing_hangs_and_every_job_runs_once(home: Home, megabytes: int) -> None:
    run_and_finish_without_the_limit(home, little_memory(1000 * megabytes))


def test_a_daemon_with_few_processes_takes_over(home: Home) -> None:
    """Only what the killed owner had is available to it."""
    gate = home.directory / "gate"
    waits = f"until test -e {gate}; do sleep 0.05; done"
    jobs = home.write(home.told(0, waits), home.told(1, waits), "exit 7")
    words = [*GPUTUI, "run", "--gpus", "0,1", "--output-dir", str(home.root), str(jobs)]
    with few_processes(60) as limit:
        run = subprocess.Popen([*limit.words, *words], cwd=home.directory, stderr=subprocess.DEVNULL, stdout=-3)
        daemon = home.waiter()
        until(lambda: home.runs() == {"0": 1, "1": 1}, "both jobs run")
        limit.close_in()
        run.kill()
        run.wait()
        assert home.owner() == daemon
        gate.touch()
        until(lambda: home.ask("listing", jobs=[2])["jobs"][0]["state"] == "failed", "the daemon starts the next")
        limit.lift()
        home.gone()
    assert [job.attempts[-1].exit_code for job in home.jobs()] == [0, 0, 7]


BROKEN = {"step": "watched", "nth": 1, "raise": True}
FAILURES = pytest.mark.parametrize(
    ("orders", "why"),
    [
        pytest.param({"bad_closing": True}, "RuntimeError: a defect", id="closing-fails"),
        pytest.param({"no_closing": True}, "it died without a traceback", id="no-memory-to-close"),
    ],
)
"""One defect ends the owner's thread, a second one interrupts or prevents closing."""


def broken(orders: dict[str, object], home: Home) -> dict[str, str]:
    return {"VICTIM": json.dumps({**BROKEN, **orders, "tally": str(home.directory / "tally")})}


@FAILURES
def test_a_run_whose_owner_fails_twice_reports_it_and_frees_the_session(
    home: Home, orders: dict[str, object], why: str
) -> None:
    words = [*VICTIM, "run", "--gpus", "0", "--output-dir", str(home.root), str(home.write("sleep 600", "true"))]
    env = {**os.environ, **broken(orders, home)}
    run = subprocess.run(words, cwd=home.directory, env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == UNREACHABLE
    assert f"scheduler failed, jobs keep running: {why}" in run.stderr
    assert "Traceback" not in run.stderr
    home.owner()
    until(lambda: home.ask("status")["counts"] == {"running": 1, "queued": 1}, "the daemon continues with all jobs")


@FAILURES
def test_an_app_whose_owner_fails_twice_reports_it_and_restores_the_terminal(
    tmp_path: Path, orders: dict[str, object], why: str
) -> None:
    with at_home(tmp_path) as home:
        words = home.words(home.write("sleep 600", "true"), gpus="cpu:1")[len(GPUTUI) :]
        with recorded([*VICTIM, *words], size=SIZE, cwd=home.directory, env=broken(orders, home)) as terminal:
            assert terminal.status() == 1
            assert f"scheduler failed, jobs keep running: {why}" in terminal.text
            restored(terminal)
        home.owner()
        until(lambda: home.counts() == {"running": 1, "queued": 1}, "the daemon continues with all jobs")
