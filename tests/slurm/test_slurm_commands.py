"""Slurm's command line as the engine uses it, on a real cluster."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from support.slurm import Cluster, user

from gputui.core.slots import NodeState
from gputui.engines.slurm.client import NoSlurm, SlurmCommands, SlurmRefused, SlurmSilent, command_environment
from gputui.engines.slurm.parse import Phase


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


def test_a_refusal_of_sbatch_is_explained(commands: SlurmCommands) -> None:
    with pytest.raises(SlurmRefused, match="no such partition nosuch: "):
        commands.submit("-p", "nosuch", *QUIET, "true")
    with pytest.raises(SlurmRefused, match="sbatch has no option --frobnicate"):
        commands.submit("--frobnicate", *QUIET, "true")


def test_a_job_that_slurm_has_forgotten_is_missing_and_no_error(commands: SlurmCommands) -> None:
    assert commands.details("999999") == []
    assert commands.ended(["999999"]) == []
    commands.cancel("999999")


def test_variables_for_sbatch_and_squeue_change_nothing(slurm: Cluster) -> None:
    steering = {"SBATCH_ARRAY_INX": "0-3", "SQUEUE_FORMAT": "%j", "SBATCH_PARTITION": "nosuch", "SQUEUE_STATES": "CA"}
    commands = SlurmCommands({**slurm.environment, **steering})
    number = commands.submit(*QUIET, "sleep 1000")
    assert [job.id for job in commands.queue(user()) if job.phase is not Phase.ENDED] == [number]


def test_a_dead_controller_is_silent_and_not_a_refusal(slurm: Cluster) -> None:
    slurm.kill_controller()
    with pytest.raises(SlurmSilent, match=r"squeue did not respond within 1 s|Slurm controller not responding"):
        SlurmCommands(slurm.environment, patience=1).queue(user())


def test_a_controller_killed_before_it_reads_a_request_is_silent_and_not_a_refusal(slurm: Cluster) -> None:
    slurm.signal_controller(signal.SIGSTOP)
    threading.Timer(0.5, slurm.kill_controller).start()
    with pytest.raises(SlurmSilent, match="Slurm controller not responding"):
        SlurmCommands(slurm.environment).submit(*QUIET, "true")


def test_a_missing_slurm_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoSlurm, match="squeue not found"):
        SlurmCommands({"PATH": str(tmp_path)}).queue("ana")


def test_the_cluster_is_found_by_the_callers_own_configuration() -> None:
    kept = command_environment({"SLURM_CONF": "/c", "SLURM_JOB_ID": "3", "SBATCH_GRES": "x", "HOME": os.sep})
    assert kept == {"SLURM_CONF": "/c", "HOME": os.sep, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
