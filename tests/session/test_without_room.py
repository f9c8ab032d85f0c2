"""While the queue cannot be written: what ends something is done, what begins something is refused, all of it true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.owning import add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Drain, Hold, Kill, Mode, Pause, PauseKind, Requeue, Rerun, SetLanes, Suspend, UserCommand
from gputui.core.job import JobId, StateName
from gputui.session.errors import CommitFailed, StoreTrouble
from gputui.session.loading import SourceKind, SourceRecord
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Forget, Load
from gputui.session.store.store import Change, Store
from gputui.views.waiting import why

LONG = "exec sleep 600"
PATIENCE = 60


def fill(owner: Owner) -> Store:
    """Its store takes nothing; the first to notice is whoever asks for something."""

    def commit(change: Change) -> None:
        raise StoreTrouble("the queue cannot be written: database or disk is full")

    owner.parts.store.commit = commit  # type: ignore[method-assign]
    return owner.parts.store


@contextmanager
def full(owner: Owner) -> Iterator[None]:
    store = fill(owner)
    try:
        yield
    finally:
        del store.commit


def sent(owner: Owner, *events: UserCommand) -> list[str | None]:
    """What each was refused with."""
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
    """Somebody asks for something, and meets the full disk."""
    [refused] = sent(owner, Hold(job=add_held(owner))) if owner.snapshot.trouble is None else [""]
    assert refused is not None


def add_held(owner: Owner) -> JobId:
    """One that is there already; it waits."""
    return next(job.id for job in owner.snapshot if job.state.name == "held")


def test_jobs_that_met_the_full_disk_are_refused_and_never_run(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        with full(owner):
            for _ in range(2):
                with pytest.raises(CommitFailed, match="nothing was changed: the queue cannot be written"):
                    add(owner, spec(f"echo again >>{tmp_path}/ran", occurrence=0))
            assert owner.snapshot.counts == {}
            assert "nothing new starts" in (owner.snapshot.trouble or "")
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        [job] = add(owner, spec(f"echo again >>{tmp_path}/ran", occurrence=0))
        assert ended(owner, job).state.name == "succeeded"
        assert owner.snapshot.counts == {"succeeded": 1}
    assert (tmp_path / "ran").read_text() == "again\n"
    with owned(tmp_path / "s") as owner:
        assert owner.snapshot.counts == {"succeeded": 1}
        assert add(owner, spec("true"))[0] > job


def test_an_outfile_of_jobs_that_were_taken_back_is_free_again(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        wanted = spec("echo x", cwd=str(tmp_path), outfile="result")
        with full(owner), pytest.raises(CommitFailed):
            add(owner, wanted)
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        [job] = add(owner, wanted)
        assert ended(owner, job).state.name == "succeeded"


def test_while_nothing_can_be_written_every_change_is_refused_at_once_with_one_sentence(tmp_path: Path) -> None:
    with owned(tmp_path / "s", lanes=1) as owner:
        job = running(owner)
        [waits] = add(owner, spec(LONG))
        with full(owner):
            for _ in range(2):
                refused = sent(owner, Hold(job=waits), Suspend(job=job), Kill(job=waits))
                assert len(set(refused)) == 1
                assert "nothing was changed: the queue cannot be written" in (refused[0] or "")
                assert (state(owner, job), state(owner, waits)) == ("running", "queued")
            assert owner.do(lambda act: 7).result(PATIENCE) == 7
            told = owner.do(lambda act: why(act.scheduler, act.scheduler.book[waits], act.now)).result(PATIENCE)
            assert told == "nothing starts: the queue cannot be written: database or disk is full"
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        assert sent(owner, Hold(job=waits), Kill(job=job, now=True)) == [None, None]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("order", "line", "end"), [(Kill, "kill", "killed"), (Requeue, "requeue", "queued")])
def test_what_runs_is_ended_as_asked_though_nothing_can_be_written(
    tmp_path: Path, order: type[Kill | Requeue], line: str, end: str, known: bool
) -> None:
    """`known`: the full disk was met before."""
    with owned(tmp_path / "s", lanes=1) as owner:
        job = running(owner)
        add(owner, spec("true", hold=True))
        fill(owner)
        if known:
            notice(owner)
        assert sent(owner, order(job=job)) == [None]
        assert claim(owner, job)[1] == f"asked {line}"
        until(lambda: state(owner, job) == end, f"it is {end}")
        assert not owner.scheduler.breaker.streak.failures
    with owned(tmp_path / "s", lanes=1) as owner:
        until(lambda: len(owner.snapshot[job].attempts) == 1, "the next owner knows how it ended")
        assert owner.snapshot[job].attempts[0].end.name == "killed"
        assert not owner.scheduler.breaker.streak.failures
        assert (state(owner, job) == "killed") is (end == "killed")
        sent(owner, Kill(job=job, now=True))


def test_an_order_that_changes_what_another_is_for_is_written_down_too(tmp_path: Path) -> None:
    with owned(tmp_path / "s", lanes=1) as owner:
        job = running(owner, "trap '' TERM; while :; do sleep 0.1; done")
        fill(owner)
        assert sent(owner, Requeue(job=job)) == [None]
        assert sent(owner, Kill(job=job)) == [None]
        assert claim(owner, job)[1:] == ["asked requeue", "asked kill"]
        assert sent(owner, Kill(job=job, now=True)) == [None]
        until(lambda: state(owner, job) == "killed", "it is killed")
    with owned(tmp_path / "s", lanes=1) as owner:
        until(lambda: state(owner, job) == "killed", "the next owner knows it")


def test_trouble_that_left_nothing_to_write_ends_all_the_same(tmp_path: Path) -> None:
    with owned(tmp_path / "s", lanes=1) as owner:
        with full(owner):
            [refused] = sent(owner, SetLanes(()))
            assert refused is not None
            assert len(owner.snapshot.lanes) == 1
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        assert ended(owner, add(owner, spec("true"))[0]).state.name == "succeeded"


def test_a_stop_ends_what_runs_and_lets_nothing_start(tmp_path: Path) -> None:
    with owned(tmp_path / "s", lanes=1) as owner:
        job = running(owner)
        add(owner, spec(LONG))
        with full(owner):
            assert sent(owner, Pause(PauseKind.STOPPED), Requeue(job=job)) == [None, None]
            until(lambda: not owner.snapshot.active, "nothing runs")
            assert sent(owner, Drain()) == [None]
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        assert (owner.snapshot.mode, state(owner, job)) == (Mode.PAUSED, "queued")
        assert owner.snapshot[job].attempts[0].end.name == "killed"


def test_a_rerun_that_was_taken_back_leaves_the_job_and_its_marker_as_they_were(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("exit 3"))
        ended(owner, job)
        marker = tmp_path / "s/job_0/FAILURE"
        until(marker.exists, "its end is noted")
        story = owner.do(lambda act: owner.story(job)).result(PATIENCE)
        with full(owner):
            [refused] = sent(owner, Rerun(job=job))
            assert refused is not None
            assert state(owner, job) == "failed"
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        until(marker.exists, "its marker is there again")
        assert [past.exit_code for past in owner.snapshot[job].attempts] == [3]
        assert owner.do(lambda act: owner.story(job)).result(PATIENCE) == story
        assert sent(owner, Rerun(job=job)) == [None]
        until(lambda: len(owner.snapshot[job].attempts) == 2, "it ran again")


def test_a_source_is_remembered_only_if_that_is_durable(tmp_path: Path) -> None:
    source = SourceRecord(kind=SourceKind.FILE, path=str(tmp_path / "jobs.txt"), cwd="/")
    with owned(tmp_path / "s") as owner:
        with full(owner), pytest.raises(CommitFailed):
            owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(PATIENCE)
        until(lambda: owner.snapshot.trouble is None, "the trouble is over")
        assert owner.sources == {}
        owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(PATIENCE)
        with full(owner), pytest.raises(CommitFailed):
            owner.do(Forget((source.path,))).result(PATIENCE)
        assert list(owner.sources) == [source.key]


def test_lines_of_a_followed_file_wait_until_they_can_be_written(tmp_path: Path) -> None:
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
            until(lambda: feed.has_hands_full, "they were read")
            assert owner.snapshot.counts == {"held": 1}
        until(lambda: owner.snapshot.count(StateName.SUCCEEDED) == 2, "both ran")
    assert sorted((tmp_path / "ran").read_text().split()) == ["one", "two"]
