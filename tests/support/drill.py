"""The drill: jobs that each leave a unique line and their own exit code, an owner that is killed again and again.

When the queue is drained everything is counted. Each job must have run exactly once, ended with its own code, left
the right marker, and nothing of it may be alive or claimed.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gputui.core.job import Ended

from .sessions import VICTIM, Process, Session
from .waiting import PATIENCE, until

LATE = 25
"""Hundredths of a second that a late wrapper may take before it claims."""

ONLY_WITH_KILLS = ("step", "probability", "too_late")
"""Wrappers that wait for somebody else's claim would wait for ever under an owner that lives on."""


@dataclass
class Tally:
    """What a drill came to."""

    jobs: int = 0
    kills: int = 0
    points: Counter[str] = field(default_factory=Counter)
    """At which steps the owner killed itself."""
    reissued: int = 0
    """Attempts that were revoked before they ran and given out anew."""
    wrong: list[str] = field(default_factory=list)
    """Each thing that contradicts a promise."""

    def __iadd__(self, other: Tally) -> Tally:
        self.jobs += other.jobs
        self.kills += other.kills
        self.points += other.points
        self.reissued += other.reissued
        self.wrong += other.wrong
        return self


class Drill:
    """`orders` are the victim's, for as long as `kills` have not happened; then the rest runs in peace."""

    def __init__(self, folder: Path, jobs: int, orders: dict[str, Any], most_kills: int, seed: int = 0) -> None:
        self.session = Session(folder)
        self._chance = random.Random(seed)
        self._tally_file = folder / "tally"
        self._orders = {**orders, "tally": str(self._tally_file)}
        self._most_kills = most_kills
        self._external = 0
        self._codes = {job: job * 7 % 256 for job in range(jobs)}
        self.session.write(*(self._command(job, code) for job, code in self._codes.items()))

    def _command(self, job: int, code: int) -> str:
        return self.session.told(job, f"sleep 0.0{self._chance.randint(0, 6)}; exit {code}")

    @property
    def kills(self) -> int:
        return self._external + len(self._points())

    def run(self, *, shoot: float = 0.0) -> Tally:
        """`shoot`: the longest time after which the owner is killed from outside."""
        deadline = time.monotonic() + PATIENCE * 3
        while self.one_owner(shoot) or not self._drained():
            assert time.monotonic() < deadline, "the queue is not drained"
        until(lambda: not self.session.processes(), "late wrappers have met their revocation")
        return self._judge()

    def one_owner(self, shoot: float = 0.0) -> bool:
        """Whether it was killed."""
        words = [] if self._loaded() else ["jobs.txt"]
        orders = dict(self._orders) if self.kills < self._most_kills else {}
        # Late wrappers and shared claims stay when the kills are over.
        orders |= {key: value for key, value in self._orders.items() if key not in ONLY_WITH_KILLS}
        owner = self.session.start("--pause-after", "0", *words, program=VICTIM, gpus="0,1,2,3", env=_env(orders))
        if shoot and self.kills < self._most_kills:
            self._shoot(owner, self._chance.uniform(0.0, shoot))
        _, err = owner.communicate()
        assert owner.returncode in (0, 1, -9), err
        assert "Traceback" not in err, err
        return owner.returncode == -9

    def _shoot(self, owner: Process, after: float) -> None:
        try:
            owner.wait(after)
        except subprocess.TimeoutExpired:
            owner.kill()
            self._external += 1

    def _loaded(self) -> bool:
        return self.session.database.exists() and bool(self.session.jobs())

    def _drained(self) -> bool:
        return self._loaded() and all(isinstance(job.state, Ended) for job in self.session.jobs())

    def _points(self) -> list[str]:
        return self._tally_file.read_text().splitlines() if self._tally_file.exists() else []

    def _judge(self) -> Tally:
        jobs = self.session.jobs()
        tally = Tally(len(jobs), self.kills, Counter(self._points()))
        tally.reissued = sum(job.issued - len(job.attempts) for job in jobs)
        runs = self.session.runs()
        if len(jobs) != len(self._codes):
            tally.wrong.append(f"{len(jobs)} jobs instead of {len(self._codes)}")
        for job in jobs:
            code = self._codes[job.id]
            marker = ["FAILURE" if code else "SUCCESS"]
            facts = (runs[str(job.id)], [past.exit_code for past in job.attempts], self.session.markers(job.id))
            if facts != (1, [code], marker):
                tally.wrong.append(f"#{job.id}: runs, codes, markers = {facts}, but should be {(1, [code], marker)}")
        if claims := self.session.claims():
            tally.wrong.append(f"claims left: {claims}")
        return tally


def _env(orders: dict[str, Any]) -> dict[str, str]:
    return {"VICTIM": json.dumps(orders)}
