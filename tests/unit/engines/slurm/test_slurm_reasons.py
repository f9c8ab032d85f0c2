"""Slurm's reasons and errors in plain words."""

from __future__ import annotations

import pytest

from gputui.core.amounts import moment
from gputui.engines.slurm.messages import describe_wait, refusal
from gputui.engines.slurm.parse import SlurmJob

NOW = 1794900000.0
LATER = NOW + 1800


def told(reason: str | None, started: float | None = None) -> str:
    job = SlurmJob(id="88240", state="PENDING", reason=reason, partition="gpu", started=started)
    return describe_wait(job, NOW)


def test_slurms_word_follows_ours_with_the_time_that_it_expects() -> None:
    assert (
        told("Resources", LATER)
        == f"not enough free GPUs, CPUs or memory in gpu; Slurm expects {moment(LATER, NOW)} (Resources)"
    )
    assert told("Resources") == "not enough free GPUs, CPUs or memory in gpu (Resources)"
    assert told("BeginTime", LATER) == f"delayed by Slurm until {moment(LATER, NOW)} (BeginTime)"


def test_an_expected_start_in_the_past_is_not_shown() -> None:
    assert told("Priority", NOW - 60) == "other jobs are ahead in gpu (Priority)"


def test_an_expected_start_years_ahead_is_not_shown() -> None:
    assert told("Resources", NOW + 365 * 86400) == "not enough free GPUs, CPUs or memory in gpu (Resources)"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "not yet considered by Slurm"),
        ("Dependency", "waiting for another Slurm job (Dependency)"),
        ("JobHeldAdmin", "held by the admin; ask them (JobHeldAdmin)"),
        ("JobHeldUser", "held in Slurm; release with `scontrol release 88240` (JobHeldUser)"),
        ("QOSMaxJobsPerUserLimit", "your limit of jobs in this QOS is reached (QOSMaxJobsPerUserLimit)"),
        ("QOSMaxGRESPerUser", "your limit of GPUs in this QOS is reached (QOSMaxGRESPerUser)"),
        ("QOSGrpGRES", "the QOS limit of GPUs is reached (QOSGrpGRES)"),
        ("QOSMaxCpuPerJobLimit", "requests more CPUs than its QOS allows (QOSMaxCpuPerJobLimit)"),
        ("AssocGrpGRES", "your account's limit of GPUs is reached (AssocGrpGRES)"),
        ("AssocGrpGRESMinutes", "its account has no minutes left for GPUs (AssocGrpGRESMinutes)"),
        ("AssocMaxJobsLimit", "your account's limit of jobs is reached (AssocMaxJobsLimit)"),
        ("MaxGRESPerAccount", "your account's limit of GPUs is reached (MaxGRESPerAccount)"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
            "all suitable nodes are reserved, down or closed (ReqNodeNotAvail)",
        ),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "all suitable nodes are down, drained or reserved",
        ),
        ("Licenses", "no free license (Licenses)"),
        ("PartitionDown", "partition gpu is closed (PartitionDown)"),
        ("NodeDown", "its node is down (NodeDown)"),
        ("PartitionTimeLimit", "requests more time than gpu allows; see --time (PartitionTimeLimit)"),
    ],
)
def test_every_common_reason_has_words(reason: str | None, words: str) -> None:
    assert told(reason) == words


def test_an_unknown_reason_is_shown_unchanged() -> None:
    assert told("MoonInTheWrongHouse", LATER) == f"Slurm: MoonInTheWrongHouse; Slurm expects {moment(LATER, NOW)}"
    assert told("QOSMaxMoonPerUser") == "Slurm: QOSMaxMoonPerUser"


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        (
            "sbatch: error: invalid partition specified: nosuch\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "no such partition nosuch: ",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
            "account not allowed there",
        ),
        ("sbatch: error: Batch job submission failed: Invalid qos specification\n", "QOS not allowed: "),
        (
            "allocation failure: Requested node configuration is not available\n",
            ("no available node satisfies the request: request less, or see `sinfo -R` for closed nodes"),
        ),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
            "size and/or time limits)\n",
            "job exceeds an account or QOS limit (number of jobs, size or time): ",
        ),
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
            "accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
            "Slurm job limit reached: keep fewer jobs in its queue (gputui gpus slurm:N)",
        ),
        (
            "sbatch: error: Invalid generic resource (gres) specification\n",
            ("no such GPU resource in the cluster: see `sinfo -o '%P %G'`"),
        ),
        ("allocation failure: Invalid feature specification\n", "no node has that feature: "),
        (
            "sbatch: unrecognized option '--frobnicate'\nTry \"sbatch --help\"\n",
            "sbatch has no option --frobnicate: ",
        ),
        ("sbatch: error: Invalid --begin specification\n", "sbatch: Invalid --begin specification"),
        ("", "sbatch: failed without a message"),
    ],
)
def test_every_refusal_says_what_to_do(said: str, begins: str) -> None:
    assert refusal("sbatch", said).startswith(begins)
