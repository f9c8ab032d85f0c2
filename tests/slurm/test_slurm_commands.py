"""Slurm's command line, asked as the engine asks it, on a real cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.slurm_cluster import Cluster
from support.slurm_conf import user

from gputui.engines.slurm.client import NoSlurm, SlurmCommands, SlurmRefused, SlurmSilent, command_environment
from gputui.engines.slurm.parse import NodeState, Phase


@pytest.fixture
def commands(slurm: Cluster) -> SlurmCommands:
    return SlurmCommands(slurm.environment)


QUIET = ("-o", "/dev/null", "-D", "/", "--gres=gpu:2", "--wrap")


def test_a_job_is_found_in_the_queue_with_its_gpus(slurm: Cluster, commands: SlurmCommands) -> None:
    number = commands.submit("--comment=gputui:mine", "-J", "gputui-1.1", *QUIET, "sleep 1000")
    slurm.await_state(number, "RUNNING")
    (job,) = [job for job in commands.queue(user()) if job.id == number]
    assert (job.phase, job.comment, job.partition) == (Phase.RUNNING, "gputui:mine", "gpu")
    (told,) = commands.details(number)
    assert [node for node, _ in told.places] == [*job.nodes] * 2
    (node,) = [node for node in commands.nodes() if node.name == job.nodes[0]]
    assert (node.gpus, node.used, node.state) == (4, 2, NodeState.UP)
    assert number in [each.id for each in commands.busy()]


def test_what_slurm_does_not_take_is_refused_in_words(commands: SlurmCommands) -> None:
    with pytest.raises(SlurmRefused, match="the cluster has no partition nosuch: "):
        commands.submit("-p", "nosuch", *QUIET, "true")
    with pytest.raises(SlurmRefused, match="sbatch knows no option --frobnicate"):
        commands.submit("--frobnicate", *QUIET, "true")


def test_a_job_that_slurm_has_forgotten_is_missing_and_no_error(commands: SlurmCommands) -> None:
    assert commands.details("999999") == []
    assert commands.ended(["999999"]) == []
    commands.cancel("999999")


def test_what_the_caller_set_for_sbatch_and_squeue_changes_nothing(slurm: Cluster) -> None:
    steering = {"SBATCH_ARRAY_INX": "0-3", "SQUEUE_FORMAT": "%j", "SBATCH_PARTITION": "nosuch", "SQUEUE_STATES": "CA"}
    commands = SlurmCommands({**slurm.environment, **steering})
    number = commands.submit(*QUIET, "sleep 1000")
    assert [job.id for job in commands.queue(user()) if job.phase is not Phase.ENDED] == [number]


def test_a_dead_controller_is_silent_and_not_a_refusal(slurm: Cluster) -> None:
    slurm.kill_controller()
    with pytest.raises(SlurmSilent, match=r"squeue did not answer in 1 s|Slurm's controller does not answer"):
        SlurmCommands(slurm.environment, patience=1).queue(user())


def test_without_slurm_its_absence_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSlurm, match="there is no squeue here"):
        SlurmCommands({"PATH": str(tmp_path)}).queue("ana")


def test_the_cluster_is_found_by_the_callers_own_configuration() -> None:
    kept = command_environment({"SLURM_CONF": "/c", "SLURM_JOB_ID": "3", "SBATCH_GRES": "x", "HOME": os.sep})
    assert kept == {"SLURM_CONF": "/c", "HOME": os.sep, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
