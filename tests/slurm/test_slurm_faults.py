"""Killed owners, controllers and nodes: every job runs once or is shown as lost."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.sessions import VICTIM, Process, Session
from support.slurm import Cluster
from support.waiting import until

from gputui.core.job import Ended, Lost, Succeeded
from gputui.core.steps import Step
from gputui.engines.claims import Claims


@dataclass
class SlurmTally:
    jobs: int = 0
    once: int = 0
    twice: int = 0
    """Or more often."""
    never: int = 0
    owners_killed: int = 0
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


SLOWEST = 600.0
"""Seconds; far more than the jobs of a drill need, on a machine that is busy with other tests too."""
SEGMENTATION_FAULT = 128 + signal.SIGSEGV


def _ending(code: int) -> str:
    return "kill -SEGV $$" if code == SEGMENTATION_FAULT else f"exit {code}"


class SlurmDrill:
    def __init__(self, directory: Path, cluster: Cluster, jobs: int, slots: int, seconds: float = 0.3) -> None:
        self.session = Session(directory)
        self.cluster = cluster
        self._slots = slots
        self._codes = {job: SEGMENTATION_FAULT if job % 5 == 4 else job * 7 % 120 for job in range(jobs)}
        self._tally = directory / "tally"
        self._killed = 0
        self._over = threading.Event()
        threading.Thread(target=self._administer, daemon=True).start()
        self._found_by = {name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")}
        self.session.write(
            *(self.session.told(job, f"sleep {seconds}; {_ending(code)}") for job, code in self._codes.items())
        )

    def owner(self, orders: dict[str, Any] | None = None) -> Process:
        words = [] if self._loaded() else ["jobs.txt"]
        env = {"VICTIM": json.dumps({**(orders or {}), "tally": str(self._tally)}), **self._found_by}
        return self.session.start("--pause-after", "0", *words, program=VICTIM, gpus=f"slurm:{self._slots}", env=env)

    def dies_at(self, step: str, nth: int = 1) -> bool:
        """Whether an owner killed itself at this step; one that never came to it leaves by itself."""
        owner = self.owner({"step": step, "nth": nth})
        _, err = owner.communicate(timeout=SLOWEST)
        assert owner.returncode in (0, 1, -9), err
        assert "Traceback" not in err, err
        self._killed += owner.returncode == -9
        return owner.returncode == -9

    def kill(self, owner: Process) -> None:
        owner.kill()
        owner.communicate()
        self._killed += 1

    def await_runs(self, count: int) -> None:
        until(lambda: sum(self.session.runs().values()) >= count, f"{count} jobs have begun", seconds=SLOWEST)

    def finish(self, owner: Process | None = None) -> SlurmTally:
        """The rest runs in peace."""
        deadline = time.monotonic() + SLOWEST
        while owner is not None or not self._drained():
            owner = owner or self.owner()
            _, err = owner.communicate(timeout=max(1.0, deadline - time.monotonic()))
            assert owner.returncode in (0, 1), f"{owner.pid}: {err}"
            assert "Traceback" not in err, err
            owner = None
        self._over.set()
        return self._judge()

    def _administer(self) -> None:
        """A controller that lost its state gives numbers twice, and closes the nodes where it notices: Slurm waits for
        its admin then."""
        while not self._over.wait(2.0):
            for line in self.cluster._try("sinfo", "-hN", "-o", "%N %t").splitlines():
                name, state = line.split()
                if state.startswith(("drain", "drng")):
                    self.cluster._try("scontrol", "update", f"node={name}", "state=resume")

    def _loaded(self) -> bool:
        return self.session.database.exists() and bool(self.session.jobs())

    def _drained(self) -> bool:
        return self._loaded() and all(isinstance(job.state, Ended) for job in self.session.jobs())

    def _judge(self) -> SlurmTally:
        runs: Counter[str] = self.session.runs()
        counts = Counter(min(2, runs[str(job)]) for job in self._codes)
        tally = SlurmTally(len(self._codes), counts[1], counts[2], counts[0], self._killed)
        for job in self.session.jobs():
            code, ran = self._codes[job.id], runs[str(job.id)]
            codes = [attempt.exit_code for attempt in job.attempts]
            if isinstance(job.state, Lost):
                tally.lost.append(f"#{job.id}: {job.state.why}")
                if ran > 1:
                    tally.wrong.append(f"#{job.id} is lost and ran {ran} times")
            elif (ran, codes) != (1, [code]):
                tally.wrong.append(f"#{job.id}: {job.state}: {ran} runs, codes {codes} instead of {code}")
        return tally


def test_an_owner_killed_at_every_step_loses_and_doubles_nothing(slurm: Cluster, tmp_path: Path) -> None:
    drill = SlurmDrill(tmp_path, slurm, jobs=26, slots=6)
    died = [step for step in Step if drill.dies_at(step, nth=1 if step is Step.RECOVERY_BEGUN else 2)]
    tally = drill.finish()
    assert tally.wrong == []
    assert tally.lost == []
    assert {Step.COMMITTED, Step.SPAWNED, Step.WATCHED, Step.END_SEEN, Step.CLAIM_REMOVED} <= set(died)


def rough_weather(drill: SlurmDrill, jobs: int, kills: int, seed: int = 1) -> SlurmTally:
    """The controller is killed and restarted, then a node's daemon, and the owner again and again meanwhile."""
    chance, cluster = random.Random(seed), drill.cluster
    owner = drill.owner()
    for number in range(kills):
        drill.await_runs(jobs * (number + 1) // (kills + 2))
        if number == 0:
            cluster.kill_controller()
        elif number == 1:
            cluster.kill_node("n2")
        time.sleep(chance.uniform(0.0, 0.5))  # the moment of a kill is anybody's
        drill.kill(owner)
        owner = drill.owner()
        if number == 0:
            cluster.start_controller()
            until(cluster.listening, "the controller answers")
        elif number == 1:
            cluster.start_node("n2")
    return drill.finish(owner)


def test_no_job_runs_twice_when_the_controller_a_node_and_the_owner_are_killed(slurm: Cluster, tmp_path: Path) -> None:
    tally = rough_weather(SlurmDrill(tmp_path, slurm, jobs=40, slots=12), 40, kills=2)
    assert tally.wrong == []
    assert all(words.partition(": ")[2] for words in tally.lost)


@pytest.mark.long
def test_three_hundred_jobs_outlive_the_controller_a_node_and_five_owners(slurm: Cluster, tmp_path: Path) -> None:
    tally = rough_weather(SlurmDrill(tmp_path, slurm, jobs=300, slots=24, seconds=0.5), 300, kills=5)
    print(tally)
    assert tally.wrong == []
    assert tally.owners_killed == 5


def test_a_job_is_retried_after_a_node_failure_only_if_it_asked_for_it(slurm: Cluster, tmp_path: Path) -> None:
    session = Session(tmp_path)
    first_stays = '[ "$GPUTUI_ATTEMPT" != 1 ] || exec sleep 600'
    session.write("#: retry_on=node", session.told("asked", first_stays), "#:", session.told("did-not", first_stays))
    owner = session.start("jobs.txt", gpus="slurm:2")
    until(lambda: sum(session.runs().values()) == 2, "both run")
    owner.kill()
    owner.communicate()
    # The owner is gone when the node goes, as is likely: it may well be the node that fails.
    nodes = {
        begun.node
        for job in (0, 1)
        if (begun := Claims(str(session.claims_directory)).read_file(job, 1).begun) is not None
    }
    for node in nodes:
        slurm.ask("scontrol", "update", f"node={node}", "state=down", "reason=broken fan")
    done = session.run(gpus="slurm:2")
    assert done.returncode == 1, done.stderr
    assert session.runs() == {"asked": 2, "did-not": 1}, [job.attempts for job in session.jobs()]
    asked, did_not = session.jobs()
    assert isinstance(asked.state, Succeeded)
    assert isinstance(did_not.state, Lost)
    assert "failed or was closed" in did_not.state.why
    assert "failed or was closed" in str(asked.attempts[0].end)
