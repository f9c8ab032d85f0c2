"""The next owner finds every local attempt as it is: running, ended, not started, or lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.engines import Machine, alive
from support.machines import late

from gputui.core.events import Exited, NeverRan, NotStarted, Vanished
from gputui.core.job import Purpose
from gputui.engines.claims import Absent, Claimed, DirectoryGone, Empty, Revoked
from gputui.engines.local import spawn as wrapper
from gputui.engines.protocol import Since


def test_a_job_that_ended_between_two_owners_ended_at_the_time_of_its_claim(machine: Machine) -> None:
    machine.start("until [ -e go ]; do sleep 0.01; done; exit 3")
    pid = machine.wrapper()
    machine.next_owner()
    (machine.work / "go").touch()
    machine.bury(pid)
    machine.recover()
    [end] = machine.ends()
    assert end.outcome == Exited(3)
    assert end.at == os.stat(machine.claims.path(0, 1)).st_mtime


def test_the_next_owner_reports_a_missing_directory_too(machine: Machine) -> None:
    machine.engine.start([machine.launch("true", cwd="/no/such/directory")])
    machine.next_owner()
    machine.until(lambda: isinstance(machine.claims.read(0, 1), DirectoryGone))
    machine.recover()
    assert machine.end_of() == NotStarted("its directory is gone")


def test_an_adopted_wrapper_that_is_killed_takes_its_command_along(machine: Machine) -> None:
    machine.start("sleep 60")
    command = machine.command()
    machine.next_owner()
    machine.recover()
    os.kill(machine.wrapper(), signal.SIGKILL)
    assert isinstance(machine.end_of(), Vanished)
    assert not alive(command)


@pytest.mark.parametrize("delay", [0, 0.002, 0.004, 0.008, 0.016, 0.2])
def test_between_a_late_wrapper_and_a_revoking_owner_exactly_one_wins(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, delay: float
) -> None:
    monkeypatch.setattr(wrapper, "arguments", late(f"time.sleep({delay})"))
    for job in range(8):
        machine.start(f"echo ran >>{job}; exit 5", job=job)
        pid = machine.spawned()[-1].pid
        machine.next_owner()
        machine.recover(job)
        outcome = machine.end_of(job)
        machine.until(lambda pid=pid: not alive(pid))  # type: ignore[misc]
        ran = (machine.work / str(job)).exists()
        assert (outcome, ran) in [(Exited(5), True), (NeverRan(), False)]


def test_a_revocation_that_was_not_committed_is_found_again(machine: Machine) -> None:
    machine.claims.revoke(0, 1)
    machine.recover()
    assert machine.end_of() == NeverRan()
    machine.engine.forget(0, 1)
    assert machine.claims.read(0, 1) == Revoked()


def test_an_empty_claim_with_a_live_wrapper_is_looked_at_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = 'echo "$$" >"$gputui_claim"'
    wait = ': >"$gputui_claim"; until [ -e "$gputui_directory/go" ]; do sleep 0.01; done; echo "$$" >>"$gputui_claim"'
    slow = wrapper.TEXT.replace(write, wait)
    assert slow != wrapper.TEXT
    monkeypatch.setattr(wrapper, "TEXT", slow)
    machine.start("exit 9")
    claim = Path(machine.claims.path(0, 1))
    machine.until(claim.exists)
    machine.next_owner()
    machine.recover()
    assert machine.reports == []
    machine.loop.call_later(0.1, (machine.work / "go").touch)
    assert machine.end_of() == Exited(9)


def test_an_order_given_before_a_survivor_is_judged_is_carried_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start("sleep 60")
    pid = machine.wrapper()
    claim = Path(machine.claims.path(0, 1))
    claim.write_bytes(b"")
    machine.next_owner()
    machine.recover()
    machine.order("kill")
    claim.write_text(f"{pid}\n")
    assert machine.end_of() == Exited(137)


def test_an_innocent_process_with_the_pid_of_a_claim_is_left_alone(machine: Machine) -> None:
    innocent = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        Path(machine.claims.path(0, 1)).write_text(f"{innocent.pid}\n")
        machine.recover()
        assert isinstance(machine.end_of(), Vanished)
        assert machine.spawned() == []
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_an_innocent_in_a_session_of_the_dead_wrappers_number_is_left_alone(machine: Machine) -> None:
    """After a container's restart, or when pids were used up, a daemon can bear what was the wrapper's number."""
    script = f"sleep 60 & echo $! >{machine.work}/innocent"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as daemons_parent:
        pass
    innocent = machine.pid_in("innocent")
    try:
        Path(machine.claims.path(0, 1)).write_text(f"{daemons_parent.pid}\n")
        machine.recover()
        assert isinstance(machine.end_of(), Vanished)
        assert alive(innocent)
    finally:
        os.kill(innocent, signal.SIGKILL)


def test_a_process_of_the_tree_that_is_not_the_wrapper_is_not_adopted(machine: Machine) -> None:
    machine.start("sleep 60")
    command = machine.command()
    Path(machine.claims.path(0, 1)).write_text(f"{command}\n")
    machine.next_owner()
    machine.recover()
    assert isinstance(machine.end_of(), Vanished)
    assert machine.spawned() == []


def test_after_a_reboot_only_a_written_end_counts(machine: Machine) -> None:
    contents = {0: "7\nexit 4\n", 1: "7\n", 2: "", 3: "revoked\n"}
    for job, content in contents.items():
        Path(machine.claims.path(job, 1)).write_text(content)
    for job in range(5):
        machine.recover(job, since=Since.REBOOT)
    rebooted = Vanished("the machine went down before its end was recorded")
    assert [machine.end_of(job) for job in range(5)] == [Exited(4), rebooted, rebooted, rebooted, rebooted]


def test_after_a_reboot_no_process_is_signalled_and_nothing_revoked(machine: Machine) -> None:
    machine.start("sleep 60")
    pid = machine.wrapper()
    machine.next_owner()
    machine.recover(since=Since.REBOOT)
    machine.recover(1, since=Since.REBOOT)
    assert isinstance(machine.end_of(0), Vanished)
    assert alive(pid)
    assert machine.claims.read(0, 1) == Claimed(pid)
    assert not Path(machine.claims.path(1, 1)).exists()


def test_old_claims_are_cleared_away_but_not_those_under_watch(machine: Machine) -> None:
    machine.start("sleep 60")
    machine.wrapper()
    machine.claims.revoke(1, 1)
    Path(machine.claims.path(2, 1)).write_text("7\nexit 0\n")
    for name in os.listdir(machine.claims.directory):
        os.utime(f"{machine.claims.directory}/{name}", (1, 1))
    machine.engine.gc(all_dead=True)
    assert os.listdir(machine.claims.directory) == ["0.1"]


def test_a_wrapper_that_is_late_by_hours_still_finds_its_revocation(machine: Machine) -> None:
    machine.recover()
    assert machine.end_of() == NeverRan()
    os.utime(machine.claims.path(0, 1), (1, 1))
    machine.next_owner()
    machine.engine.gc(all_dead=False)
    assert machine.run("touch ran") == NeverRan()
    assert not (machine.work / "ran").exists()


@pytest.mark.parametrize(("prints", "directory_too"), [(":", False), (":", True), ("echo started", False)])
def test_an_attempt_whose_claim_was_deleted_is_adopted_and_not_run_twice(
    machine: Machine, prints: str, directory_too: bool
) -> None:
    machine.start(f"{prints}; until [ -e go ]; do sleep 0.01; done; exit 8")
    pid = machine.wrapper()
    machine.until(lambda: len(machine.tree()) > 1 and (prints == ":" or machine.out() != ""))
    os.unlink(machine.claims.path(0, 1))
    if directory_too:
        os.rmdir(machine.claims.directory)
    machine.next_owner()
    machine.recover()
    machine.until(lambda: len(machine.reports) == 1)
    assert [spawned.pid for spawned in machine.spawned()] == [pid]
    assert machine.claims.read(0, 1) == Claimed(pid)
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(8)


def test_a_deleted_directory_of_claims_is_created_again(machine: Machine) -> None:
    os.rmdir(machine.claims.directory)
    assert machine.run("exit 3") == Exited(3)


@pytest.mark.parametrize("damage", [None, b"\0\0\0\0\n"])
def test_an_ended_attempt_whose_claim_is_gone_or_damaged_is_lost(machine: Machine, damage: bytes | None) -> None:
    machine.run("echo begun")
    os.unlink(machine.claims.path(0, 1))
    if damage is not None:
        Path(machine.claims.path(0, 1)).write_bytes(damage)
    machine.next_owner()
    machine.recover()
    assert machine.end_of() == Vanished("its run record is missing or damaged")


def test_an_unreadable_claim_is_retried_and_no_process_is_killed(machine: Machine) -> None:
    machine.start("until [ -e go ]; do sleep 0.01; done; exit 8")
    pid = machine.wrapper()
    machine.next_owner()
    claim = machine.claims.path(0, 1)
    os.rename(claim, f"{claim}.away")
    os.mkdir(claim)
    machine.recover()
    waited: list[bool] = []
    machine.loop.call_later(0.1, lambda: waited.append(True))
    machine.until(lambda: bool(waited))
    assert machine.reports == []
    assert alive(pid)
    os.rmdir(claim)
    os.rename(f"{claim}.away", claim)
    (machine.work / "go").touch()
    assert machine.end_of() == Exited(8)


def test_a_job_whose_wrapper_was_killed_between_two_owners_is_lost_and_its_processes_killed(machine: Machine) -> None:
    """The order that only the claim recorded is reported with it."""
    machine.start("sleep 60")
    command, pid = machine.command(), machine.wrapper()
    machine.engine.write_down(0, 1, Purpose.KILL)
    machine.engine.write_down(0, 1, Purpose.KILL)
    assert machine.claims.read(0, 1) == Claimed(pid)
    machine.next_owner()
    os.kill(pid, signal.SIGKILL)
    machine.bury(pid)
    assert alive(command)
    machine.recover()
    assert machine.end_of() == Vanished("its shell was killed while gputui was not running")
    assert machine.ends()[0].requested is Purpose.KILL
    assert not alive(command)


def test_an_order_is_never_written_before_the_claim_is_decided(machine: Machine) -> None:
    machine.engine.write_down(0, 1, Purpose.KILL)
    assert isinstance(machine.claims.read(0, 1), Absent)
    Path(machine.claims.path(0, 1)).touch()
    machine.engine.write_down(0, 1, Purpose.KILL)
    assert isinstance(machine.claims.read(0, 1), Empty)


def test_a_wrapper_that_holds_another_sessions_directory_is_neither_adopted_nor_ended(machine: Machine) -> None:
    """As in a copy of the session whose jobs bear the same tokens."""
    machine.start("sleep 60")
    pid = machine.wrapper()
    copy = machine.directory / "copy"
    shutil.copytree(machine.claims.directory, copy / "claims")
    machine.next_owner()
    machine._private = os.open(copy, os.O_RDONLY)
    machine.engine.close()
    machine.engine = machine.make_engine()
    machine.recover()
    assert machine.end_of() == Vanished("this is a copy; the job continued in the original")
    assert alive(pid)
