"""Memory limits by control groups, account and QOS limits by Slurm's accounting (slow)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import SlurmMachine
from support.slurm import Accounts, Cluster, lent

from gputui.core.events import Exited, NotStarted, Submitted
from gputui.core.job import CrashKind
from gputui.engines.protocol import ClusterOptions
from gputui.engines.slurm.client import SlurmCommands

pytestmark = pytest.mark.long


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[SlurmMachine]:
    machine = SlurmMachine(tmp_path)
    yield machine
    machine.clear_away()


def test_a_job_over_its_memory_limit_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lent(nodes=1, tracker="cgroup", settings={"TaskPlugin": "task/cgroup"}) as cluster:
        monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
        machine = SlurmMachine(tmp_path)
        little = ClusterOptions(sbatch_opt=("--mem=100M",))
        outcome = machine.run("exec python3 -c 'bytearray(300 << 20)'", gpus=1, cluster_options=little)
        machine.clear_away()
    assert outcome == Exited(137)
    assert (machine.ends()[0].signature, machine.ends()[0].kind) == (
        "stopped by Slurm at its memory limit", CrashKind.OOM_HOST,
    )  # fmt: skip


@pytest.fixture(scope="module")
def counting() -> Iterator[Cluster]:
    lines = (
        "add account lab", "add user root account=lab", "add qos small", "modify qos small set MaxJobsPerUser=1",
        "modify user root set qos=normal,small defaultqos=normal", "add account tiny GrpTRES=cpu=1",
        "add user root account=tiny",
    )  # fmt: skip
    with lent(nodes=1, accounts=Accounts(*lines)) as cluster:
        yield cluster


@pytest.fixture
def accounts(counting: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("SLURM_CONF", str(counting.conf))
    yield counting
    counting.clear()


@pytest.mark.parametrize(
    ("options", "said"), [({"account": "nobody"}, "account not allowed"), ({"qos": "none"}, "QOS")]
)
def test_an_account_or_qos_that_may_not_be_used_refuses_the_job(
    accounts: Cluster, machine: SlurmMachine, options: dict[str, str], said: str
) -> None:
    outcome = machine.run("true", cluster_options=ClusterOptions(**options))  # type: ignore[arg-type]
    assert isinstance(outcome, NotStarted)
    assert said in outcome.why


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"account": "lab", "qos": "small"}, "your limit of jobs in this QOS is reached (QOSMaxJobsPerUserLimit)"),
        ({"account": "tiny"}, "your account's limit of CPUs is reached (AssocGrpCpuLimit)"),
    ],
)
def test_a_limit_that_makes_a_job_wait_is_named(
    accounts: Cluster, machine: SlurmMachine, options: dict[str, str], said: str
) -> None:
    told = ClusterOptions(**options)  # type: ignore[arg-type]
    machine.engine.start([machine.launch("sleep 600", job=job, gpus=1, cluster_options=told) for job in (0, 1)])
    machine.until(lambda: any(isinstance(news, Submitted) and news.why == said for news in machine.reports))


def test_the_accounting_knows_an_end(accounts: Cluster, machine: SlurmMachine) -> None:
    assert machine.run("exit 7") == Exited(7)
    begun = machine.claims.read_file(0, 1).begun
    assert begun is not None
    machine.until(lambda: [end.code for end in SlurmCommands().ended([str(begun.slurm_job)])] == [7])
