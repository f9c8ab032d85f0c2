"""A job that waits in a cluster's queue is known as submitted, with all that it asks for."""

from __future__ import annotations

from support.queues import job

from gputui.core.amounts import moment
from gputui.core.events import Settings, Submitted
from gputui.core.job import EngineName, Placed, Queued, Request, Running, Starting
from gputui.views.format import is_submitted, submission_facts

NOW = 1794900000.0


def placed(engine: EngineName) -> Placed:
    return Placed(1, (0,), (), NOW - 60, "", engine=engine)


def test_only_what_starts_on_a_cluster_is_submitted() -> None:
    assert is_submitted(job(37, Starting(placed(EngineName.SLURM))))
    assert not is_submitted(job(37, Starting(placed(EngineName.LOCAL))))
    assert not is_submitted(job(37, Running(placed(EngineName.SLURM), None)))
    assert not is_submitted(job(37, Queued(NOW)))


def test_all_that_was_asked_for_is_told() -> None:
    waiting = job(37, Starting(placed(EngineName.SLURM)), request=Request(gpus=2, memory=24 * 1024**3), timeout=7200.0)
    settings = Settings(partition="gpu", account="vision")
    told = submission_facts(waiting, Submitted(job=37, attempt=1, why="", slurm_job=88240), settings, NOW)
    asked = "partition gpu, account vision, 2 GPUs, 24.0G of memory, at most 2 h"
    assert told == f"Submitted at {moment(NOW - 60, NOW)} as Slurm job 88240: {asked}."
