"""The cluster as a session is opened on it: whether it is there, has what is named, and how many jobs it takes."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from gputui.core.lanes import NodeSize
from gputui.engines.slurm.client import NoSlurm, SlurmCommands, SlurmError, SlurmRefused, SlurmSilent
from gputui.engines.slurm.messages import LATER, OURS, wished
from gputui.engines.slurm.parse import largest
from gputui.gpus.lanes import MOST_IN_SLURM

PATIENCE = 12.0
"""Seconds that somebody at a terminal waits for a controller."""


class ClusterError(Exception):
    """The message is the sentence the user reads."""


class ClusterAsFound(Struct, frozen=True):
    most_jobs: int = MOST_IN_SLURM
    """At once, for one user."""
    largest: NodeSize | None = None
    trouble: str = ""
    """Why nothing could be asked, in words."""


def inspected(options: Mapping[str, Any]) -> ClusterAsFound:
    """Raises ClusterError where the cluster is not there, or does not have what the options name."""
    _check_options(options.get("sbatch_opt") or ())
    commands = SlurmCommands(patience=PATIENCE)
    try:
        partitions = commands.run("sinfo", "-h", "-o", "%R").split()
        _check_partition(options.get("partition"), partitions)
        most = largest(commands.nodes())
        _try_out(commands, options)
        return ClusterAsFound(_most_jobs(commands), NodeSize(most.name, most.gpus) if most is not None else None)
    except NoSlurm as error:
        raise ClusterError(f"--gpus slurm: {error}") from None
    except SlurmSilent as error:
        return ClusterAsFound(trouble=f"{error}: jobs wait until it does")
    except SlurmRefused as error:
        raise ClusterError(f"Slurm refuses: {error}") from None


def _check_options(written: tuple[str, ...]) -> None:
    for option in written:
        name = option.partition("=")[0]
        if not option.startswith("-") or name in OURS:
            why = "gputui sets it itself" if name in OURS else "it is no option: write --sbatch-opt=--mem=16G"
            raise ClusterError(f"--sbatch-opt {option}: {why}")


def _check_partition(named: str | None, partitions: list[str]) -> None:
    for name in (named or "").split(","):
        if name and name not in partitions:
            raise ClusterError(f"the cluster has no partition {name}; it has {', '.join(dict.fromkeys(partitions))}")


def _try_out(commands: SlurmCommands, options: Mapping[str, Any]) -> None:
    """Slurm itself says whether it takes such jobs, without one being submitted."""
    try:
        commands.run("sbatch", "--test-only", *wished(options), "--output=/dev/null", "--wrap", "true")
    except SlurmRefused as error:
        if not any(words in error.words.lower() for words in LATER):
            raise


def _most_jobs(commands: SlurmCommands) -> int:
    limits = [MOST_IN_SLURM]
    limits += _numbers(commands.settings().get("MaxJobCount", ""))
    user = pwd.getpwuid(os.geteuid()).pw_name
    question = ("show", "assoc", f"user={user}", "format=MaxSubmitJobs")
    with suppress(SlurmError):  # without accounting there is no such limit
        limits += _numbers(commands.run("sacctmgr", "-n", "-P", *question))
    return max(1, min(limits))


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]
