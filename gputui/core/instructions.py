"""What the world must do about an event. Released only after the change that caused it is durable."""

from __future__ import annotations

from msgspec import Struct

from .job import Job, JobId


class Start(Struct, frozen=True):
    """Run the attempt that `job.active` describes."""

    job: Job


class Terminate(Struct, frozen=True):
    """SIGTERM and SIGCONT to the attempt's whole tree."""

    job: JobId
    attempt: int


class KillTree(Struct, frozen=True):
    """SIGKILL to the attempt's whole tree, its wrapper last."""

    job: JobId
    attempt: int


class Withdraw(Struct, frozen=True):
    """Take the attempt back if it has not begun; one that has goes on."""

    job: JobId
    attempt: int


class SuspendTree(Struct, frozen=True):
    job: JobId
    attempt: int


class ContinueTree(Struct, frozen=True):
    job: JobId
    attempt: int


Instruction = Start | Terminate | KillTree | Withdraw | SuspendTree | ContinueTree
