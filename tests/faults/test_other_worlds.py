"""Sessions opened after a reboot, on another machine, in another container, or after pids were reused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.sessions import ON_A_SHARED_DISK, VICTIM, Session, alive, move, said
from support.terminal import RecordedTerminal
from support.waiting import until

from gputui.process.machine import HostIdentity
from gputui.session.store.store import Change

LAB7 = {"machine": "0123", "hostname": "lab7", "boot": "another boot"}


def abandoned(session: Session, *commands: str) -> None:
    """Start jobs and kill their owner."""
    jobs = session.write(*commands)
    owner = session.start(jobs)
    until(lambda: len(session.runs()) == min(2, len(commands)), "the jobs run")
    owner.kill()
    owner.communicate()
    (session.directory / "abandoned").touch()


def three_jobs(session: Session) -> None:
    """Without an owner, one job keeps running, one has ended with 7, and one waits."""
    until_abandoned = f"until test -e {session.directory}/abandoned; do sleep 0.01; done; exit 7"
    abandoned(session, session.told("a", "sleep 600"), session.told("b", until_abandoned), session.told("c"))
    until(lambda: b"exit 7" in (session.claims_directory / "1.1").read_bytes(), "b has ended")


def assert_continued(session: Session) -> None:
    assert session.states() == ["lost", "failed", "succeeded"]
    assert session.runs() == {"a": 1, "b": 1, "c": 1}


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name != "lock"}


def test_a_claim_with_the_pid_of_another_process_is_lost_and_that_process_lives(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    session.sweep()
    until(lambda: not alive(wrapper), "the wrapper is gone")
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        (session.claims_directory / "0.1").write_text(f"{innocent.pid}\n")
        assert session.run().returncode == 1
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()
    assert session.states() == ["lost"]
    assert session.runs() == {"a": 1}


def test_after_a_reboot_running_jobs_are_lost_and_recorded_exit_codes_kept(session: Session) -> None:
    three_jobs(session)
    session.sweep()
    move(session, boot="another boot")
    assert session.run().returncode == 1
    assert_continued(session)
    assert "the machine went down" in (session.last(0).signature or "")
    assert session.last(1).exit_code == 7


def test_after_a_reboot_a_process_of_the_same_number_is_not_touched(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    move(session, boot="another boot")
    assert session.run().returncode == 1
    assert session.states() == ["lost"]
    assert alive(wrapper)


def test_a_session_of_another_machine_is_refused_and_not_changed(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), session.told("b", "sleep 600"), session.told("c"))
    move(session, **LAB7)
    before = files_of(session.root)
    done = session.run(session.directory / "jobs.txt", **ON_A_SHARED_DISK)
    assert done.returncode == 2
    assert said(done).startswith(f"{session.root} lives on lab7 (2 running): ssh -t lab7 gputui")
    assert "gputui run --adopt" in said(done)
    assert files_of(session.root) == before
    assert session.runs() == {"a": 1, "b": 1}


def test_the_write_ahead_log_of_another_machine_is_not_changed(session: Session) -> None:
    """Its owner may be alive there: its write-ahead log must not be changed."""
    abandoned(session, session.told("a", "sleep 600"))
    move(session, **LAB7)
    with session.store() as store:
        store.commit(Change(replies=[("uuid", "reply", 0.0)]))
        before = files_of(session.root)
        assert before["session.db-wal"]
        copy = Session(session.directory, "copy")
        copy.private.mkdir(parents=True, mode=0o700)
        for name in ("session.db", "session.db-wal"):
            (copy.private / name).write_bytes(before[name])
    before = files_of(copy.root)
    assert copy.run(session.directory / "jobs.txt", **ON_A_SHARED_DISK).returncode == 2
    assert files_of(copy.root) == before


@pytest.mark.parametrize("moved", [{"pid_namespace": "pid:[1]"}, {"init_started": 1}], ids=["other", "restarted"])
def test_another_container_is_refused_while_jobs_run_there(session: Session, moved: dict[str, object]) -> None:
    """A restarted container may get the number of the old one, but its first process starts later."""
    abandoned(session, session.told("a", "sleep 600"))
    move(session, **moved)
    done = session.run()
    assert done.returncode == 2
    assert "running): use it there, or start another with --output-dir" in said(done)
    assert alive(session.claim_pid(0))
    assert session.load().book.active == {0}


def adopting(session: Session) -> RecordedTerminal:
    """`run --adopt` at a terminal, on a disk that other machines share."""
    words = ["run", "--no-daemon", "--adopt", "--gpus", "0,1", "--output-dir", str(session.root)]
    return RecordedTerminal(
        ["env", 'VICTIM={"shared_disk": true}', *VICTIM, *words], cwd=session.directory, size=(160, 40)
    )


def test_a_session_of_a_machine_that_is_gone_is_adopted_after_a_question(session: Session) -> None:
    three_jobs(session)
    session.sweep()
    move(session, **LAB7)
    terminal = adopting(session)
    terminal.shows("lives on lab7 (2 running)")
    terminal.shows("[y] yes, adopt it  [n] no")
    terminal.press("y")
    assert terminal.status() == 0, terminal.text
    terminal.end()
    assert session.run(**ON_A_SHARED_DISK).returncode == 0, "it belongs to this machine now"
    move(session, **LAB7)
    assert session.run("--adopt", "-y", **ON_A_SHARED_DISK).returncode == 0
    assert_continued(session)


def test_a_session_that_is_not_adopted_is_not_changed(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    move(session, **LAB7)
    before = files_of(session.root)
    terminal = adopting(session)
    terminal.shows("[y] yes, adopt it  [n] no")
    terminal.press("n")
    assert terminal.status() == 2
    terminal.end()
    done = session.run("--adopt", **ON_A_SHARED_DISK)
    assert done.returncode == 2
    assert "was not adopted; --adopt needs a terminal and the answer y, or -y" in said(done)
    assert files_of(session.root) == before


def test_a_renamed_host_continues_a_session_on_its_own_disk(session: Session) -> None:
    """No other machine can use such a disk, and no process survives a reboot."""
    three_jobs(session)
    session.sweep()
    move(session, hostname="old-name", boot="another boot")
    assert session.run().returncode == 1
    assert_continued(session)


def test_a_recreated_container_continues_once_the_old_one_is_dead(session: Session) -> None:
    three_jobs(session)
    move(session, pid_namespace="pid:[1]")
    assert session.run().returncode == 2
    session.sweep()
    until(lambda: not session.processes(), "all processes of the old container are dead")
    assert session.run().returncode == 1
    assert "its container stopped before its end was recorded" in (session.last(0).signature or "")
    assert_continued(session)


def test_without_the_start_of_the_first_process_the_container_counts_as_the_same(session: Session) -> None:
    abandoned(session, session.told("a", f"until test -e {session.directory}/go; do sleep 0.01; done; exit 3"))
    with session.store() as store:
        identity = store.identity()
        assert identity is not None
        world = replace(identity.world, init_started=None)
        store.commit(Change(identity=replace(identity, world=world, directory=None), full=True))
    with session.running() as owner:
        (session.directory / "go").touch()
        assert owner.wait(60) == 1
    assert session.last(0).exit_code == 3
    assert session.runs() == {"a": 1}


def test_another_container_may_continue_when_nothing_runs(session: Session) -> None:
    jobs = session.write(session.told("a"))
    assert session.run(jobs).returncode == 0
    move(session, pid_namespace="pid:[1]")
    session.write(session.told("a"), session.told("b"))
    assert session.run(jobs).returncode == 0
    assert session.runs() == {"a": 1, "b": 1}


def test_a_real_pid_namespace_is_another_container(session: Session) -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "gputui", "run"]
    if subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us make a pid namespace")
    abandoned(session, session.told("a", "sleep 600"))
    words = [*command, "--output-dir", str(session.root)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=session.directory)
    assert done.returncode == 2
    assert "running): use it there, or start another with --output-dir" in said(done)
    assert len(session.processes()) >= 1


def in_a_namespace(session: Session, script: str) -> subprocess.Popen[str]:
    """Run a shell script as the first process of a container."""
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us make a pid namespace")
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
    return subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=session.directory)


def test_the_session_of_a_stopped_real_container_can_be_continued(session: Session) -> None:
    session.write(session.told("a", "sleep 600"), session.told("b"))
    run = f"{sys.executable} -m gputui run --gpus 0 --output-dir {session.root} jobs.txt"
    with in_a_namespace(session, f"{run} & wait") as container:
        until(lambda: session.runs(), "the job runs in there")
        session.claim_pid(0)
        container.kill()
    until(lambda: not session.processes(), "all of the container is dead")
    done = session.run()
    assert done.returncode == 1, done.stderr
    assert session.states() == ["lost", "succeeded"]
    assert session.runs() == {"a": 1, "b": 1}


def test_a_process_with_the_reused_pid_of_a_wrapper_is_not_killed(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    session.sweep()
    until(lambda: not session.processes(), "all its processes are dead")
    script = f"""
    echo {wrapper - 1} >/proc/sys/kernel/ns_last_pid || exit 77
    setsid sh -c 'echo $$ >innocent; sleep 600 & wait' &
    until test -s innocent; do sleep 0.01; done
    {sys.executable} -m gputui ls --session {session.root}
    kill -0 "$(cat innocent)" && echo alive
    """
    with in_a_namespace(session, script) as container:
        out, _ = container.communicate(timeout=60)
    if container.returncode == 77:
        pytest.skip("pids cannot be chosen here")
    assert int((session.directory / "innocent").read_text()) == wrapper
    assert out.endswith("alive\n"), out
    assert session.states() == ["lost"]


def test_a_host_that_was_renamed_is_still_the_same_machine() -> None:
    here = HostIdentity(machine="1", hostname="a", boot="x", pid_namespace="n")
    assert here.same_machine(replace(here, hostname="b"))
    assert here.same_machine(replace(here, boot="y"))
    assert not here.same_machine(replace(here, hostname="b", boot="y"))
    assert not here.same_machine(replace(here, machine="2", boot="y"))
    assert not replace(here, boot="").same_machine(replace(here, boot="", hostname="b"))
