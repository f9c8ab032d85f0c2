"""An end as the scheduler is told it: with what the attempt used, and its crash in words from the log's tail."""

from __future__ import annotations

from msgspec.structs import replace

from gputui.core.events import AttemptEnded, Exited
from gputui.core.job import Job
from gputui.session.devices.devices import Devices
from gputui.session.files.folders import Folders


def told_in_full(end: AttemptEnded, job: Job, devices: Devices, folders: Folders) -> AttemptEnded:
    end = replace(end, usage=devices.usage(end.job, end.attempt))
    if not isinstance(end.outcome, Exited) or end.outcome.code == 0 or end.signature is not None:
        return end
    # All that it knows by heart takes 30 ms to learn: the first crash pays for it, no start does.
    from gputui.logs.signatures import job_crash

    files = folders.files(job, end.attempt)
    err = folders.reached(files.err) if files.err is not None else None
    crash = job_crash(folders.reached(files.out), err, end.outcome.code)
    return replace(end, signature=crash.signature, message=crash.message, kind=crash.kind)
