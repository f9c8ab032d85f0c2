"""Submit attempts to Slurm, with sbatch's options, the environment, and the token that identifies the job."""

from __future__ import annotations

import os

import msgspec

from gputui.core.events import NoRoom, NotStarted
from gputui.engines.protocol import Launch

from . import supervisor
from .client import SlurmCommands, SlurmRefused
from .messages import LATER, minutes, sbatch_options
from .parse import SlurmJob

PATIENCE = 30.0
"""Timeout in seconds for one submission."""
_COMMENT, _NAME = "gputui:", "gputui-"
_OWN_GPUS = ("--gres", "--gpus", "-G")


def job_name(token: str) -> str:
    return _NAME + token


def token_of(job: SlurmJob) -> str | None:
    """Return the token of a job from its comment or its name.

    Both are checked because some clusters overwrite comments and users can rename jobs.
    """
    if job.comment.startswith(_COMMENT):
        return job.comment.removeprefix(_COMMENT)
    return job.name.removeprefix(_NAME) if job.name.startswith(_NAME) else None


def submit(launch: Launch, token: str, directory: str, *, has_gpus: bool = True) -> int:
    """Submit an attempt and return the id of the new job.

    Raises SlurmRefused, or SlurmSilent, after which the job may exist nevertheless. The environment is passed in memory
    so that it appears neither on disk nor in the process list.
    """
    variables = supervisor.variables(launch, token, directory).items()
    with open(os.memfd_create("gputui-environment", os.MFD_CLOEXEC), "wb") as memory:
        memory.write(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in variables))
        memory.seek(0)
        words = [f"--export-file={memory.fileno()}", *_options(launch, token, has_gpus=has_gpus)]
        return int(SlurmCommands(patience=PATIENCE).submit(*words, script=supervisor.TEXT, passed=memory.fileno()))


def _options(launch: Launch, token: str, *, has_gpus: bool) -> list[str]:
    """Return the options for sbatch. The user's options come first so that gputui's options override them."""
    gpus = int(has_gpus) if launch.gpus is None else launch.gpus
    if launch.gpus is None and any(option.startswith(_OWN_GPUS) for option in launch.cluster_options.sbatch_opt):
        gpus = 0
    options = {
        "time": minutes(launch.timeout) if launch.timeout is not None else "",
        "gres": f"gpu:{gpus}" if gpus else "",
        "nodes": "1",
        "job-name": job_name(token),
        "comment": _COMMENT + token,
        "chdir": "/",
        "output": "/dev/null",
        "error": "/dev/null",
    }
    given = sbatch_options(msgspec.structs.asdict(launch.cluster_options))
    return [*given, *(f"--{name}={value}" for name, value in options.items() if value), "--no-requeue"]


def refusal_outcome(refused: SlurmRefused) -> NoRoom | NotStarted:
    said = refused.words.lower()
    return NoRoom(str(refused)) if any(words in said for words in LATER) else NotStarted(str(refused))
