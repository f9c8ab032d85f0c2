"""While the queue cannot be written, jobs can be ended, and everything else is refused and has no effect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.sessions import add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Drain, Hold, Kill, Mode, Pause, PauseKind, Requeue, Rerun, SetSlots, Suspend, UserCommand
from gputui.core.job import JobId, StateName
from gputui.session.errors import CommitFailed, StoreTrouble
from gputui.session.loading import SourceKind, SourceRecord
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Forget, Load
from gputui.session.store.store import Change
from gputui.views.waiting import why

LONG = "exec sleep 600"
PATIENCE = 60


def fill(owner: Owner) -> None:
    """Let every commit fail from now on."""

    def commit(change: Change) -> None:
        raise StoreTrouble("cannot write the queue: database or disk is full")

    owner.store.commit = commit  # type: ignore[method-assign]


@contextmanager
def full(owner: Owner) -> Iterator[None]:
    """Let every commit fail; afterwards wait until the owner has noticed that there is space again."""
    fill(owner)
    try:
        yield
    finally:
        del owner.store.commit
    until(lambda: owner.snapshot.trouble is None, "the queue is writable again")


def sent(owner: Owner, *events: UserCommand) -> list[str | None]:
    """Return why each was refused; None if it was not."""
    return [outcome.refused for outcome in owner.do(Commands(events)).result(PATIENCE)]


def running(owner: Owner, command: str = LONG) -> JobId:
    [job] = add(owner, spec(command))
    until(lambda: state(owner, job) == "running" and claim(owner, job), f"#{job} runs")
    return job


def state(owner: Owner, job: JobId) -> str:
    return owner.snapshot[job].state.name


def claim(owner: Owner, job: JobId) -> list[str]:
    file = Path(owner.paths.claims) / f"{job}.1"
    return file.read_text().splitlines() if file.exists() else []


def notice(owner: Owner) -> None:
    """Send a request that meets the full disk."""
    held = next(job.id for job in owner.snapshot if job.state.name == "held")
    assert sent(owner, Hold(job=held)) != [None]


def test_jobs_that_cannot_be_saved_are_refused_and_never_run(tmp_path: Path) -> None:
    wanted = spec("echo again >>ran", cwd=str(tmp_path), outfile="result", occurrence=0)
    with owned(tmp_path / "s") as owner:
        with full(owner):
            for _ in range(2):
                with pytest.raises(CommitFailed, match="nothing was changed: cannot write the queue"):
                    add(owner, wanted)
            assert owner.snapshot.counts == {}
            assert "no new jobs start" in (owner.snapshot.trouble or "")
        [job] = add(owner, wanted)
        assert ended(owner, job).state.name == "succeeded"
        assert owner.snapshot.counts == {"succeeded": 1}
        events = [event for _, event in owner.do(lambda act: owner.store.events(0, 100)).result(PATIENCE)]
        assert [event.job for event in events if event.event == "added"] == [job], "only what was saved is reported"
    assert (tmp_path / "ran").read_text() == "again\n"
    with owned(tmp_path / "s") as owner:
        assert owner.snapshot.counts == {"succeeded": 1}
        assert add(owner, spec("true"))[0] > job


def test_every_change_is_refused_at_once_with_the_same_message(tmp_path: Path) -> None:
    with owned(tmp_path / "s", slots=1) as owner:
        job = running(owner)
        [waits] = add(owner, spec(LONG))
        with full(owner):
            for _ in range(2):
                refused = sent(owner, Hold(job=waits), Suspend(job=job), Kill(job=waits))
                assert len(set(refused)) == 1
                assert "nothing was changed: cannot write the queue" in (refused[0] or "")
                assert (state(owner, job), state(owner, waits)) == ("running", "queued")
            assert owner.do(lambda act: 7).result(PATIENCE) == 7
            reason = owner.do(lambda act: why(act.scheduler, act.scheduler.book[waits], act.now)).result(PATIENCE)
            assert reason == "no jobs start: cannot write the queue: database or disk is full"
        assert sent(owner, Hold(job=waits), Kill(job=job, now=True)) == [None, None]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("order", "line", "end"), [(Kill, "kill", "killed"), (Requeue, "requeue", "queued")])
def test_running_jobs_can_be_killed_and_requeued(
    tmp_path: Path, order: type[Kill | Requeue], line: str, end: str, known: bool
) -> None:
    """`known`: the full disk was met before."""
    with owned(tmp_path / "s", slots=1) as owner:
        job = running(owner)
        add(owner, spec("true", hold=True))
        fill(owner)
        if known:
            notice(owner)
        assert sent(owner, order(job=job)) == [None]
        assert claim(owner, job)[1] == f"asked {line}"
        until(lambda: state(owner, job) == end, f"it is {end}")
        assert not owner.scheduler.breaker.streak.failures
    with owned(tmp_path / "s", slots=1) as owner:
        until(lambda: len(owner.snapshot[job].attempts) == 1, "the next owner knows how it ended")
        assert owner.snapshot[job].attempts[0].end.name == "killed"
        assert not owner.scheduler.breaker.streak.failures
        assert (state(owner, job) == "killed") is (end == "killed")
        sent(owner, Kill(job=job, now=True))


def test_a_kill_that_follows_a_requeue_is_recorded_too(tmp_path: Path) -> None:
    with owned(tmp_path / "s", slots=1) as owner:
        job = running(owner, "trap '' TERM; while :; do sleep 0.1; done")
        fill(owner)
        assert sent(owner, Requeue(job=job)) == [None]
        assert sent(owner, Kill(job=job)) == [None]
        assert claim(owner, job)[1:] == ["asked requeue", "asked kill"]
        assert sent(owner, Kill(job=job, now=True)) == [None]
        until(lambda: state(owner, job) == "killed", "it is killed")
    with owned(tmp_path / "s", slots=1) as owner:
        until(lambda: state(owner, job) == "killed", "the next owner knows it")


def test_the_owner_notices_space_although_nothing_is_left_to_write(tmp_path: Path) -> None:
    with owned(tmp_path / "s", slots=1) as owner:
        with full(owner):
            [refused] = sent(owner, SetSlots(()))
            assert refused is not None
            assert len(owner.snapshot.slots) == 1
        assert ended(owner, add(owner, spec("true"))[0]).state.name == "succeeded"


def test_a_stop_ends_running_jobs_and_starts_no_others(tmp_path: Path) -> None:
    with owned(tmp_path / "s", slots=1) as owner:
        job = running(owner)
        add(owner, spec(LONG))
        with full(owner):
            assert sent(owner, Pause(PauseKind.STOPPED)) == [None]
            until(lambda: not owner.snapshot.active, "nothing running")
            assert sent(owner, Drain()) == [None]
        assert (owner.snapshot.mode, state(owner, job)) == (Mode.PAUSED, "queued")
        assert owner.snapshot[job].attempts[0].end.name == "killed"


def test_a_refused_rerun_leaves_the_job_and_its_marker_unchanged(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("exit 3"))
        ended(owner, job)
        marker = tmp_path / "s/job_0/FAILURE"
        until(marker.exists, "its end is noted")
        history = owner.do(lambda act: owner.store.history(job)).result(PATIENCE)
        with full(owner):
            [refused] = sent(owner, Rerun(job=job))
            assert refused is not None
            assert state(owner, job) == "failed"
        until(marker.exists, "its marker is there again")
        assert [past.exit_code for past in owner.snapshot[job].attempts] == [3]
        assert owner.do(lambda act: owner.store.history(job)).result(PATIENCE) == history
        assert sent(owner, Rerun(job=job)) == [None]
        until(lambda: len(owner.snapshot[job].attempts) == 2, "it ran again")


def test_a_source_is_added_and_removed_only_durably(tmp_path: Path) -> None:
    source = SourceRecord(kind=SourceKind.FILE, path=str(tmp_path / "jobs.txt"), cwd="/")
    with owned(tmp_path / "s") as owner:
        with full(owner), pytest.raises(CommitFailed):
            owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(PATIENCE)
        assert owner.sources == {}
        owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(PATIENCE)
        with full(owner), pytest.raises(CommitFailed):
            owner.do(Forget((source.path,))).result(PATIENCE)
        assert list(owner.sources) == [source.key]


def test_lines_of_a_followed_file_wait_until_they_can_be_saved(tmp_path: Path) -> None:
    followed = tmp_path / "jobs.txt"
    followed.write_text("")
    source = SourceRecord(kind=SourceKind.FOLLOWED, path=str(followed), cwd="/")
    with owned(tmp_path / "s") as owner:
        add(owner, spec("true", hold=True))
        owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(PATIENCE)
        with full(owner):
            notice(owner)
            with followed.open("a") as file:
                file.write(f"echo one >>{tmp_path}/ran\necho two >>{tmp_path}/ran\n")
            feed = owner.feeds._feeds[source.key]  # type: ignore[union-attr]
            until(lambda: feed.has_uncommitted, "the lines were read")
            assert owner.snapshot.counts == {"held": 1}
        until(lambda: owner.snapshot.count(StateName.SUCCEEDED) == 2, "both ran")
    assert sorted((tmp_path / "ran").read_text().split()) == ["one", "two"]
