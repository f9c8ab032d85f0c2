"""`--dry-run`: what a command would do, as it then does it, and nothing is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.sessions import ON_A_SHARED_DISK, Done, Gputui, Home, Session, move, said
from support.sources import valid
from support.waiting import until

from gputui.cli.dry_run import RehearsalClient
from gputui.core.events import AttemptEnded, Exited, Spawned
from gputui.core.placement import place
from gputui.session.messages import Listing


def preview(done: Done) -> Any:
    assert done.stderr == ""
    shown = valid("--dry-run", done.stdout)
    assert shown["dry_run"] is True
    return shown


def files(root: Path) -> dict[str, bytes]:
    """The session's files, without the socket and the store's index in shared memory."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def test_adding_shows_the_job_and_creates_no_session(gputui: Gputui) -> None:
    Path("gputui.toml").write_text('gpus = "sim:2"\n')
    before = sorted(Path.cwd().parent.rglob("*"))
    told = gputui("add", "--dry-run", "--name", "big", "--json", "--", "sleep", "0")
    shown = valid("--dry-run", told.out)
    assert (told.status, shown["new_session"], shown["session"]) == (0, True, str(Path.cwd() / "gputui_run"))
    (job,) = shown["jobs"]
    assert (job["id"], job["name"], job["state"], job["gpus"], job["end"]) == (0, "big", "queued", ["0"], None)
    assert job["start"] is not None
    assert sorted(Path.cwd().parent.rglob("*")) == before
    text = gputui("add", "--dry-run", "--name", "big", "--", "sleep", "0").out.splitlines()
    assert text[0] == f"dry run: nothing was changed; a session would be created in {Path.cwd()}/gputui_run"
    assert text[1] == "#0 big: queued, starts now on GPU 0"


COMMANDS = [
    "add -- sleep 0", "add --hold -- sleep 0", "sweep true{x} -p x 1 2 --add", "rerun 0", "rerun 0 2", "kill 1",
    "kill 0 1", "rm 2", "hold 3", "release 0", "move 3 --top", "priority 50 3", "suspend 1", "stop",
]  # fmt: skip


@pytest.fixture
def busy(home: Home) -> Home:
    """A session with a daemon: #0 has failed, #1 is running on the only slot, #2 was killed, #3 waits."""
    home.begin("exit 3", "sleep 600", "true", "true # waits", slots=[{"id": 0, "devices": ["0"]}])
    home.call("kill", "2")
    home.resume()
    until(lambda: home.ask("listing")["jobs"][1]["state"] == "running", "the second job runs")
    return home


def test_no_command_changes_anything_and_ids_states_and_refusals_are_those_of_the_command(busy: Home) -> None:
    listed = busy.ask("listing")["jobs"]
    for line in COMMANDS:
        words = line.split()
        shown = preview(busy.call(words[0], "--dry-run", "--json", *words[1:]))
        assert busy.ask("listing")["jobs"] == listed, line
        assert shown["session"] == str(busy.root)
        if line == "kill 0 1":
            assert shown["refused"] == [{"job": 0, "message": "#0 has failed: it has already ended"}]
            assert [(job["id"], job["state"]) for job in shown["jobs"]] == [(1, "stopping")]
        if line == "stop":
            assert [(job["id"], job["state"]) for job in shown["jobs"]] == [(1, "stopping")]
    expected = preview(busy.call("rerun", "--dry-run", "--json", "0", "2"))
    assert {job["state"] for job in expected["jobs"]} == {"queued"}
    assert all(job["why"] for job in expected["jobs"]), "the slot is busy"
    assert [job["id"] for job in preview(busy.call("add", "--dry-run", "--json", "true"))["jobs"]] == [4]
    assert busy.call("add", "true").stdout == "4\n"


def test_nothing_on_the_disk_changes_while_nobody_owns_the_session(home: Home) -> None:
    home.begin("true", "true")
    before = files(home.root)
    for line in COMMANDS:
        words = line.split()
        home.call(words[0], "--dry-run", *words[1:])
    home.call("reload", "--dry-run")
    assert files(home.root) == before


def test_what_would_be_refused_is_refused(busy: Home) -> None:
    for words in (("release", "3"), ("rm", "1"), ("add", "--after", "99", "true"), ("kill", "77")):
        would = busy.call(words[0], "--dry-run", *words[1:])
        refused = busy.call(*words)
        assert would.returncode == refused.returncode != 0
        assert said(refused) in would.stdout + would.stderr


def test_a_run_is_previewed_with_the_slots_it_would_use(session: Session) -> None:
    jobs = session.write("#: name=a", "true", "#: name=b gpus=2", "true", "#: name=c gpus=9", "true")
    done = session.run("--dry-run", "--json", jobs, gpus="4,5")
    shown = preview(done)
    assert [(job["name"], job["gpus"], job["start"] is None) for job in shown["jobs"]] == [
        ("a", ["4"], False), ("b", [], True), ("c", [], True),
    ]  # fmt: skip
    assert shown["jobs"][2]["why"].startswith("needs 9 GPUs")
    assert not session.root.exists()
    assert session.run(jobs, gpus="4,5").returncode == 1
    again = preview(session.run("--dry-run", "--json", jobs))
    assert [job["state"] for job in again["jobs"]] == ["succeeded", "succeeded", "queued"]


def test_starts_and_ends_are_played_out_from_the_durations_of_ended_jobs(home: Home) -> None:
    home.begin(*["true"] * 5, slots=[{"id": 0, "devices": ["7"]}])
    home.command({"type": "resume"})
    client = RehearsalClient(str(home.root))
    scheduler, now = client.rehearsal.scheduler, client.rehearsal.now
    for start in place(scheduler, now - 100):
        scheduler.handle(Spawned(job=start.job.id, attempt=1, pid=None), now - 100)
        end = AttemptEnded(job=start.job.id, attempt=1, outcome=Exited(0), at=now)
        scheduler.handle(end, now)
    shown = client.rehearsal.preview(range(5))
    starts = [job.start and round(job.start - now) for job in shown]
    assert starts == [None, 0, 100, 200, 300]
    assert [job.end and round(job.end - now) for job in shown] == [None, 100, 200, 300, 400]
    assert {job.gpus for job in shown[1:]} == {("7",)}
    assert json.dumps([job["state"] for job in home.ask("listing")["jobs"]]) == json.dumps(["queued"] * 5)
    assert client.ask(Listing()).jobs


def test_a_session_of_another_machine_and_a_damaged_one_are_refused_as_by_the_command(home: Home) -> None:
    home.begin("true")
    move(home, machine="0123", hostname="lab-never", boot="another boot")
    refused = home.call("add", "--no-start", "true", **ON_A_SHARED_DISK)
    would = home.call("add", "--dry-run", "true", **ON_A_SHARED_DISK)
    assert "lives on lab-never" in said(refused)
    assert (would.returncode, said(would)) == (refused.returncode, said(refused))
    home.database.write_bytes(b"no store")
    home.backup.unlink(missing_ok=True)
    damaged = home.call("add", "--dry-run", "--json", "true")
    assert json.loads(damaged.stderr)["error"] == "unreachable"


@pytest.mark.parametrize("words", [[], ["-"]])
def test_commands_from_a_pipe_are_previewed(session: Session, words: list[str]) -> None:
    shown = preview(session.run("--dry-run", "--json", *words, given="echo a\necho b\n", gpus="0"))
    assert [job["command"] for job in shown["jobs"]] == ["echo a", "echo b"]
    assert not session.root.exists()


def test_what_a_yielder_will_add_is_not_guessed(session: Session) -> None:
    (session.directory / "gen.py").write_text("def yielder():\n    open('called', 'w')\n    yield 'true'\n")
    shown = preview(session.run("--dry-run", "--json", "gen.py"))
    assert shown["jobs"] == []
    assert shown["messages"][-1].endswith("gen.py: its jobs are not known in advance")
    assert not (session.directory / "called").exists()


def test_a_new_session_is_previewed_without_moving_the_old_one(session: Session) -> None:
    jobs = session.write("echo a")
    session.run(jobs)
    shown = preview(session.run("--dry-run", "--new", "--json", jobs))
    assert [(job["id"], job["state"]) for job in shown["jobs"]] == [(0, "queued")]
    assert session.states() == ["succeeded"]
