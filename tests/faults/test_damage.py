"""A damaged store is set aside and rebuilt from its backup, claims and job directories; no job runs again."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sessions import VICTIM, Done, Process, Session
from support.waiting import until

from gputui.core.events import Hold, Pause, PauseKind, Resume
from gputui.core.job import JobSpec
from gputui.session.client import Client
from gputui.session.messages import Commands, Curves, Listing, Show
from gputui.session.owner.requests import Load, SummaryQuestion


def garbage_in_the_middle(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    database.write_bytes(content)


def one_bad_page(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[-4096:] = b"\x5a" * 4096
    database.write_bytes(content)


def truncated(database: Path) -> None:
    database.write_bytes(database.read_bytes()[:5000])


def zero_length(database: Path) -> None:
    database.write_bytes(b"")


def no_database(database: Path) -> None:
    database.write_bytes(b"dear diary\n" * 1000)


def execute(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


def a_missing_row(database: Path) -> None:
    execute(database, "DELETE FROM job WHERE id=1")


def a_row_of_nonsense(database: Path) -> None:
    execute(database, "UPDATE job SET data=CAST(x'ff00fe' AS TEXT) WHERE id=1")


DAMAGES = [garbage_in_the_middle, one_bad_page, truncated, zero_length, no_database, a_missing_row, a_row_of_nonsense]


OFTEN_BACKED_UP = {"program": VICTIM, "env": {"VICTIM": json.dumps({"backup_every": 0.05})}}


def backed_up_jobs(session: Session, but: str = "%starting%") -> int:
    """Count the jobs in the backup, without those whose state contains `but`."""
    if not session.backup.exists():
        return 0
    connection = sqlite3.connect(f"file:{session.backup}?mode=ro&immutable=1", uri=True)
    try:
        return int(connection.execute("SELECT count(*) FROM job WHERE data NOT LIKE ?", (but,)).fetchone()[0])
    finally:
        connection.close()


def kill(owner: Process) -> None:
    owner.kill()
    owner.wait()


def with_backup(session: Session) -> Path:
    """Run six jobs: two end before the backup and four after it."""
    gate, waits = session.gate, session.waits
    jobs = session.write(
        session.told(0), session.told(1, "exit 3"), session.told(2, waits), session.told(3), session.told(4, "exit 5"),
        session.told(5),
    )  # fmt: skip
    with session.running(jobs, gpus="0", **OFTEN_BACKED_UP) as owner:
        until(lambda: session.runs()["2"] and backed_up_jobs(session) == 6, "all jobs are in the backup")
        backup = session.backup.read_bytes()
        gate.touch()
        assert owner.wait(60) == 1
    session.backup.write_bytes(backup)
    assert sum(session.runs().values()) == 6
    return jobs


def set_aside(session: Session) -> list[str]:
    return [path.name for path in session.private.glob("session.db.damaged-2*") if "-wal" not in path.name]


def assert_nothing_ran_again(session: Session, done: Done, jobs: int = 6) -> None:
    assert "Traceback" not in done.stderr
    assert session.runs() == {str(job): 1 for job in range(jobs)}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_store_is_set_aside_and_rebuilt(session: Session, damage: Callable[[Path], None]) -> None:
    with_backup(session)
    damage(session.database)
    damaged = session.database.read_bytes()
    done = session.run()
    assert done.returncode == 0
    [aside] = set_aside(session)
    assert (session.private / aside).read_bytes() == damaged
    assert aside in done.stderr
    assert "Rebuilt from the backup of" in done.stderr
    assert session.states() == ["succeeded", "failed", "succeeded", "succeeded", "failed", "succeeded"]
    assert [job.attempts[-1].exit_code for job in session.jobs()] == [0, 3, 0, 0, 5, 0]
    assert_nothing_ran_again(session, done)


SUBCOMMANDS = (["ls"], ["logs", "0"], ["results"], ["hold", "4"], ["release", "4"])


def paused_with_backup(session: Session) -> None:
    """Three jobs have ended and two wait; the backup is complete, and no scheduler runs."""
    jobs = session.write("echo acc=0.5", session.told(1, "exit 3"), session.told(2))
    assert session.run(jobs).returncode == 1
    client = Client(str(session.root))
    client.ask(Commands((Pause(PauseKind.USER),)))
    specs = tuple(JobSpec(command=session.told(job), cwd="/", environment="") for job in (3, 4))
    client.ask(Load(specs, {"PATH": os.environ["PATH"]}, "a test"))
    shutil.copyfile(session.database, session.backup)


def flips(content: bytes) -> list[tuple[int, int]]:
    """Return places in a file and the bits to flip there: in the header, each statement of the schema, and rows."""
    header = [(18, 1), (63, 1), *((place, 0xFF) for place in (16, 18, 19, 21, 28, 31, 40, 47, 52, 56, 59, 60, 63))]
    schema = [(found.start() + 3, 0x80) for found in re.finditer(rb"CREATE (TABLE|INDEX)", content)]
    assert len(schema) > 8
    chance = random.Random(20)
    written = [at for at in range(4096, len(content)) if content[at]]
    rows = [(chance.choice(written), bits) for bits in (1, 0x20, 0x80) for _ in range(5)]
    rows += [(content.index(b"exit 3"), 1), (content.index(b"PATH") + 9, 1)]
    return [*header, *schema, *rows]


def listed(root: Path) -> list[tuple[int, str, str]]:
    return [(job.id, str(job.state), job.command) for job in Client(str(root)).ask(Listing()).jobs]


def test_every_request_is_answered_whichever_byte_is_damaged(session: Session) -> None:
    paused_with_backup(session)
    content = session.database.read_bytes()
    expected = listed(session.root)
    assert [state for _, state, _ in expected] == ["succeeded", "failed", "succeeded", "queued", "queued"]
    found = 0
    for number, (place, bits) in enumerate(flips(content)):
        copy = session.directory / str(number)
        shutil.copytree(session.root, copy)
        damaged = bytearray(content)
        damaged[place] ^= bits
        (copy / ".gputui" / "session.db").write_bytes(damaged)
        messages: list[str] = []
        client = Client(str(copy), messages.append)
        client.ask(Show(0, environment=True))
        client.ask(SummaryQuestion())
        assert client.ask(Curves([0]))
        assert listed(copy) == expected, (place, bits)
        [outcome] = client.ask(Commands((Hold(job=4),)))
        assert outcome.refused is None, (place, bits)
        kept = (copy / ".gputui").glob("session.db.damaged-*")
        aside = [path.read_bytes() for path in kept if not path.name.endswith("-wal")]
        assert len(messages) == len(aside) < 2, (place, bits, messages)
        assert aside in ([], [damaged])
        assert len("".join(messages)) < 600, messages
        found += len(aside)
        shutil.rmtree(copy)
    assert found > 25


def test_a_damaged_schema_is_repaired_and_reported_once(session: Session) -> None:
    paused_with_backup(session)
    content = bytearray(session.database.read_bytes())
    content[content.index(b"CREATE TABLE job") + 2] = 0xE9
    session.database.write_bytes(content)
    done = [session.call(*words) for words in SUBCOMMANDS]
    assert [each.returncode for each in done] == [0] * len(SUBCOMMANDS), done
    [aside] = set_aside(session)
    assert [aside in each.stderr for each in done] == [True] + [False] * (len(SUBCOMMANDS) - 1)
    Client(str(session.root)).ask(Commands((Resume(),)))
    assert session.run().returncode == 0
    assert session.states() == ["succeeded", "failed", "succeeded", "succeeded", "succeeded"]
    assert session.runs() == {str(job): 1 for job in range(1, 5)}


@pytest.mark.parametrize("jobs_die", [False, True])
@pytest.mark.parametrize("harm", [None, 0, 1], ids=["removed", "emptied", "garbled"])
def test_commits_lost_with_the_log_are_restored_from_the_backup(
    session: Session, harm: int | None, jobs_die: bool
) -> None:
    gate, waits = session.gate, session.waits
    jobs = session.write(*(session.told(job, waits if job in (2, 3) else "true") for job in range(8)))
    with session.running(jobs, **OFTEN_BACKED_UP) as owner:
        until(lambda: session.markers(1) and len(session.runs()) == 4 and backed_up_jobs(session) == 8, "two run")
        kill(owner)
        if jobs_die:
            session.sweep()
        log = session.private / "session.db-wal"
        log.unlink() if harm is None else log.write_bytes(b"\xa5" * log.stat().st_size * harm)
        first, second = session.call("ls", "--json"), session.call("ls", "--json")
        told, shown = json.loads(first.stdout), json.loads(second.stdout)
        listing = shown["jobs"]
        assert [job["command"] for job in listing] == jobs.read_text().splitlines()
        assert [job["state"] for job in listing if job["id"] not in (2, 3)] == ["succeeded"] * 2 + ["queued"] * 4
        assert "the queue database lacks" in told["messages"][0]
        assert set_aside(session)[0] in told["messages"][0]
        assert "messages" not in shown
        gate.touch()
        assert session.run(jobs).returncode == (1 if jobs_die else 0)
    assert session.states() == ["succeeded"] * 2 + (["lost"] * 2 if jobs_die else ["succeeded"] * 2) + ["succeeded"] * 4
    assert session.runs() == {str(job): 1 for job in range(8)}


def test_an_attempt_that_runs_in_the_backup_but_left_no_trace_is_lost(session: Session) -> None:
    """Its claim is gone, as after an end. It may have run, so it does not run again."""
    gate, waits = session.gate, session.waits
    jobs = session.write(session.told(0, waits), session.told(1))
    with session.running(jobs, gpus="0", **OFTEN_BACKED_UP) as owner:
        until(lambda: session.runs()["0"] and backed_up_jobs(session) == 2, "the first runs, backed up")
        backup = session.backup.read_bytes()
        gate.touch()
        assert owner.wait(60) == 0
    session.backup.write_bytes(backup)
    for job in range(2):
        shutil.rmtree(session.job_directory(job))
    no_database(session.database)
    done = session.run(gpus="0")
    assert "Rebuilt from the backup" in done.stderr
    assert session.states() == ["lost", "succeeded"]
    assert session.runs()["0"] == 1


def test_an_added_job_is_in_the_backup_soon(session: Session) -> None:
    with session.running(session.write("sleep 600")):
        until(lambda: backed_up_jobs(session, "none"), "the first backup is made")
        for number in (2, 3):
            assert session.call("add", "--", "true").returncode == 0
            until(lambda number=number: backed_up_jobs(session, "none") == number, "it is in the backup")  # type: ignore[misc]


def test_a_running_job_of_which_only_the_claim_is_left_started_when_that_was_written(session: Session) -> None:
    gate, waits = session.gate, session.waits
    jobs = session.write(session.told(0, waits))
    with session.running(jobs, gpus="0") as owner:
        until(lambda: session.runs()["0"], "it runs")
        kill(owner)
        for path in (*session.private.glob("session.db*"), session.job_directory(0) / "INFO"):
            path.unlink(missing_ok=True)
        gate.touch()
        before = session.claims_directory.joinpath("0.1").stat().st_ctime
        assert "longest" not in session.call("ls").stdout
        [job] = session.jobs()
        assert job.attempts[-1].ended - job.attempts[-1].started < time.time() - before + 60
        assert job.added > before - 3600


@pytest.mark.parametrize("damage", [Path.unlink, zero_length, no_database])
def test_without_a_usable_backup_the_queue_is_rebuilt_from_directories(
    session: Session, damage: Callable[[Path], None]
) -> None:
    jobs = with_backup(session)
    no_database(session.database)
    damage(session.backup)
    done = session.run()
    assert done.returncode == 0
    assert "nothing (no usable backup" in done.stderr
    assert session.states() == ["succeeded", "failed", "succeeded", "succeeded", "failed", "succeeded"]
    assert_nothing_ran_again(session, done)
    again = session.run(jobs, gpus="0")
    assert "4 done (kept), 2 failed (rerun)" in again.stderr
    assert session.runs() == {"0": 1, "1": 2, "2": 1, "3": 1, "4": 2, "5": 1}


@pytest.mark.parametrize("keep_backup", [True, False])
def test_jobs_that_run_while_the_store_is_damaged_are_found_again(session: Session, keep_backup: bool) -> None:
    gate, waits = session.gate, session.waits
    jobs = session.write(*(session.told(job, f"{waits}; exit 9") for job in (0, 1)), session.told(2))
    with session.running(jobs, **OFTEN_BACKED_UP) as owner:
        until(lambda: len(session.runs()) == 2 and backed_up_jobs(session) == 3, "two jobs run, backed up")
        kill(owner)
        no_database(session.database)
        if not keep_backup:
            session.backup.unlink()
        with session.running() as second:
            until(lambda: "Rebuilt" in (second.stderr.readline() if second.stderr else ""), "it is rebuilt")
            gate.touch()
            assert second.wait(60) == 1
    # Without a backup, a job that never started is lost.
    expected = ["failed", "failed", "succeeded"] if keep_backup else ["failed", "failed"]
    assert session.states() == expected
    assert [session.last(job).exit_code for job in (0, 1)] == [9, 9]
    assert session.runs() == {str(job): 1 for job in range(len(expected))}


def test_a_log_full_of_garbage_runs_nothing_again_and_reuses_no_id(session: Session) -> None:
    """SQLite treats a garbled write-ahead log as an empty one, so the newest commits are gone."""
    jobs = session.write(session.told(0), session.told(1, "exit 3"))
    assert session.run(jobs).returncode == 1
    session.write(session.told(0), session.told(1, "exit 3"), session.told(2), session.told(3, "sleep 600"))
    with session.running(jobs, "--force-rerun", gpus="0") as owner:
        until(lambda: session.runs()["3"], "the last job runs")
        kill(owner)
        log = session.private / "session.db-wal"
        log.write_bytes(b"\xa5" * log.stat().st_size)
    assert session.runs() == {"0": 2, "1": 2, "2": 1, "3": 1}
    done = session.run()
    assert "4 jobs were updated from their directories" in done.stderr
    assert "Traceback" not in done.stderr
    assert session.runs() == {"0": 2, "1": 2, "2": 1, "3": 1}
    assert [job.id for job in session.jobs()] == [0, 1, 2, 3]
    assert session.states() == ["succeeded", "failed", "succeeded", "lost"]


def test_an_interrupted_rebuild_is_repeated(session: Session) -> None:
    with_backup(session)
    whole = session.database.read_bytes()
    (session.private / "session.db.rebuilt.part").write_bytes(whole[:5000])
    session.database.unlink()
    done = session.run()
    assert "the queue database is gone" in done.stderr
    assert session.states() == ["succeeded", "failed", "succeeded", "succeeded", "failed", "succeeded"]
    assert_nothing_ran_again(session, done)


def test_a_rebuild_interrupted_before_its_last_step_is_finished(session: Session) -> None:
    with_backup(session)
    session.database.rename(session.private / "session.db.rebuilt")
    done = session.run()
    assert "gone" not in done.stderr
    assert len(session.jobs()) == 6
    assert_nothing_ran_again(session, done)


def test_a_dependent_of_a_job_that_ended_after_the_backup_is_not_stuck(session: Session) -> None:
    first, second = session.directory / "first", session.directory / "second"
    jobs = session.write(
        "#: name=first", session.told(0, f"until test -e {first}; do sleep 0.01; done"),
        "#: after=first", session.told(1, f"until test -e {second}; do sleep 0.01; done"),
        "#: after=first", session.told(2),
    )  # fmt: skip
    with session.running(jobs, gpus="0", **OFTEN_BACKED_UP) as owner:
        until(lambda: session.runs() and backed_up_jobs(session) == 3, "the jobs are in the backup")
        backup = session.backup.read_bytes()
        first.touch()
        until(lambda: session.markers(0) and session.runs()["1"], "the first has ended, the second runs")
        kill(owner)
        no_database(session.database)
        session.backup.write_bytes(backup)
        second.touch()
        assert session.run(gpus="0").returncode == 0
    assert session.states() == ["succeeded"] * 3
    assert session.runs() == {"0": 1, "1": 1, "2": 1}
