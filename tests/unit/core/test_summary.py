"""The summary of a session, and formats of times, sizes and counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.app import job
from support.core import slots

from gputui.core.amounts import (
    DAY,
    DURATION_CELLS,
    GIB,
    HOUR,
    MIB,
    counted,
    duration_cell,
    duration_exact,
    duration_words,
    energy,
    memory,
    memory_of,
    memory_words,
    moment,
)
from gputui.core.events import AddJobs, AttemptEnded, Exited, Settings, Spawned, Submitted
from gputui.core.job import (
    Attempt,
    EngineName,
    Job,
    JobSpec,
    Placed,
    Queued,
    Request,
    Running,
    Starting,
    Succeeded,
    Usage,
)
from gputui.core.scheduler import Record, Scheduler
from gputui.core.slots import DeviceKind, Slot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.views.consumption import Consumption, consumption, uses
from gputui.views.format import cut, submission_facts, width
from gputui.views.summary import Summary, ended_at, headline, summarize, summary_lines

NOW = 1000.0
ONE = JobSpec(command="true", cwd="/", environment="")


def at_work(made: tuple[Slot, ...] | None = None) -> Scheduler:
    """Two jobs side by side, one of which has ended after a minute."""
    scheduler = Scheduler(Record(slots=made or slots("0 1")))
    scheduler.handle(AddJobs((ONE, ONE)), NOW)
    scheduler.place(NOW)
    for number in (0, 1):
        scheduler.handle(Spawned(job=number, attempt=1, pid=7 + number), NOW)
    end(scheduler, 0, NOW + 60)
    return scheduler


def end(scheduler: Scheduler, job: int, at: float) -> None:
    scheduler.handle(AttemptEnded(job=job, attempt=1, outcome=Exited(0), at=at), at)


def summary_of(scheduler: Scheduler, now: float) -> Summary:
    return summarize(scheduler.snapshot(), now)


def test_other_users_of_the_gpus_are_listed_from_a_minute_on_longest_first() -> None:
    uses = [("alice", -100.0, 20.0), ("alice", 30.0, 70.0), ("bob", 0.0, 59.0), ("carol", 10.0, None)]
    spans = [
        RecordedSpan(number=number, kind=SpanKind.EXTERNAL, since=NOW + since, until=until and NOW + until, user=user)
        for number, (user, since, until) in enumerate(uses)
    ]
    summary = summarize(at_work().snapshot(), NOW + 90, spans)
    assert summary.external_processes == (("carol", 80.0), ("alice", 60.0))


def test_a_session_has_no_end_while_a_job_runs() -> None:
    scheduler = at_work()
    summary = summary_of(scheduler, NOW + 90)
    assert (summary.began, summary.ended, summary.wall) == (NOW, None, 90)
    assert ended_at(summary, NOW + 90).startswith("since ")
    end(scheduler, 1, NOW + 120)
    summary = summary_of(scheduler, NOW + 500)
    assert (summary.ended, summary.wall) == (NOW + 120, 120)
    assert " – " in ended_at(summary, NOW + 500)


def test_a_session_in_which_nothing_ran_took_no_time() -> None:
    summary = summary_of(Scheduler(Record(slots=slots("0"))), NOW)
    assert (summary.began, summary.ended, summary.wall, ended_at(summary, NOW)) == (None, None, 0, "")


@pytest.mark.parametrize(
    ("kind", "devices", "words", "busy"),
    [
        (DeviceKind.GPU, ("0", "1"), "2 GPUs", "GPUs 75% busy"),
        (DeviceKind.CPU, (), "2 CPU slots", "CPU slots 75% busy"),
        (DeviceKind.CPU, ("-1", "-1"), "2 CPU slots", "CPU slots 75% busy"),
    ],
)
def test_slots_without_a_gpu_are_not_called_gpus(
    kind: DeviceKind, devices: tuple[str, ...], words: str, busy: str
) -> None:
    made = tuple(Slot(number, devices[number : number + 1], kind) for number in range(2))
    scheduler = at_work(made)
    end(scheduler, 1, NOW + 120)
    summary = summary_of(scheduler, NOW + 120)
    assert summary.device_words() == words
    assert busy in headline(summary)
    assert bool(summary.gpu_seconds) == ("GPU" in words)
    assert all(("GPU" in line) == ("GPU" in words) for line in summary_lines(summary, NOW + 120)[-2:])


def ran(number: int, seconds: float, group: str = "", **usage: Any) -> Job:
    """A job that succeeded on GPU 0. `usage` is what was measured."""
    spec, used = replace(ONE, group=group), Usage(**usage) if usage else None
    attempt = Attempt(1, ("0",), NOW, NOW + seconds, Succeeded(), 0, None, "", usage=used, slots=(0,))
    return Job(number, spec, NOW, 30, 0.0, Succeeded(), issued=1, attempts=(attempt,))


KWH: dict[str, Any] = {"energy": 3.6e6, "energy_seconds": 3600.0}


@pytest.mark.parametrize(
    ("jobs", "used", "text"),
    [
        ([], Consumption(), ""),
        ([ran(0, 3600)], Consumption(1.0), ""),
        ([ran(0, 3600, **KWH), ran(1, 3600, **KWH)], Consumption(2.0, 2.0), "2.0 kWh"),
        ([ran(0, 3600, **KWH, is_energy_estimated=True)], Consumption(1.0, 1.0, True), "≈ 1.0 kWh"),
        ([ran(0, 7200, **KWH)], Consumption(2.0, 2.0, True), "≈ 2.0 kWh"),
        ([ran(0, 3600, **KWH), ran(1, 3600)], Consumption(2.0, 2.0, True), "≈ 2.0 kWh"),
    ],
    ids=["nothing", "no measurements", "counted", "from the power", "partly measured", "one without measurements"],
)
def test_energy_is_added_up_and_marked_if_it_is_estimated(jobs: list[Job], used: Consumption, text: str) -> None:
    total = consumption(uses(jobs, NOW))
    assert (total, total.energy_text) == (used, text)


def test_running_jobs_count_with_the_mean_power_of_the_others() -> None:
    running = job(1, Running(Placed(1, (0,), ("0",), NOW, ""), 7))
    assert consumption(uses([ran(0, 3600, **KWH), running], NOW + 1800)) == Consumption(1.5, 1.5, True)


def test_several_groups_are_listed_with_their_gpu_hours_and_energy() -> None:
    scheduler = Scheduler(Record(slots=slots("0")), [ran(0, 3600, "a", **KWH), ran(1, 1800, "b"), ran(2, 1800, "b")])
    summary = summary_of(scheduler, NOW + 9000)
    assert [(each.group, each.jobs, each.used.gpu_hours, each.used.kwh) for each in summary.groups] == [
        ("a", 1, 1.0, 1.0), ("b", 2, 1.0, None),
    ]  # fmt: skip
    lines = [line.split() for line in summary_lines(summary, NOW + 9000)]
    assert ["a", "1", "job", "1.0", "GPU-h", "1.0", "kWh"] in lines
    assert "2.0 GPU-h · ≈ 2.0 kWh" in headline(summary)
    assert summarize(at_work().snapshot(), NOW + 60).groups == ()


@pytest.mark.parametrize(
    ("kwh", "text"), [(0.0004, "0.4 Wh"), (0.07, "70 Wh"), (0.9, "900 Wh"), (2.14, "2.1 kWh"), (21.4, "21 kWh")]
)
def test_energy_is_in_watt_hours_or_kilowatt_hours(kwh: float, text: str) -> None:
    assert (energy(kwh), energy(kwh, is_estimated=True)) == (text, f"≈ {text}")


SUBMITTED = 1794900000.0


def placed(engine: EngineName) -> Placed:
    return Placed(1, (0,), (), SUBMITTED - 60, "", engine=engine)


def test_only_jobs_starting_on_a_cluster_are_submitted() -> None:
    assert job(37, Starting(placed(EngineName.SLURM))).submitted
    assert not job(37, Starting(placed(EngineName.LOCAL))).submitted
    assert not job(37, Running(placed(EngineName.SLURM), None)).submitted
    assert not job(37, Queued(SUBMITTED)).submitted


def test_a_submission_is_described_with_its_request() -> None:
    waiting = job(37, Starting(placed(EngineName.SLURM)), request=Request(gpus=2, memory=24 * 1024**3), timeout=7200.0)
    settings = Settings(partition="gpu", account="vision")
    text = submission_facts(waiting, Submitted(job=37, attempt=1, why="", slurm_job=88240), settings, SUBMITTED)
    asked = "partition gpu, account vision, 2 GPUs, 24.0 GiB of memory, at most 2 h"
    assert text == f"Submitted at {moment(SUBMITTED - 60, SUBMITTED)} as Slurm job 88240: {asked}."


NOON = 1_768_219_200.0
"""A Monday, in whatever zone tests run: nothing here depends on the hour."""


@pytest.mark.parametrize(
    ("seconds", "cell", "exact", "words"),
    [
        (-5, "0:00", "0:00", "0 s"),
        (41.9, "0:41", "0:41", "41 s"),
        (3599, "59:59", "59:59", "59 min"),
        (2 * HOUR + 41 * 60 + 7, "2h41", "2:41:07", "2 h 41 min"),
        (5 * HOUR, "5h00", "5:00:00", "5 h"),
        (31 * HOUR + 7 * 60, "31h07", "1d 07:07:00", "31 h 7 min"),
        (4 * DAY + 3 * HOUR, "4d03h", "4d 03:00:00", "4 d 3 h"),
        (12 * DAY, "12d", "12d 00:00:00", "12 d"),
    ],
)
def test_durations_have_three_formats(seconds: float, cell: str, exact: str, words: str) -> None:
    assert (duration_cell(seconds), duration_exact(seconds), duration_words(seconds)) == (cell, exact, words)


@given(st.floats(-10, 9999 * DAY))
def test_a_duration_fits_its_column(seconds: float) -> None:
    assert len(duration_cell(seconds)) <= DURATION_CELLS


def test_a_time_names_the_day_or_date_if_it_is_not_today() -> None:
    assert len(moment(NOON, NOON)) == len("12:00")
    assert moment(NOON, NOON, seconds=True) == f"{moment(NOON, NOON)}:00"
    yesterday = moment(NOON - DAY, NOON)
    assert yesterday.split() == [yesterday[:3], moment(NOON, NOON)]
    assert yesterday[:3].isalpha()
    assert moment(NOON - 7 * DAY, NOON).startswith("2026-01-0")


def test_sizes() -> None:
    assert [memory(size) for size in (None, 0, 300 * MIB, int(8.1 * GIB), 192 * GIB)] == [
        "–", "0M", "300M", "8.1G", "192G",
    ]  # fmt: skip
    assert memory_words(38 * GIB) == "38.0 GiB"


@pytest.mark.parametrize(
    ("used", "total", "text", "brief"),
    [
        (int(28.1 * GIB), 40 * GIB, "28.1/40G", "28/40G"),
        (3 * GIB, 8 * GIB, "3.0/8.0G", "3.0/8.0G"),
        (512 * GIB, 2048 * GIB, "0.5/2.0T", "0.5/2.0T"),
        (None, 40 * GIB, "–/40G", "–/40G"),
        (None, None, "–", "–"),
    ],
)
def test_memory_beside_its_total(used: int | None, total: int | None, text: str, brief: str) -> None:
    assert (memory_of(used, total), memory_of(used, total, brief=True)) == (text, brief)


def test_counting() -> None:
    assert counted(1, "job", "jobs") == "1 job"
    assert counted(12_200, "job", "jobs") == "12,200 jobs"


@given(st.text(), st.integers(0, 30))
def test_a_cut_text_fits_its_cells(text: str, cells: int) -> None:
    shorter = cut(text, cells)
    assert width(shorter) <= cells
    assert shorter == text or shorter == "" or shorter.endswith("…")
    assert cut(text, width(text)) == text


def test_marks_take_no_cell_and_wide_characters_two() -> None:
    assert [width(text) for text in ("abc", "名前", "e\u0301", "\u200b", "✓")] == [3, 4, 1, 0, 1]
    assert cut("名前名前", 4) == "名…"
