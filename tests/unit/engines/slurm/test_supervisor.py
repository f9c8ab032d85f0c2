"""The supervisor by itself, as Slurm would start it: what it writes when all of a job is signalled at once.

Slurm's own part is in tests/slurm.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.waiting import until

from gputui.engines.claims import Claims, WrittenExit
from gputui.engines.protocol import Launch
from gputui.engines.slurm.supervisor import TEXT, variables

ROUNDS = 24
"""A bash that forgot how its child ended did so two times in three."""


class Supervisor:
    """In a process group of its own, with the command in it."""

    def __init__(self, directory: Path, command: str) -> None:
        self._directory = directory
        for name in ("claims", "news", "work"):
            (directory / name).mkdir(parents=True)
        launch = Launch(
            job=0, attempt=1, command=command, shell="", login_shell=False, cwd=str(directory / "work"),
            environment=dict(os.environ), out=str(directory / "OUT"), err=str(directory / "ERR"),
        )  # fmt: skip
        environment = {**variables(launch, f"token-{directory.name}", str(directory)), "SLURM_JOB_ID": "1"}
        self._process = subprocess.Popen(
            ["bash", "-c", TEXT], env={**environment, "SLURMD_NODENAME": "n1"}, start_new_session=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def is_ready(self) -> bool:
        return (self._directory / "work/ready").exists()

    def signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def end(self) -> tuple[int, object, str]:
        code = self._process.wait(60)
        return code, Claims(str(self._directory / "claims")).read(0, 1), (self._directory / "OUT").read_text()


@pytest.mark.parametrize(
    ("command", "code", "printed"),
    [
        ("touch ready; exec sleep 600", 128 + signal.SIGTERM, ""),
        ("trap 'echo saved; exit 7' TERM; touch ready; while :; do sleep 0.01; done", 7, "saved\n"),
    ],
)
def test_the_code_is_the_commands_own_also_when_all_of_the_job_is_signalled_at_once(
    tmp_path: Path, command: str, code: int, printed: str
) -> None:
    supervisors = [Supervisor(tmp_path / str(number), command) for number in range(ROUNDS)]
    for supervisor in supervisors:
        until(supervisor.is_ready, "the command runs")
        supervisor.signal(signal.SIGTERM)
        supervisor.signal(signal.SIGCONT)
    ends = [supervisor.end() for supervisor in supervisors]
    assert [end[0] for end in ends] == [code] * ROUNDS
    assert {isinstance(claim, WrittenExit) and claim.code for _, claim, _ in ends} == {code}
    assert {text for _, _, text in ends} == {printed}


def test_a_supervisor_whose_job_is_killed_whole_leaves_no_code(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "0", "touch ready; exec sleep 600")
    until(supervisor.is_ready, "the command runs")
    supervisor.signal(signal.SIGKILL)
    assert not isinstance(supervisor.end()[1], WrittenExit)
