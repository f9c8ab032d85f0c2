"""Whoever waits in Slurm or is refused by it is told why in words."""

from __future__ import annotations

import pytest

from gputui.core.amounts import moment
from gputui.engines.slurm.messages import refusal, waits
from gputui.engines.slurm.parse import SlurmJob

NOW = 1794900000.0
LATER = NOW + 1800


def told(reason: str | None, started: float | None = None) -> str:
    job = SlurmJob(id="88240", state="PENDING", reason=reason, partition="gpu", started=started)
    return waits(job, NOW)


def test_slurms_word_follows_ours_with_the_time_that_it_expects() -> None:
    assert (
        told("Resources", LATER)
        == f"not enough free GPUs, CPUs or memory in gpu; Slurm expects {moment(LATER, NOW)} (Resources)"
    )
    assert told("Resources") == "not enough free GPUs, CPUs or memory in gpu (Resources)"
    assert told("BeginTime", LATER) == f"Slurm waits with it until {moment(LATER, NOW)} (BeginTime)"


def test_a_time_that_has_passed_is_not_told() -> None:
    assert told("Priority", NOW - 60) == "others are before it in gpu (Priority)"


def test_a_time_in_years_is_not_told_as_it_only_means_that_others_have_no_limit() -> None:
    assert told("Resources", NOW + 365 * 86400) == "not enough free GPUs, CPUs or memory in gpu (Resources)"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "Slurm has not looked at it yet"),
        ("Dependency", "it waits for another job of Slurm (Dependency)"),
        ("JobHeldAdmin", "the admin holds it: ask them (JobHeldAdmin)"),
        ("JobHeldUser", "it is held in Slurm: `scontrol release 88240` lets it go (JobHeldUser)"),
        ("QOSMaxJobsPerUserLimit", "you may have no more jobs at once in this QOS (QOSMaxJobsPerUserLimit)"),
        ("QOSMaxGRESPerUser", "you may have no more GPUs at once in this QOS (QOSMaxGRESPerUser)"),
        ("QOSGrpGRES", "this QOS may have no more GPUs at once (QOSGrpGRES)"),
        ("QOSMaxCpuPerJobLimit", "it asks for more CPUs than its QOS allows (QOSMaxCpuPerJobLimit)"),
        ("AssocGrpGRES", "your account may have no more GPUs at once (AssocGrpGRES)"),
        ("AssocGrpGRESMinutes", "its account has used up its minutes of GPUs (AssocGrpGRESMinutes)"),
        ("AssocMaxJobsLimit", "your account may have no more jobs at once (AssocMaxJobsLimit)"),
        ("MaxGRESPerAccount", "your account may have no more GPUs at once (MaxGRESPerAccount)"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-2]",
            "the nodes it could run on are reserved, down or closed (ReqNodeNotAvail)",
        ),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "the nodes it could run on are down, drained or reserved",
        ),
        ("Licenses", "no licence is free (Licenses)"),
        ("PartitionDown", "the partition gpu is closed (PartitionDown)"),
        ("NodeDown", "its node is down (NodeDown)"),
        ("PartitionTimeLimit", "it asks for more time than gpu gives: see --time (PartitionTimeLimit)"),
    ],
)
def test_every_common_reason_has_words(reason: str | None, words: str) -> None:
    assert told(reason) == words


def test_a_reason_that_nobody_knows_is_shown_as_it_is() -> None:
    assert told("MoonInTheWrongHouse", LATER) == f"Slurm says: MoonInTheWrongHouse; Slurm expects {moment(LATER, NOW)}"
    assert told("QOSMaxMoonPerUser") == "Slurm says: QOSMaxMoonPerUser"


@pytest.mark.parametrize(
    ("said", "begins"),
    [
        (
            "sbatch: error: invalid partition specified: nosuch\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "the cluster has no partition nosuch: ",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
            "the account may not be used there: ",
        ),
        ("sbatch: error: Batch job submission failed: Invalid qos specification\n", "the QOS may not be used: "),
        ("allocation failure: Requested node configuration is not available\n", "no node that is open now has "),
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's "
            "size and/or time limits)\n",
            "the job breaks a limit of your account or QOS",
        ),
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
            "accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
            "Slurm takes no more jobs of yours at once here: ",
        ),
        ("sbatch: error: Invalid generic resource (gres) specification\n", "the cluster has no such GPU resource: "),
        ("allocation failure: Invalid feature specification\n", "no node has that feature: "),
        (
            "sbatch: unrecognized option '--frobnicate'\nTry \"sbatch --help\"\n",
            "sbatch knows no option --frobnicate: ",
        ),
        ("sbatch: error: Invalid --begin specification\n", "sbatch: Invalid --begin specification"),
        ("", "sbatch: it failed and said nothing"),
    ],
)
def test_every_refusal_says_what_to_do(said: str, begins: str) -> None:
    assert refusal("sbatch", said).startswith(begins)
