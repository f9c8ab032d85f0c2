"""`gputui doctor` on a real cluster: what would keep jobs from running there is said before any is submitted."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI
from support.slurm_cluster import Cluster


def doctor(slurm: Cluster, folder: Path, *words: str, before: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    command = [*before, *GPUTUI, "doctor", "--json", *words]
    done = subprocess.run(command, cwd=folder, env=slurm.environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, [finding for finding in findings if finding["area"] == "slurm"]


def texts(findings: list[dict[str, Any]], level: str = "ok") -> str:
    return "\n".join(finding["text"] for finding in findings if finding["level"] == level)


def test_a_cluster_that_is_well_is_told_with_its_largest_node(slurm: Cluster, tmp_path: Path) -> None:
    slurm.ask("scontrol", "update", "node=n3", "state=drain", "reason=fan replacement")
    status, findings = doctor(slurm, tmp_path, "--slurm", "--partition", "gpu")
    assert status == 0, findings
    said = texts(findings)
    assert "3 nodes have 12 GPUs in partition gpu, 0 in use; the largest is n1: 4 GPUs, 62.5 GB" in said
    assert "closed: n3 (fan replacement, says " in said
    assert f"sees {tmp_path}" in said
    assert list(tmp_path.iterdir()) == []  # the trial job leaves nothing


def test_a_partition_that_does_not_exist_is_serious(slurm: Cluster, tmp_path: Path) -> None:
    status, findings = doctor(slurm, tmp_path, "--partition", "nosuch")
    assert status == 1
    assert "the cluster has no partition nosuch: " in texts(findings, "bad")


def test_accounts_that_nobody_keeps_are_said_to_be_unchecked(slurm: Cluster, tmp_path: Path) -> None:
    _, findings = doctor(slurm, tmp_path, "--account", "vision")
    assert "these could not be checked" in texts(findings)


def test_a_folder_that_the_nodes_do_not_see_is_serious(slurm: Cluster, tmp_path: Path) -> None:
    """The doctor alone sees what is mounted there, as with a home that is no shared one."""
    script = 'mount -t tmpfs none "$0" 2>/dev/null || exit 77; cd "$0" && exec "$@"'
    before = ("unshare", "--mount", "bash", "-c", script, str(tmp_path))
    if os.geteuid() != 0 or subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here for one process alone")
    status, findings = doctor(slurm, tmp_path, "--slurm", before=before)
    assert status == 1, findings
    assert "no shared file system: a job ran on n" in texts(findings, "bad")


def test_a_controller_that_is_down_is_told(slurm: Cluster, tmp_path: Path) -> None:
    slurm.kill_controller()
    status, findings = doctor(slurm, tmp_path, "--slurm")
    assert status == 1
    assert "Slurm's controller does not answer" in texts(findings, "bad")


def test_without_being_asked_for_no_job_is_submitted(slurm: Cluster, tmp_path: Path) -> None:
    before = slurm.ask("squeue", "-h", "-t", "all", "-o", "%A %j")
    status, findings = doctor(slurm, tmp_path)
    assert status == 0
    assert "Slurm takes jobs with its defaults" in texts(findings)
    assert slurm.ask("squeue", "-h", "-t", "all", "-o", "%A %j") == before
