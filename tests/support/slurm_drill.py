"""Jobs in a real cluster that each leave a line and their own exit code, while owners, controller and nodes are killed.

When the queue is drained everything is counted: each ran once and ended with its code, or is lost with a reason.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gputui.core.job import Ended, Lost

from .sessions import VICTIM, Process, Session
from .slurm_cluster import Cluster
from .waiting import until


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


SEGMENTATION_FAULT = 128 + signal.SIGSEGV


def _ending(code: int) -> str:
    return "kill -SEGV $$" if code == SEGMENTATION_FAULT else f"exit {code}"


class SlurmDrill:
    def __init__(self, folder: Path, cluster: Cluster, jobs: int, lanes: int, seconds: float = 0.3) -> None:
        self.session = Session(folder)
        self.cluster = cluster
        self._lanes = lanes
        self._codes = {job: SEGMENTATION_FAULT if job % 5 == 4 else job * 7 % 120 for job in range(jobs)}
        self._tally = folder / "tally"
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
        return self.session.start("--pause-after", "0", *words, program=VICTIM, gpus=f"slurm:{self._lanes}", env=env)

    def dies_at(self, step: str, nth: int = 1) -> bool:
        """Whether an owner killed itself at this step; one that never came to it leaves by itself."""
        owner = self.owner({"step": step, "nth": nth})
        _, err = owner.communicate(timeout=120)
        assert owner.returncode in (0, 1, -9), err
        assert "Traceback" not in err, err
        self._killed += owner.returncode == -9
        return owner.returncode == -9

    def kill(self, owner: Process) -> None:
        owner.kill()
        owner.communicate()
        self._killed += 1

    def await_runs(self, count: int) -> None:
        until(lambda: sum(self.session.runs().values()) >= count, f"{count} jobs have begun", seconds=300)

    def finish(self, owner: Process | None = None, seconds: float = 300) -> SlurmTally:
        """The rest runs in peace."""
        deadline = time.monotonic() + seconds
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
                tally.wrong.append(f"#{job.id}: ran {ran} times with {codes}, but should once with {code}")
        return tally
