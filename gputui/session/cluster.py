"""Checks of a Slurm cluster before a session that uses it is opened."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from gputui.core.slots import NodeSize
from gputui.engines.slurm.client import NoSlurm, SlurmCommands, SlurmError, SlurmRefused, SlurmSilent
from gputui.engines.slurm.messages import LATER, OURS, sbatch_options
from gputui.engines.slurm.parse import largest
from gputui.gpus.slots import MOST_IN_SLURM

PATIENCE = 12.0
"""Seconds to wait for the Slurm controller."""


class ClusterError(Exception):
    """Raised when the cluster cannot be used. The message is shown to the user."""


class ClusterLimits(Struct, frozen=True):
    most_jobs: int = MOST_IN_SLURM
    """Maximum number of jobs that one user may have in the cluster at the same time."""
    largest: NodeSize | None = None
    trouble: str = ""
    """Reason why the cluster did not answer, or an empty string if it did."""


def inspect_cluster(options: Mapping[str, Any]) -> ClusterLimits:
    """Return the cluster's limits. Raise ClusterError if there is no cluster or if it lacks something that the options
    name, such as a partition.
    """
    _check_options(options.get("sbatch_opt") or ())
    commands = SlurmCommands(patience=PATIENCE)
    try:
        partitions = commands.run("sinfo", "-h", "-o", "%R").split()
        for name in (options.get("partition") or "").split(","):
            if name and name not in partitions:
                known = ", ".join(dict.fromkeys(partitions))
                raise ClusterError(f"no partition {name}; available: {known}")
        most = largest(commands.nodes())
        _try_out(commands, options)
        return ClusterLimits(_most_jobs(commands), NodeSize(most.name, most.gpus) if most is not None else None)
    except NoSlurm as error:
        raise ClusterError(f"--gpus slurm: {error}") from None
    except SlurmSilent as error:
        return ClusterLimits(trouble=f"{error}: jobs wait until it responds")
    except SlurmRefused as error:
        raise ClusterError(f"rejected by Slurm: {error}") from None


def _check_options(written: tuple[str, ...]) -> None:
    for option in written:
        name = option.partition("=")[0]
        if not option.startswith("-") or name in OURS:
            why = "set by gputui" if name in OURS else "not an option: use --sbatch-opt=--mem=16G"
            raise ClusterError(f"--sbatch-opt {option}: {why}")


def _try_out(commands: SlurmCommands, options: Mapping[str, Any]) -> None:
    """Ask Slurm whether it would accept a job with these options. Raise SlurmRefused if it would not, unless it may
    accept the same job later.
    """
    try:
        commands.run("sbatch", "--test-only", *sbatch_options(options), "--output=/dev/null", "--wrap", "true")
    except SlurmRefused as error:
        if not any(words in error.words.lower() for words in LATER):
            raise


def _most_jobs(commands: SlurmCommands) -> int:
    limits = [MOST_IN_SLURM]
    limits += _numbers(commands.settings().get("MaxJobCount", ""))
    user = pwd.getpwuid(os.geteuid()).pw_name
    question = ("show", "assoc", f"user={user}", "format=MaxSubmitJobs")
    with suppress(SlurmError):  # without accounting there is no limit
        limits += _numbers(commands.run("sacctmgr", "-n", "-P", *question))
    return max(1, min(limits))


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]
