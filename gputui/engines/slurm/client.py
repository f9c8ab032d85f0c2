"""Run Slurm's commands and translate their errors."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .messages import last_line, refusal
from .parse import (
    BUSY_FORMAT,
    ENDED_FIELDS,
    QUEUE_FORMAT,
    BusyJob,
    SlurmEnd,
    SlurmJob,
    SlurmNode,
    parse_accounting,
    parse_busy_jobs,
    parse_job_details,
    parse_nodes,
    parse_queue,
    parse_settings,
    parse_submitted_id,
    parse_version,
)

PATIENCE = 20.0
"""Timeout of a command in seconds. Slurm itself waits 9 seconds or more for a dead controller."""
OLDEST = (21, 8)
"""The oldest supported version of Slurm."""
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER")
_STEERING = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_", "SCONTROL_", "SLURMD_")
_NO_ANSWER = (
    "Unable to contact slurm controller",
    *map(os.strerror, (errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE, errno.EHOSTUNREACH)),
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Unexpected message received",
    "Message send failure",
    "Message receive failure",
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
    """A Slurm command failed. The message is shown to the user."""


class NoSlurm(SlurmError):
    """The Slurm program is not installed."""


class SlurmSilent(SlurmError):
    """Slurm did not answer. The request may or may not have been carried out."""


class SlurmRefused(SlurmError):
    """Slurm refused the request. `words` contains Slurm's own message."""

    def __init__(self, sentence: str, words: str) -> None:
        super().__init__(sentence)
        self.words = words


class SlurmCommands:
    """Slurm's command-line tools, run without the variables that would change what they do or print."""

    def __init__(self, environment: Mapping[str, str] | None = None, patience: float = PATIENCE) -> None:
        self._environment = command_environment(os.environ if environment is None else environment)
        self._patience = patience

    def run(self, program: str, *words: str, script: str | None = None, passed: int | None = None) -> str:
        """Run a command that inherits `passed`. Return its output, or raise NoSlurm, SlurmSilent or SlurmRefused."""
        path = shutil.which(program, path=self._environment.get("PATH"))
        if path is None:
            raise NoSlurm(f"{program} not found: log in to a cluster machine or load the Slurm module")
        try:
            done = subprocess.run(
                [path, *words], env=self._environment, input=script or "", capture_output=True, encoding="utf-8",
                errors="replace", timeout=self._patience, pass_fds=() if passed is None else (passed,),
                start_new_session=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise SlurmSilent(f"{program} did not respond within {self._patience:.0f} s") from None
        except OSError as error:
            raise SlurmSilent(f"cannot start {program}: {error.strerror}") from None
        if done.returncode == 0:
            return done.stdout
        said = done.stderr or done.stdout
        if any(words in said for words in _NO_ANSWER):
            raise SlurmSilent(f"Slurm controller not responding ({last_line(said)})")
        raise SlurmRefused(refusal(program, said), said)

    # Queries

    def version(self) -> tuple[int, int] | None:
        return parse_version(self.run("sbatch", "--version"))

    def queue(self, user: str) -> list[SlurmJob]:
        """Return all jobs of a user that Slurm still lists, including ended ones."""
        return parse_queue(self.run("squeue", "-h", "-r", "-t", "all", "-u", user, "-o", QUEUE_FORMAT))

    def busy(self) -> list[BusyJob]:
        """Return the running jobs of all users that Slurm lets this user see."""
        return parse_busy_jobs(self.run("squeue", "-h", "-r", "-t", "R,CG,S", "-o", BUSY_FORMAT))

    def details(self, *jobs: str) -> list[SlurmEnd]:
        """Return the details of all jobs, or of those given jobs that Slurm still knows."""
        try:
            return parse_job_details(self.run("scontrol", "-o", "show", "job", "-d", *jobs))
        except SlurmRefused as error:
            if "Invalid job id" in error.words:
                return []
            raise

    def nodes(self) -> list[SlurmNode]:
        return parse_nodes(self.run("scontrol", "-o", "show", "node", "-d"))

    def ended(self, jobs: Sequence[str]) -> list[SlurmEnd]:
        """Return how the jobs ended according to Slurm's accounting, or nothing if the cluster has none."""
        try:
            text = self.run("sacct", "-n", "-P", "-X", "-j", ",".join(jobs), "-o", ENDED_FIELDS)
        except (NoSlurm, SlurmRefused):
            return []
        return parse_accounting(text)

    def find_end(self, job: int, token: str) -> SlurmEnd | None:
        """Return what Slurm or its accounting knows about the end of a job, or None if they do not know the job.

        Raises SlurmSilent if the controller does not answer. The token is compared because job ids are reused.
        """
        ends = self.details(str(job))
        with suppress(SlurmSilent):  # if the accounting is down for days, the end is decided without it
            ends += self.ended([str(job)])
        return next(
            (end for end in ends if token in (end.comment.rpartition(":")[2], end.name.partition("-")[2])), None
        )

    def node(self, name: str) -> SlurmNode | None:
        """Return the state of a node, or None if Slurm does not know it. Raises SlurmSilent if there is no answer."""
        try:
            return next(iter(parse_nodes(self.run("scontrol", "-o", "show", "node", "-d", name))), None)
        except SlurmRefused:
            return None

    def default_partition(self) -> str | None:
        names = self.run("sinfo", "-h", "-o", "%P").split()
        return next((name.rstrip("*") for name in names if name.endswith("*")), None)

    def settings(self) -> dict[str, str]:
        return parse_settings(self.run("scontrol", "show", "config"))

    # Orders

    def submit(self, *words: str, script: str | None = None, passed: int | None = None) -> str:
        """Submit a job and return its id. The job may exist even if SlurmSilent is raised."""
        text = self.run("sbatch", "--parsable", *words, script=script, passed=passed)
        number = parse_submitted_id(text)
        if number is None:
            raise SlurmSilent(f"sbatch returned no job id: {text.strip() or 'nothing'}")
        return number

    def cancel(self, *words: str) -> None:
        """Cancel jobs with scancel. It is not an error if they have already ended."""
        try:
            self.run("scancel", *words)
        except SlurmRefused as error:
            if not any(said in error.words for said in ("Invalid job id", "already completing", "already completed")):
                raise


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Slurm's commands obey no variables and print English text and times in seconds."""
    harmless = {key: value for key, value in environment.items() if key in _KEPT or not key.startswith(_STEERING)}
    return {**harmless, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
