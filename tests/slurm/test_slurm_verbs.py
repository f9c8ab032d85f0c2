"""What verbs say of a session whose jobs run on a cluster: where they sit, whose the other GPUs are, which cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.homes import Home
from support.sessions import GPUTUI, Session
from support.slurm_cluster import Cluster
from support.slurm_conf import CLUSTER, SETTINGS
from support.waiting import until


@pytest.fixture
def home(slurm: Cluster, tmp_path: Path) -> Iterator[Home]:
    """A session with four places in the cluster's queue."""
    made = Home(tmp_path)
    made.begin(lanes=[{"id": number, "devices": [], "kind": "slurm"} for number in range(4)])
    yield made
    made.end()


def told(home: Home, *words: str) -> str:
    done = subprocess.run([*GPUTUI, *words], cwd=home.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def looked(home: Home) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(told(home, "gpus", "--json", "--session", str(home.root)))
    return answer


def places(home: Home) -> dict[str, list[int]]:
    return {f"{gpu['node']}:{gpu['index']}": gpu["jobs"] for gpu in looked(home)["devices"] if gpu["jobs"]}


def test_gpus_and_sessions_tell_where_jobs_sit_on_the_cluster(home: Home, slurm: Cluster) -> None:
    other = slurm.submit("sleep 1000", "-w", "n3")
    slurm.await_state(other, "RUNNING")
    slurm.ask("scontrol", "update", "node=n2", "state=drain", "reason=fan replacement")
    home.add("sleep 1000", "sleep 1000")
    home.resume()
    until(lambda: len(places(home)) == 2, "both jobs have their GPUs")
    answer = looked(home)
    assert sorted(job for jobs in places(home).values() for job in jobs) == [0, 1]
    assert (answer["cluster"]["name"], answer["cluster"]["silent"]) == ("gputui", None)
    closed = [node for node in answer["cluster"]["nodes"] if node["state"] == "drained"]
    assert [node["reason"] for node in closed] == ["fan replacement"]
    (theirs,) = [gpu for gpu in answer["devices"] if gpu["processes"] and not gpu["jobs"]]
    assert (theirs["node"], theirs["processes"][0]["pid"]) == ("n3", int(other))
    text = told(home, "gpus", "--session", str(home.root))
    assert "#0" in text
    assert "fan replacement" in text
    assert "4 lanes: 2 running, 0 submitted" in text
    sessions = json.loads(told(home, "sessions", "--json"))["sessions"]
    (mine,) = [known for known in sessions if known["session"] == str(home.root)]
    assert mine["engine"] == "slurm"
    until(lambda: f"slurm {CLUSTER}" in told(home, "sessions"), "the cluster's name is known")


def test_gpu_memory_that_a_job_needs_is_not_asked_of_its_nodes_main_memory(slurm: Cluster, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("#: memory=500G", "scontrol show job $SLURM_JOB_ID")
    done = session.run("jobs.txt", gpus="slurm:1")
    assert done.returncode == 0, done.stderr
    assert f"MinMemoryCPU={SETTINGS['DefMemPerCPU']}M" in session.output(0)


def test_doctor_looks_at_the_cluster_as_the_session_uses_it(home: Home, slurm: Cluster) -> None:
    home.add("sleep 1000")
    home.resume()
    until(lambda: places(home), "the session has an owner and a job there")
    answer = json.loads(told(home, "doctor", "--json", "--session", str(home.root)))
    said = [finding["text"] for finding in answer["findings"] if finding["area"] == "slurm"]
    assert any(text.endswith(f"sees {home.root}") for text in said)
