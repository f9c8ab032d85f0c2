"""Giving an attempt to Slurm: the words of sbatch, the environment that travels with it, and what a refusal means."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Mapping

import msgspec

from gputui.core.events import NoRoom, NotStarted
from gputui.engines.protocol import Launch

from . import supervisor
from .answers import SlurmJob, submitted_id
from .commands import NoSlurm, SlurmRefused, SlurmSilent, command_environment, trouble
from .options import LATER, minutes, wished

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
        **_sizes(launch, has_gpus=has_gpus),
        "nodes": "1",
        "job-name": job_name(token),
        "comment": _COMMENT + token,
        "chdir": "/",
        "output": "/dev/null",
        "error": "/dev/null",
    }
    return [*wished(wishes), *(f"--{name}={value}" for name, value in options.items() if value), "--no-requeue"]


def _sizes(launch: Launch, *, has_gpus: bool) -> Mapping[str, str]:
    gpus = int(has_gpus) if launch.gpus is None else launch.gpus
    named_otherwise = launch.gpus is None and any(option.startswith(_OWN_GPUS) for option in launch.wishes.sbatch_opt)
    memory = math.ceil(launch.memory * max(1, gpus) / 2**20) if launch.memory is not None else 0
    return {
        "gres": f"gpu:{gpus}" if gpus and not named_otherwise else "",
        "mem": f"{memory}M" if memory else "",
    }


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
