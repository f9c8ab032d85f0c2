"""Whoever dies in a cluster, and when: every job runs once, or is shown as lost, and none is run twice by itself."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from support.sessions import Session
from support.slurm_cluster import Cluster
from support.slurm_drill import SlurmDrill, SlurmTally
from support.waiting import until

from gputui.core.job import Lost, Succeeded
from gputui.core.steps import Step
from gputui.engines.claims import Claims


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


def test_only_who_asked_for_it_is_run_again_after_a_node_went_and_only_once_it_is_known_to_have_ended(
    slurm: Cluster, tmp_path: Path
) -> None:
    session = Session(tmp_path)
    first_stays = '[ "$GPUTUI_ATTEMPT" != 1 ] || exec sleep 600'
    session.write("#: retry_on=node", session.told("asked", first_stays), "#:", session.told("did-not", first_stays))
    owner = session.start("jobs.txt", gpus="slurm:2")
    until(lambda: sum(session.runs().values()) == 2, "both run")
    owner.kill()
    owner.communicate()
    # The owner is gone when the node goes, as is likely: it may well be the node that fails.
    nodes = {begun.node for job in (0, 1) if (begun := Claims(str(session.claims_folder)).begun(job, 1)) is not None}
    with slurm.patience():
        for node in nodes:
            slurm.ask("scontrol", "update", f"node={node}", "state=down", "reason=broken fan")
        done = session.run(gpus="slurm:2")
    assert done.returncode == 1, done.stderr
    assert session.runs() == {"asked": 2, "did-not": 1}
    asked, did_not = session.jobs()
    assert isinstance(asked.state, Succeeded)
    assert isinstance(did_not.state, Lost)
    assert "failed or was closed" in did_not.state.why
    assert "failed or was closed" in str(asked.attempts[0].end)
