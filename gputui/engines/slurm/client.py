"""Runs Slurm's commands, one after the other, and reports what went wrong."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from gputui.process.watch import begin

from .messages import refusal
from .parse import (
    BUSY_FORMAT,
    ENDED_FIELDS,
    QUEUE_FORMAT,
    BusyJob,
    SlurmEnd,
    SlurmJob,
    SlurmNode,
    busy,
    details,
    ended,
    nodes,
    parse_queue,
    settings,
    submitted_id,
    version,
)

# ---- Runs Slurm's command line and says what went wrong when it does not answer ----


PATIENCE = 20.0
"""Seconds: a controller that is dead is given up by Slurm itself after 9 or more."""
OLDEST = (21, 8)
"""The oldest Slurm whose answers we know."""
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER")
_STEERING = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_", "SCONTROL_", "SLURMD_")
_NOBODY_ANSWERS = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Connection timed out",
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Unexpected message received",
    "Slurm controller not responding",
    "Transport endpoint",
    "backup controller",
    "Slurm temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Communication connection failure",
    "Protocol authentication error",
    "Munge",
)


class SlurmError(Exception):
    """A command failed; the message is a sentence for the user."""


class NoSlurm(SlurmError):
    """There is no such program here."""


class SlurmSilent(SlurmError):
    """Nobody answers now: what was asked may or may not have been done."""


class SlurmRefused(SlurmError):
    """Slurm answered and will not. `words` are its own."""

    def __init__(self, sentence: str, words: str) -> None:
        super().__init__(sentence)
        self.words = words


class SlurmCommands:
    """`environment`: of whoever works with the cluster; what would steer Slurm's commands otherwise is left out."""

    def __init__(self, environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> None:
        self._environment = command_environment(os.environ if environment is None else environment)
        self._patience = patience

    def run(self, program: str, *words: str, patience: float | None = None) -> str:
        """What it printed. Raises NoSlurm, SlurmSilent or SlurmRefused."""
        path = shutil.which(program, path=self._environment.get("PATH"))
        if path is None:
            raise NoSlurm(f"there is no {program} here: log in to a machine of the cluster, or load its Slurm module")
        try:
            done = subprocess.run(
                [path, *words], env=self._environment, stdin=subprocess.DEVNULL, capture_output=True,
                encoding="utf-8", errors="replace", timeout=patience or self._patience, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise SlurmSilent(f"{program} did not answer in {error.timeout:.0f} s") from None
        except OSError as error:
            raise SlurmSilent(f"{program} could not be started: {error.strerror}") from None
        if done.returncode != 0:
            raise trouble(program, done.stderr or done.stdout)
        return done.stdout

    # Questions

    def version(self) -> tuple[int, int] | None:
        return version(self.run("sbatch", "--version"))

    def queue(self, user: str) -> list[SlurmJob]:
        """All jobs of a user that Slurm still lists, ended ones too, in one question."""
        return parse_queue(self.run("squeue", "-h", "-r", "-t", "all", "-u", user, "-o", QUEUE_FORMAT))

    def busy(self) -> list[BusyJob]:
        """The running jobs of everybody whose jobs we may see."""
        return busy(self.run("squeue", "-h", "-r", "-t", "R,CG,S", "-o", BUSY_FORMAT))

    def details(self, *jobs: str) -> list[SlurmEnd]:
        """Where jobs are; none given: all. One that Slurm has forgotten is missing."""
        try:
            return details(self.run("scontrol", "-o", "show", "job", "-d", *jobs))
        except SlurmRefused as error:
            if "Invalid job id" in error.words:
                return []
            raise

    def nodes(self) -> list[SlurmNode]:
        return nodes(self.run("scontrol", "-o", "show", "node", "-d"))

    def ended(self, jobs: Sequence[str]) -> list[SlurmEnd]:
        """From the accounting; nothing where there is none."""
        try:
            text = self.run("sacct", "-n", "-P", "-X", "-j", ",".join(jobs), "-o", ENDED_FIELDS)
        except (NoSlurm, SlurmRefused):
            return []
        return ended(text)

    def last_words(self, job: int, token: str) -> SlurmEnd | None:
        """What Slurm or its accounting knows of the end of a job that bears this token: numbers are used again."""
        try:
            ends = [*self.details(str(job)), *self.ended([str(job)])]
        except SlurmError:
            return None
        return next((end for end in ends if _bears(end, token)), None)

    def node(self, name: str) -> SlurmNode | None:
        """None: it cannot be said."""
        try:
            return next(iter(nodes(self.run("scontrol", "-o", "show", "node", "-d", name))), None)
        except SlurmError:
            return None

    def default_partition(self) -> str | None:
        """The one that a job gets which names none."""
        names = self.run("sinfo", "-h", "-o", "%P").split()
        return next((name.rstrip("*") for name in names if name.endswith("*")), None)

    def settings(self) -> dict[str, str]:
        return settings(self.run("scontrol", "show", "config"))

    # Orders

    def submit(self, *words: str, patience: float | None = None) -> str:
        """Returns the number of the new job. SlurmSilent: it may be there all the same."""
        text = self.run("sbatch", "--parsable", *words, patience=patience)
        number = submitted_id(text)
        if number is None:
            raise SlurmSilent(f"sbatch gave no number: {text.strip() or 'nothing'}")
        return number

    def cancel(self, *words: str) -> None:
        """A job that is over is no trouble."""
        try:
            self.run("scancel", *words)
        except SlurmRefused as error:
            if not any(said in error.words for said in ("Invalid job id", "already completing", "already completed")):
                raise


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Times in seconds, messages in English, and nothing that changes what a command prints or asks for."""
    harmless = {key: value for key, value in environment.items() if key in _KEPT or not key.startswith(_STEERING)}
    return {**harmless, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


def _bears(end: SlurmEnd, token: str) -> bool:
    return token in (end.comment.rpartition(":")[2], end.name.partition("-")[2])


def trouble(program: str, said: str) -> SlurmError:
    """The error that a failed command's words are."""
    if any(words in said for words in _NOBODY_ANSWERS):
        return SlurmSilent(f"Slurm's controller does not answer ({last_line(said)})")
    return SlurmRefused(refusal(program, said), said)


def last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("sbatch: ").removeprefix("error: ") if lines else "it said nothing"


# ---- A thread that does one errand after the other, in the order they came ----


class Errands:
    """What is left when it is closed is not done."""

    PATIENCE = 2.0
    """Seconds that closing waits for the errand under way."""

    def __init__(self, name: str) -> None:
        self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = begin(self._work, name)

    def add(self, errand: Callable[[], None]) -> None:
        self._errands.put(errand)

    def close(self) -> None:
        self._closed = True
        self._errands.put(None)
        self._thread.join(self.PATIENCE)

    def _work(self) -> None:
        while (errand := self._errands.get()) is not None and not self._closed:
            errand()
