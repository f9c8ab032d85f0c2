"""The command lines by which attempts are submitted, signalled and cancelled."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import msgspec

from gputui.core.events import NoRoom, NotStarted
from gputui.engines.protocol import Launch

from . import supervisor
from .attempt import BatchAttempt
from .client import Errands, NoSlurm, SlurmCommands, SlurmError, SlurmRefused, SlurmSilent, command_environment, trouble
from .messages import LATER, minutes, wished
from .parse import SlurmJob, submitted_id
from .supervisor import KILL_SIGNAL

# ---- Giving an attempt to Slurm ----


PATIENCE = 30.0
"""Seconds for one submission."""
_COMMENT, _NAME = "gputui:", "gputui-"
_OWN_GPUS = ("--gres", "--gpus", "-G")


def job_name(token: str) -> str:
    return _NAME + token


def token_of(job: SlurmJob) -> str | None:
    """Some clusters overwrite comments, and people rename jobs: either will do."""
    if job.comment.startswith(_COMMENT):
        return job.comment.removeprefix(_COMMENT)
    return job.name.removeprefix(_NAME) if job.name.startswith(_NAME) else None


def words(launch: Launch, token: str, *, has_gpus: bool = True) -> list[str]:
    """Options of the user's own come first, so that none of them takes the attempt from us."""
    wishes = msgspec.structs.asdict(launch.wishes)
    options = {
        "time": minutes(launch.timeout) if launch.timeout is not None else "",
        "gres": _gres(launch, has_gpus=has_gpus),
        "nodes": "1",
        "job-name": job_name(token),
        "comment": _COMMENT + token,
        "chdir": "/",
        "output": "/dev/null",
        "error": "/dev/null",
    }
    return [*wished(wishes), *(f"--{name}={value}" for name, value in options.items() if value), "--no-requeue"]


def _gres(launch: Launch, *, has_gpus: bool) -> str:
    gpus = int(has_gpus) if launch.gpus is None else launch.gpus
    named_otherwise = launch.gpus is None and any(option.startswith(_OWN_GPUS) for option in launch.wishes.sbatch_opt)
    return f"gpu:{gpus}" if gpus and not named_otherwise else ""


def submit(launch: Launch, token: str, folder: str, *, has_gpus: bool = True) -> int:
    """The number of the new job. Raises SlurmSilent where it may be there all the same, and SlurmRefused.

    The environment is given by a descriptor of memory: it touches no disk of ours, and no list of processes.
    """
    environment = command_environment(os.environ)
    path = shutil.which("sbatch", path=environment.get("PATH"))
    if path is None:
        raise NoSlurm("there is no sbatch here: log in to a machine of the cluster, or load its Slurm module")
    travelling = os.memfd_create("gputui-environment", os.MFD_CLOEXEC)
    try:
        _fill(travelling, supervisor.variables(launch, token, folder))
        options = [f"--export-file={travelling}", *words(launch, token, has_gpus=has_gpus)]
        return _submitted([path, "--parsable", *options], travelling, environment)
    finally:
        os.close(travelling)


def _fill(travelling: int, variables: Mapping[str, str]) -> None:
    content = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables.items())
    with os.fdopen(os.dup(travelling), "wb") as file:
        file.write(content)
    os.lseek(travelling, 0, os.SEEK_SET)


def _submitted(command: list[str], travelling: int, environment: Mapping[str, str]) -> int:
    try:
        done = subprocess.run(
            command, input=supervisor.TEXT, env=environment, capture_output=True, encoding="utf-8", errors="replace",
            timeout=PATIENCE, pass_fds=(travelling,), start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SlurmSilent(f"sbatch did not answer in {PATIENCE:.0f} s") from None
    except OSError as error:
        raise SlurmSilent(f"sbatch could not be started: {error.strerror}") from None
    if done.returncode != 0:
        raise trouble("sbatch", done.stderr or done.stdout)
    number = submitted_id(done.stdout)
    if number is None:
        raise SlurmSilent(f"sbatch gave no number: {done.stdout.strip() or 'nothing'}")
    return int(number)


def meaning_of(refused: SlurmRefused) -> NoRoom | NotStarted:
    said = refused.words.lower()
    return NoRoom(str(refused)) if any(words in said for words in LATER) else NotStarted(str(refused))


# ---- Orders to Slurm about attempts, by the name that bears their token ----


class Orders:
    """None of them waits, and none says whether it was heard: what is not carried out is ordered again."""

    KILL_AFTER = 4.0
    """Seconds that a supervisor has to kill its tree."""
    AGAIN_AFTER = 6.0

    def __init__(self, commands: SlurmCommands, errands: Errands) -> None:
        self.errands = errands
        self._commands = commands
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self._cancelled: set[str] = set()
        self._ended: set[str] = set()

    def terminate(self, attempt: BatchAttempt) -> None:
        """A stopped supervisor would not hear it."""
        self._signal(attempt, "--batch", "TERM")
        if attempt.suspended:
            self._signal(attempt, "--full", "CONT")

    def kill(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--batch", str(KILL_SIGNAL))
        if attempt.suspended:
            self._signal(attempt, "--full", "CONT")

    def kill_supervisor(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--batch", "KILL")

    def suspend(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--full", "STOP")

    def go_on(self, attempt: BatchAttempt) -> None:
        self._signal(attempt, "--full", "CONT")

    def cancel(self, numbers: list[str]) -> None:
        """Of jobs that Slurm has just listed with our tokens and that are not to begin."""
        fresh = [number for number in numbers if number not in self._cancelled]
        self._cancelled = set(numbers)
        if fresh:
            self.errands.add(partial(self._cancel, fresh))

    def _cancel(self, numbers: list[str]) -> None:
        """What was not heard is ordered again when it is listed again."""
        try:
            self._commands.cancel(*numbers)
        except SlurmError:
            self._cancelled = self._cancelled.difference(numbers)

    def cancel_ended(self, tokens: set[str]) -> None:
        """Of attempts that have ended and that Slurm lists as running. By name: numbers may be used again."""
        for token in tokens - self._ended:
            self.errands.add(partial(self._run, "-u", self.user, "-n", job_name(token)))
        self._ended = tokens

    def _signal(self, attempt: BatchAttempt, reach: str, name: str) -> None:
        self.errands.add(partial(self._run, reach, "-s", name, "-u", self.user, "-n", job_name(attempt.token)))

    def _run(self, *words: str) -> None:
        with suppress(SlurmError):
            self._commands.cancel(*words)
