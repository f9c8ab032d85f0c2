"""Sessions met in another boot, on another machine, in another container, or after pids were given out anew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.ptys import Terminal
from support.sessions import ON_A_SHARED_DISK, VICTIM, Session, alive, move, said
from support.waiting import until

from gputui.process.machine import World
from gputui.session.store.store import Change


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    session.sweep()


def unwatched(session: Session, label: str, code: int) -> str:
    """A job that ends as soon as its owner is dead."""
    return session.told(label, f"until test -e {session.folder}/abandoned; do sleep 0.01; done; exit {code}")


def abandoned(session: Session, *commands: str) -> None:
    """Jobs under way whose owner was killed."""
    jobs = session.write(*commands)
    owner = session.start(jobs)
    until(lambda: len(session.runs()) == min(2, len(commands)), "the jobs run")
    owner.kill()
    owner.communicate()
    (session.folder / "abandoned").touch()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def test_a_claim_that_names_an_innocent_process_is_lost_and_the_innocent_lives(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    session.sweep()
    until(lambda: not alive(wrapper), "the wrapper is gone")
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        (session.claims_folder / "0.1").write_text(f"{innocent.pid}\n")
        assert session.run().returncode == 1
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()
    assert session.states() == ["lost"]
    assert session.runs() == {"a": 1}


def test_after_a_reboot_running_jobs_are_lost_and_written_exit_codes_count(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), unwatched(session, "b", 7))
    until(lambda: b"exit 7" in (session.claims_folder / "1.1").read_bytes(), "b has ended")
    session.sweep()
    move(session, boot="another boot")
    assert session.run().returncode == 1
    assert session.states() == ["lost", "failed"]
    lost, failed = session.jobs()
    assert "the machine went down" in (lost.attempts[-1].signature or "")
    assert failed.attempts[-1].exit_code == 7
    assert session.runs() == {"a": 1, "b": 1}


def test_after_a_reboot_a_process_of_the_same_number_is_not_touched(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    move(session, boot="another boot")
    assert session.run().returncode == 1
    assert session.states() == ["lost"]
    assert alive(wrapper)


def test_a_session_of_another_machine_is_refused_and_not_touched(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), session.told("b", "sleep 600"), session.told("c"))
    move(session, machine="0123", hostname="lab7", boot="another boot")
    before = files_of(session.root)
    done = session.run(session.folder / "jobs.txt", **ON_A_SHARED_DISK)
    assert done.returncode == 2
    assert said(done).startswith(f"{session.root} lives on lab7 (2 running): ssh -t lab7 gputui")
    assert "gputui run --adopt" in said(done)
    assert files_of(session.root) == before
    assert session.runs() == {"a": 1, "b": 1}


def test_a_session_of_another_machine_with_an_unfinished_log_is_not_touched(session: Session) -> None:
    """Its owner may be alive over there: what is in its write-ahead log must stay there."""
    abandoned(session, session.told("a", "sleep 600"))
    move(session, machine="0123", hostname="lab7", boot="another boot")
    with session.store() as store:
        store.commit(Change(replies=[("uuid", "reply", 0.0)]))
        before = files_of(session.root)
        assert before["session.db-wal"]
        copy = Session(session.folder, "copy")
        copy.private.mkdir(parents=True, mode=0o700)
        for name in ("session.db", "session.db-wal"):
            (copy.private / name).write_bytes(before[name])
    before = files_of(copy.root)
    assert copy.run(session.folder / "jobs.txt", **ON_A_SHARED_DISK).returncode == 2
    assert files_of(copy.root) == before


def test_another_container_is_refused_while_jobs_run_there(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    move(session, pid_namespace="pid:[1]")
    done = session.run()
    assert done.returncode == 2
    assert "lives in another container" in said(done)
    assert alive(session.claim_pid(0))
    assert session.load().book.active == {0}


def adopting(session: Session) -> Terminal:
    """`run --adopt` at a terminal, on a disk that other machines share."""
    words = ["run", "--no-keeper", "--adopt", "--gpus", "0,1", "--output-dir", str(session.root)]
    return Terminal(["env", 'VICTIM={"shared_disk": true}', *VICTIM, *words], session.folder)


def test_a_session_of_a_machine_that_is_gone_is_adopted_after_a_question(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), unwatched(session, "b", 7), session.told("c"))
    until(lambda: b"exit 7" in (session.claims_folder / "1.1").read_bytes(), "b has ended")
    session.sweep()
    move(session, machine="0123", hostname="lab7", boot="another boot")
    terminal = adopting(session)
    terminal.shows("lives on lab7 (2 running)")
    terminal.shows("[y] all is gone, adopt it")
    terminal.press("y")
    assert terminal.status() == 0, terminal.text
    terminal.close()
    assert session.states() == ["lost", "failed", "succeeded"]
    assert session.run(**ON_A_SHARED_DISK).returncode == 0, "it lives here now"
    assert session.runs() == {"a": 1, "b": 1, "c": 1}


def test_a_session_that_the_user_does_not_adopt_is_not_touched(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    move(session, machine="0123", hostname="lab7", boot="another boot")
    before = files_of(session.root)
    terminal = adopting(session)
    terminal.shows("[n] leave it")
    terminal.press("n")
    assert terminal.status() == 2
    terminal.close()
    done = session.run("--adopt", **ON_A_SHARED_DISK)
    assert done.returncode == 2
    assert "--adopt asks on a terminal, or give -y" in said(done)
    assert files_of(session.root) == before


def test_a_session_is_adopted_without_a_terminal_by_whoever_says_yes(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), session.told("b", "sleep 600"), session.told("c"))
    session.sweep()
    move(session, machine="0123", hostname="lab7", boot="another boot")
    done = session.run("--adopt", "-y", **ON_A_SHARED_DISK)
    assert done.returncode == 0, done.stderr
    assert session.states() == ["lost", "lost", "succeeded"]


def test_a_host_that_was_renamed_goes_on_with_a_session_on_its_own_disk(session: Session) -> None:
    """Nobody can work on such a disk elsewhere, and nothing of another boot lives."""
    abandoned(session, session.told("a", "sleep 600"), unwatched(session, "b", 7), session.told("c"))
    until(lambda: b"exit 7" in (session.claims_folder / "1.1").read_bytes(), "b has ended")
    session.sweep()
    move(session, hostname="old-name", boot="another boot")
    assert session.run().returncode == 1
    assert session.states() == ["lost", "failed", "succeeded"]
    assert session.runs() == {"a": 1, "b": 1, "c": 1}


def test_a_recreated_container_goes_on_when_nobody_of_the_old_one_lives(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"), unwatched(session, "b", 7), session.told("c"))
    until(lambda: b"exit 7" in (session.claims_folder / "1.1").read_bytes(), "b has ended")
    move(session, pid_namespace="pid:[1]")
    assert session.run().returncode == 2
    session.sweep()
    until(lambda: not session.processes(), "nobody of the old container lives")
    assert session.run().returncode == 1
    assert session.states() == ["lost", "failed", "succeeded"]
    assert "its container was stopped" in (session.last(0).signature or "")
    assert session.runs() == {"a": 1, "b": 1, "c": 1}


def test_a_restarted_container_of_the_same_number_is_another(session: Session) -> None:
    """Namespaces' numbers are given out anew; when its first process began is not."""
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    move(session, init_started=1)
    done = session.run()
    assert done.returncode == 2
    assert "lives in another container" in said(done)
    assert alive(wrapper)


def test_where_the_first_process_cannot_be_seen_it_counts_as_the_same(session: Session) -> None:
    """Also what gputui 0.1.0 has written, which looked at neither."""
    abandoned(session, session.told("a", f"until test -e {session.folder}/go; do sleep 0.01; done; exit 3"))
    with session.store() as store:
        identity = store.identity()
        assert identity is not None
        world = replace(identity.world, init_started=None)
        store.commit(Change(identity=replace(identity, world=world, folder=None), full=True))
    with session.running() as owner:
        (session.folder / "go").touch()
        assert owner.wait(60) == 1
    assert session.last(0).exit_code == 3
    assert session.runs() == {"a": 1}


def test_another_container_may_go_on_when_nothing_runs(session: Session) -> None:
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
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=session.folder)
    assert done.returncode == 2
    assert "lives in another container" in said(done)
    assert len(session.processes()) >= 1


def in_a_namespace(session: Session, script: str) -> subprocess.Popen[str]:
    """A container with processes of its own, whose first one is a shell that runs this."""
    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let us make a pid namespace")
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
    return subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=session.folder)


def test_a_real_container_that_was_stopped_leaves_its_session_to_the_next(session: Session) -> None:
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


def test_in_a_restarted_container_nobody_is_killed_for_a_dead_wrappers_number(session: Session) -> None:
    abandoned(session, session.told("a", "sleep 600"))
    wrapper = session.claim_pid(0)
    session.sweep()
    until(lambda: not session.processes(), "nobody of the session lives")
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
    assert int((session.folder / "innocent").read_text()) == wrapper
    assert out.endswith("alive\n"), out
    assert session.states() == ["lost"]


def test_a_host_that_was_renamed_is_still_the_same_machine() -> None:
    here = World(machine="1", hostname="a", boot="x", pid_namespace="n")
    assert here.same_machine(replace(here, hostname="b"))
    assert here.same_machine(replace(here, boot="y"))
    assert not here.same_machine(replace(here, hostname="b", boot="y"))
    assert not here.same_machine(replace(here, machine="2", boot="y"))
    assert not replace(here, boot="").same_machine(replace(here, boot="", hostname="b"))
