"""`gputui doctor` on a real cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI
from support.slurm import Cluster

IMPATIENT = (
    sys.executable,
    "-c",
    "import gputui.cli.doctor.slurm as slurm, gputui.__main__ as program, sys; slurm.VISIBLE_WITHIN = 1.0; "
    "sys.exit(program.main())",
)
"""gputui with a shorter wait for files of other nodes."""


def doctor(
    slurm: Cluster, directory: Path, *words: str, before: tuple[str, ...] = (), gputui: Sequence[str] = GPUTUI
) -> tuple[int, list[dict[str, Any]]]:
    command = [*before, *gputui, "doctor", "--json", *words]
    done = subprocess.run(command, cwd=directory, env=slurm.environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, [finding for finding in findings if finding["area"] == "slurm"]


def texts(findings: list[dict[str, Any]], level: str = "ok") -> str:
    return "\n".join(finding["text"] for finding in findings if finding["level"] == level)


def test_the_doctor_describes_a_healthy_cluster(slurm: Cluster, tmp_path: Path) -> None:
    slurm.ask("scontrol", "update", "node=n3", "state=drain", "reason=fan replacement")
    status, findings = doctor(slurm, tmp_path, "--slurm", "--partition", "gpu")
    assert status == 0, findings
    said = texts(findings)
    assert "3 nodes have 12 GPUs in partition gpu, 0 in use; the largest is n1: 4 GPUs, 62.5 GiB" in said
    assert "unavailable nodes: n3 (fan replacement, says " in said
    assert f"sees {tmp_path}" in said
    assert list(tmp_path.iterdir()) == []  # the trial job leaves nothing


def test_an_unknown_partition_is_a_problem(slurm: Cluster, tmp_path: Path) -> None:
    status, findings = doctor(slurm, tmp_path, "--partition", "nosuch")
    assert status == 1
    assert "no such partition nosuch: " in texts(findings, "bad")


def test_without_accounting_the_account_is_reported_as_unchecked(slurm: Cluster, tmp_path: Path) -> None:
    _, findings = doctor(slurm, tmp_path, "--account", "vision")
    assert "Slurm accounting is off: account and QOS could not be checked" in texts(findings)


def test_a_directory_that_the_nodes_do_not_see_is_a_problem(slurm: Cluster, tmp_path: Path) -> None:
    """The doctor alone sees what is mounted there, as with a home that is no shared one."""
    script = 'mount -t tmpfs none "$0" 2>/dev/null || exit 77; cd "$0" && exec "$@"'
    before = ("unshare", "--mount", "bash", "-c", script, str(tmp_path))
    if os.geteuid() != 0 or subprocess.run([*before, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here for one process alone")
    status, findings = doctor(slurm, tmp_path, "--slurm", before=before, gputui=IMPATIENT)
    assert status == 1, findings
    assert "no shared file system: a file written by n" in texts(findings, "bad")


def test_a_controller_that_is_down_is_a_problem(slurm: Cluster, tmp_path: Path) -> None:
    slurm.kill_controller()
    status, findings = doctor(slurm, tmp_path, "--slurm")
    assert status == 1
    assert "Slurm controller not responding" in texts(findings, "bad")


def test_no_job_is_submitted_without_slurm_option(slurm: Cluster, tmp_path: Path) -> None:
    before = slurm.ask("squeue", "-h", "-t", "all", "-o", "%A %j")
    status, findings = doctor(slurm, tmp_path)
    assert status == 0
    assert "Slurm accepts jobs with its defaults" in texts(findings)
    assert slurm.ask("squeue", "-h", "-t", "all", "-o", "%A %j") == before
