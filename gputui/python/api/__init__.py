"""gputui from Python: queue commands and calls of functions in a session that outlives the program.

    import gputui

    @gputui.job(gpus=1)
    def train(lr: float) -> float:
        ...

    if __name__ == "__main__":
        with gputui.Session("runs", gpus="0,1") as session:
            jobs = [train(lr) for lr in (0.1, 0.01)]
            session.add("python evaluate.py", name="evaluate", after=jobs)
        print([job.result() for job in jobs])

Jobs outlive the program: `gputui ls` shows them, and a later program can wait for them.
"""

from __future__ import annotations

from gputui.session.control.connection import ClientError as SessionError

from .jobs import JobFailed, JobOptions, Result, Stuck
from .jobs import JobHandle as Job
from .session import QueuedFunction as Queued
from .session import Session, job

__all__ = ["Job", "JobFailed", "JobOptions", "Queued", "Result", "Session", "SessionError", "Stuck", "job"]
