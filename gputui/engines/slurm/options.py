"""What a session may want of sbatch, and what Slurm's refusals of it mean: pure, and light for whoever only checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

LATER = (
    "jobs in this qos or account", "maximum number of jobs", "violates accounting/qos policy", "temporarily",
    "node configuration is not available", "required partition not available", "partition is down",
)  # fmt: skip
"""What Slurm says when the same job may be taken later."""
OURS = (
    "-J", "--job-name", "--comment", "-o", "--output", "-e", "--error", "-D", "--chdir", "-a", "--array", "--export",
    "--export-file", "--requeue", "--wrap", "--parsable", "--test-only", "-N", "--nodes", "-W", "--wait", "-H",
    "--hold", "-i", "--input", "-d", "--dependency", "-M", "--clusters", "-Q", "--quiet", "-v", "--verbose", "-h",
    "--help",
)  # fmt: skip
"""Options by which an attempt would not be ours any more, or not one."""


def wished(options: Mapping[str, Any]) -> list[str]:
    """What a session wants of the cluster, by the names of its settings, as sbatch takes it."""
    wishes = {name: options.get(name) for name in ("partition", "account", "qos", "constraint")}
    words = [f"--{name}={value}" for name, value in wishes.items() if value]
    time = minutes(options.get("time"))
    return [*(options.get("sbatch_opt") or ()), *words, *([f"--time={time}"] if time else [])]


def minutes(seconds: float | None) -> str:
    return str(max(1, math.ceil(seconds / 60))) if seconds is not None else ""
