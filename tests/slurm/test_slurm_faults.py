"""Whoever dies in a cluster, and when: every job runs once, or is shown as lost, and none is run twice by itself."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from support.slurm_cluster import Cluster
from support.slurm_drill import SlurmDrill, SlurmTally
from support.waiting import until

from gputui.core.steps import Step


def test_an_owner_killed_at_every_step_loses_and_doubles_nothing(slurm: Cluster, tmp_path: Path) -> None:
    drill = SlurmDrill(tmp_path, slurm, jobs=26, lanes=6)
    died = [step for step in Step if drill.dies_at(step, nth=1 if step is Step.RECOVERY_BEGUN else 2)]
    tally = drill.finish()
    assert tally.wrong == []
    assert tally.lost == []
    assert {Step.COMMITTED, Step.SPAWNED, Step.WATCHED, Step.END_SEEN, Step.CLAIM_REMOVED} <= set(died)


def rough_weather(drill: SlurmDrill, jobs: int, kills: int, seed: int = 1) -> SlurmTally:
    """The controller is killed and restarted, then a node's daemon, and the owner again and again meanwhile."""
    chance, cluster = random.Random(seed), drill.cluster
    owner = drill.owner()
    for number in range(kills):
        drill.await_runs(jobs * (number + 1) // (kills + 2))
        if number == 0:
            cluster.kill_controller()
        elif number == 1:
            cluster.kill_node("n2")
        time.sleep(chance.uniform(0.0, 0.5))  # the moment of a kill is anybody's
        drill.kill(owner)
        owner = drill.owner()
        if number == 0:
            cluster.start_controller()
            until(cluster.listening, "the controller answers")
        elif number == 1:
            cluster.start_node("n2")
    return drill.finish(owner, seconds=600)


def test_no_job_runs_twice_when_the_controller_a_node_and_the_owner_are_killed(slurm: Cluster, tmp_path: Path) -> None:
    tally = rough_weather(SlurmDrill(tmp_path, slurm, jobs=40, lanes=12), 40, kills=2)
    assert tally.wrong == []
    assert all(words.partition(": ")[2] for words in tally.lost)


@pytest.mark.long
def test_three_hundred_jobs_outlive_the_controller_a_node_and_five_owners(slurm: Cluster, tmp_path: Path) -> None:
    tally = rough_weather(SlurmDrill(tmp_path, slurm, jobs=300, lanes=24, seconds=0.5), 300, kills=5)
    print(tally)
    assert tally.wrong == []
    assert tally.owners_killed == 5
