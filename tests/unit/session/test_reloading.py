"""Reloading: which jobs are new, changed, gone and done, by content."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gputui.core.events import AddJobs, Remove, Seen
from gputui.core.job import Job, JobSpec, Queued, Request, StateName, Succeeded
from gputui.core.scheduler import Scheduler
from gputui.session.loading import ReloadPlan, RerunRules, SourceKind, SourceRecord, plan, reload_plan, reread
from gputui.sources.source import BadInput, Draft, Occurrences, specs


def spec(command: str, occurrence: int | None = 1, **changes: object) -> JobSpec:
    return replace(
        JobSpec(command=command, cwd="/w", environment="e", group="jobs.txt", occurrence=occurrence), **changes
    )


def job(id: int, of: JobSpec, state: object = Queued(0.0), **changes: object) -> Job:
    return replace(Job(id, of, 0.0, of.priority, float(id), state), **changes)  # type: ignore[arg-type]


def planned(jobs: list[Job], *wanted: JobSpec) -> ReloadPlan:
    return reload_plan(jobs, wanted, {"jobs.txt"})


def test_new_changed_gone_and_done_jobs_are_distinguished() -> None:
    jobs = [
        job(0, spec("done"), Succeeded()),
        job(1, spec("changed")),
        job(2, spec("gone")),
        job(3, spec("gone done"), Succeeded(), issued=1),
        job(4, spec("piped", None)),
        job(5, spec("of another file", group="other")),
    ]
    new = spec("new")
    changed = spec("changed", priority=50, request=Request(gpus=2, devices=("0", "1")))
    found = planned(jobs, spec("done", priority=60), changed, new)
    assert found.new == (new,)
    assert [(one.job, one.differences) for one in found.changed] == [
        (1, ("gpus none → 2", "devices none → 0,1", "priority 30 → 50"))
    ]
    assert [(one.job, one.removable) for one in found.gone] == [(2, True), (3, False)]
    assert found.kept == {StateName.SUCCEEDED: 1}
    assert found.load() == (new, changed)
    assert found.removes() == [Remove(job=2, seen=Seen(0, StateName.QUEUED))]


def test_order_environment_and_removed_jobs_make_no_difference() -> None:
    jobs = [job(0, spec("a")), job(1, spec("b")), job(2, spec("removed"), archived=True)]
    found = planned(jobs, spec("removed"), spec("b", environment="another"), spec("a"))
    assert found.nothing
    assert found.kept == {StateName.QUEUED: 2}


def test_a_held_job_stays_held() -> None:
    found = planned([job(0, spec("a", hold=True))], spec("a", priority=1))
    assert found.changed[0].spec.hold


lines = st.lists(st.sampled_from("abcd"), max_size=6)


@given(before=lines, after=lines, seed=st.integers(0, 99))
def test_applying_a_reload_leaves_nothing_to_apply(before: list[str], after: list[str], seed: int) -> None:
    chance = random.Random(seed)
    scheduler = Scheduler()
    wanted = _specs(before)
    if wanted:
        scheduler.handle(AddJobs(wanted), 0.0)
    for one in list(scheduler.book):
        if chance.random() < 0.3:
            scheduler.book.put(replace(one, state=Succeeded()))
    again = _specs(after)
    found = reload_plan(list(scheduler.book), again, {"g"})
    for event in [*plan(scheduler.book, found.load(), RerunRules(rerun_failed=False)).events(), *found.removes()]:
        scheduler.handle(event, 1.0)
    assert reload_plan(list(scheduler.book), again, {"g"}).nothing
    left = sorted(one.spec.command for one in scheduler.book if isinstance(one.state, Queued) and not one.archived)
    assert set(left) <= set(after)


def _specs(commands: list[str]) -> tuple[JobSpec, ...]:
    drafts = list(map(Draft, commands))
    return specs(drafts, cwd="/w", environment="e", group="g", occurrences=Occurrences())


def test_files_loaded_together_count_equal_commands_together(tmp_path: Path) -> None:
    def record(name: str, load: str, place: int) -> SourceRecord:
        (tmp_path / name).write_text("echo a\n")
        path = str(tmp_path / name)
        return SourceRecord(kind=SourceKind.FILE, path=path, cwd="/w", group=name, load=load, place=place)

    found = reread([record("b", "1", 2), record("a", "1", 1), record("c", "2", 1)])
    assert [(one.group, one.occurrence) for one in found.specs] == [("a", 1), ("b", 2), ("c", 1)]
    assert found.groups == {"a", "b", "c"}
    (tmp_path / "b").unlink()
    with pytest.raises(BadInput, match="no such file"):
        reread([record("a", "1", 1), SourceRecord(kind=SourceKind.FILE, path=str(tmp_path / "b"), cwd="/w")])
