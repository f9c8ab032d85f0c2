"""What commands show of a session on a cluster: its jobs' GPUs, the other GPUs, the name of the cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, ON_A_SHARED_DISK, Home, Session, move
from support.slurm import CLUSTER, SETTINGS, Cluster
from support.waiting import until


@pytest.fixture
def home(slurm: Cluster, tmp_path: Path) -> Iterator[Home]:
    """A session with four places in the cluster's queue."""
    made = Home(tmp_path)
    made.begin(slots=[{"id": number, "devices": [], "kind": "slurm"} for number in range(4)])
    yield made
    made.end()


def told(home: Home, *words: str) -> str:
    done = subprocess.run([*GPUTUI, *words], cwd=home.directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def looked(home: Home) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(told(home, "gpus", "--json", "--session", str(home.root)))
    return answer


def places(home: Home) -> dict[str, list[int]]:
    return {f"{gpu['node']}:{gpu['index']}": gpu["jobs"] for gpu in looked(home)["devices"] if gpu["jobs"]}


def closed_nodes(home: Home) -> list[str]:
    return [node["reason"] for node in looked(home)["cluster"]["nodes"] if node["state"] == "drained"]


def gpus_of_others(home: Home) -> list[tuple[str, int]]:
    taken = (gpu for gpu in looked(home)["devices"] if not gpu["jobs"])
    return [(gpu["node"], process["pid"]) for gpu in taken for process in gpu["processes"]]


def test_gpus_and_sessions_tell_where_jobs_sit_on_the_cluster(home: Home, slurm: Cluster) -> None:
    other = slurm.submit("sleep 1000", "-w", "n3")
    slurm.await_state(other, "RUNNING")
    slurm.ask("scontrol", "update", "node=n2", "state=drain", "reason=fan replacement")
    home.add("sleep 1000", "sleep 1000")
    home.resume()
    until(lambda: sorted(job for jobs in places(home).values() for job in jobs) == [0, 1], "both jobs have their GPUs")
    until(lambda: closed_nodes(home) == ["fan replacement"], "the cluster is asked for its nodes again")
    until(lambda: gpus_of_others(home) == [("n3", int(other))], "the other user's job is seen")
    answer = looked(home)
    assert (answer["cluster"]["name"], answer["cluster"]["silent"]) == ("gputui", None)
    text = told(home, "gpus", "--session", str(home.root))
    assert "#0" in text
    assert "fan replacement" in text
    assert "4 slots: 2 running, 0 submitted" in text
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


def test_a_session_of_another_login_node_is_looked_at_and_continued_there(slurm: Cluster, tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        slurm.await_state(slurm.submit("sleep 1000", "-w", node, "--exclusive", "--gres=gpu:4"), "RUNNING")
    session = Session(tmp_path)
    until_go = f"echo acc=0.5; until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    session.write("#: gpus=4", session.told("runs", until_go), session.told("queued"))
    owner = session.start("jobs.txt", gpus="slurm:2")
    until(lambda: session.runs()["runs"] and "PENDING" in slurm.ask("squeue", "-h", "-o", "%T"), "one runs, one waits")
    owner.kill()
    owner.communicate()
    move(session, machine="0123", hostname="login2", boot="another boot")
    page = str(tmp_path / "page.html")
    for words in (["show", "0"], ["logs", "0"], ["results"], ["summary"], ["report", "-o", page]):
        done = session.call(*words, **ON_A_SHARED_DISK)
        assert (done.returncode, done.stderr) == (0, ""), words
    looked = json.loads(session.call("ls", "--json", **ON_A_SHARED_DISK).stdout)
    assert "lives on login2 (1 running, 1 queued in Slurm)" in looked["trouble"]
    assert [(job["state"], job["gpus"][:1]) for job in looked["jobs"]] == [("running", ["n3:0"]), ("starting", [])]
    assert "1 submitted · 1 running" in session.call("ls", **ON_A_SHARED_DISK).stdout
    (tmp_path / "go").touch()
    done = session.run("--adopt", "-y", gpus="slurm:2", **ON_A_SHARED_DISK)
    assert done.returncode == 0, done.stderr
    assert session.runs() == {"runs": 1, "queued": 1}
    assert session.states() == ["succeeded", "succeeded"]


def test_doctor_looks_at_the_cluster_as_the_session_uses_it(home: Home, slurm: Cluster) -> None:
    home.add("sleep 1000")
    home.resume()
    until(lambda: places(home), "the session has an owner and a job there")
    answer = json.loads(told(home, "doctor", "--json", "--session", str(home.root)))
    said = [finding["text"] for finding in answer["findings"] if finding["area"] == "slurm"]
    assert any(text.endswith(f"sees {home.root}") for text in said)


def test_a_job_with_a_code_snapshot_runs_in_a_checkout_on_its_node(slurm: Cluster, tmp_path: Path) -> None:
    session = Session(tmp_path / "project")
    session.directory.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=session.directory, check=True)
    (session.directory / "code.txt").write_text("first")
    session.write("#: snapshot", "cat code.txt; pwd")
    done = session.run("jobs.txt", gpus="slurm:1")
    assert done.returncode == 0, done.stderr
    assert session.output(0).startswith(f"first{session.private}/code/checkouts/")
