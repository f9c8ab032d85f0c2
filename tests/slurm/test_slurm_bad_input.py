"""Invalid cluster options are refused in one sentence, and nothing is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.sessions import Session, said
from support.slurm import Cluster

from gputui.gpus.slots import BadGpus, SlurmSlots, parse_gpus


@pytest.mark.parametrize(
    "written", ["slurm:0", "slurm:-1", "slurm:x", "slurm:10000", "slurm:4+0,1", "slurm:4,0", "slurm"]
)
def test_invalid_slots_are_refused(written: str) -> None:
    with pytest.raises(BadGpus):
        parse_gpus(written)
    assert parse_gpus("slurm:8") == SlurmSlots(8)
    assert parse_gpus("slurm:all") == SlurmSlots(None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--partition", "nowhere"], "no partition nowhere; available: "),
        (["--sbatch-opt=--array=1-4"], "--sbatch-opt --array=1-4: set by gputui"),
        (["--sbatch-opt=--nonsense"], "rejected by Slurm: sbatch has no option --nonsense"),
    ],
)
def test_invalid_cluster_options_are_refused(slurm: Cluster, tmp_path: Path, words: list[str], sentence: str) -> None:
    session = Session(tmp_path)
    session.write(session.told(1))
    done = session.run("jobs.txt", *words, gpus="slurm:2")
    assert done.returncode == 2
    assert said(done).startswith(sentence)
    assert not session.runs()


def test_more_gpus_than_any_node_has_are_refused_at_add_and_the_node_named(slurm: Cluster, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write(session.told(1), "#: gpus=8", session.told(2))
    done = session.run("jobs.txt", gpus="slurm:2")
    assert said(done) == "job requests 8 GPUs: the largest node (n1) has 4"
    assert session.jobs() == []
