"""The evening before the demo: a sweep that has ended, with its logs, and the history of the GPUs."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from heapq import heappop, heappush
from itertools import product
from random import Random

from gputui.core.events import AddJobs, AttemptEnded, Exited, SetSlots, Spawned
from gputui.core.job import Job, JobId, Usage
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceKind, Slot
from gputui.core.spans import RecordedSpan, SpanKind
from gputui.gpus.history import DeviceShare, HistoryRecorder, LoadOwner, write_history
from gputui.gpus.sample import Sample
from gputui.gpus.simulated import device_key, simulated_device
from gputui.session.job_directories import Directories
from gputui.session.messages import Layout
from gputui.session.session_dir import Paths
from gputui.session.store.opening import open_session
from gputui.session.store.store import Change
from gputui.sources.source import Draft, specs

from .train import Training

GROUP = "baselines"
GPUS = ("0", "1", "2")
"""The GPUs of the evening's jobs. The fourth one is used by a colleague."""
COLLEAGUE, COLLEAGUES_GPU, COLLEAGUES_MEMORY = "alice", 3, 31 << 30
EPOCHS = 10
SECONDS = {"mlp": 130.0, "rn18": 220.0, "unet": 390.0, "rn50": 460.0}
"""How long a job of each network took."""
NAN = ("rn50", "0.3", "128")
"""The job that ended with an error, after three epochs."""
ERROR = "FloatingPointError: loss is nan at epoch 4"
FIRST_PID = 1 << 23
"""The first pid of the simulated processes. No real process has such a high pid."""
SAMPLED_EVERY = 5.0


def drafts() -> list[Draft]:
    """Return the jobs of the evening, with which the demo's own jobs are compared."""
    return [
        Draft(f"python train.py --net {net} --lr {rate} --bs {batch}", params={"net": net, "lr": rate, "bs": batch})
        for rate, batch, net in product(("0.3", "0.1", "0.03"), ("32", "128"), SECONDS)
    ]


def prepare(session: str, cwd: str, now: float) -> int:
    """Write a session whose jobs ended a minute ago. Return the number of jobs."""
    paths = Paths(session)
    paths.create()
    opened = open_session(paths, Layout())
    scheduler, directories = opened.scheduler, Directories(paths.root)
    try:
        total = sum(_seconds(draft.params) for draft in drafts()) / len(GPUS)
        began = now - total - 300
        _play(scheduler, cwd, began)
        jobs = list(scheduler.book)
        for job in jobs:
            _write_log(directories, job)
        last = max(job.attempts[-1].ended for job in jobs)
        use = RecordedSpan(number=0, kind=SpanKind.EXTERNAL, since=began + 600, until=last, device=str(COLLEAGUES_GPU),
                           user=COLLEAGUE, pid=FIRST_PID, memory=COLLEAGUES_MEMORY)  # fmt: skip
        opened.store.commit(Change(jobs=jobs, record=scheduler.record(), spans=[use]))
    finally:
        opened.store.close()
    _write_history(paths.history, jobs, use)
    return len(jobs)


def _play(scheduler: Scheduler, cwd: str, began: float) -> None:
    """Let the scheduler run the jobs of the evening."""
    slots = tuple(Slot(number, (gpu,), DeviceKind.SIMULATED) for number, gpu in enumerate(GPUS))
    scheduler.handle(SetSlots(slots), began)
    scheduler.handle(AddJobs(specs(drafts(), cwd=cwd, environment="", group=GROUP)), began)
    ends: list[tuple[float, JobId]] = []
    now = began
    while True:
        for start in scheduler.place(now):
            job = start.job
            scheduler.handle(Spawned(job=job.id, attempt=1, pid=FIRST_PID + job.id), now)
            heappush(ends, (now + _seconds(job.spec.params), job.id))
        if not ends:
            return
        now, ended = heappop(ends)
        job = scheduler.book[ended]
        failed = _key(job.spec.params) == NAN
        scheduler.handle(
            AttemptEnded(
                job=ended, attempt=1, outcome=Exited(int(failed)), at=now, signature=ERROR if failed else None,
                usage=_usage(job),
            ),
            now,
        )  # fmt: skip


def _key(params: dict[str, str]) -> tuple[str, str, str]:
    return params["net"], params["lr"], params["bs"]


def _seconds(params: dict[str, str]) -> float:
    seconds = SECONDS[params["net"]] * (0.8 if params["bs"] == "128" else 1.0) * (1 + Random(str(params)).random() / 8)
    return 0.3 * seconds if _key(params) == NAN else seconds


def _usage(job: Job) -> Usage:
    chance = Random(job.id)
    memory, seconds = int((9 + 18 * chance.random()) * (1 << 30)), _seconds(job.spec.params)
    return Usage(
        gpu_mean=round(84 + 12 * chance.random(), 1), gpu_peak_memory=memory, gpu_peak_memory_each=memory,
        gpu_seconds=seconds, energy=280 * seconds, energy_seconds=seconds,
    )  # fmt: skip


def _write_log(directories: Directories, job: Job) -> None:
    """Write what the job printed, as `train.py` would have."""
    directories.prepare(job, 1)
    files = directories.files(job, 1)
    net, rate, batch = _key(job.spec.params)
    training = Training(Namespace(net=net, lr=float(rate), bs=int(batch), epochs=EPOCHS))
    failed = _key(job.spec.params) == NAN
    with open(files.out, "w") as out, redirect_stdout(out):
        for epoch in range(1, (3 if failed else EPOCHS) + 1):
            training.epoch = epoch
            training.report()
        if not failed:
            print(f"done: best accuracy {training.accuracy(EPOCHS):.1%}")
    with open(files.err or files.out, "a") as err:
        err.write(f'Traceback (most recent call last):\n  File "train.py", line 88, in _train\n{ERROR}\n' * failed)


def _write_history(path: str, jobs: Sequence[Job], use: RecordedSpan) -> None:
    recorder = HistoryRecorder()
    for step, now in enumerate(_times(jobs)):
        running = {device_key(int(attempt.gpus[0])): now - attempt.started for job in jobs
                   for attempt in job.attempts if attempt.started <= now < attempt.ended}  # fmt: skip
        is_used = use.since <= now < (use.until or now)
        if is_used:
            running[device_key(COLLEAGUES_GPU)] = now - use.since
        devices = tuple(
            simulated_device(index, step, int(running.get(device_key(index), 0)), 0)
            for index in range(COLLEAGUES_GPU + 1)
        )
        shares = {device.key: _share(device.index, device.memory_used or 0) for device in devices if device.utilization}
        recorder.observe(Sample(kind=DeviceKind.SIMULATED, taken=now, devices=devices), shares)
    write_history(path, recorder.frozen())


def _times(jobs: Sequence[Job]) -> Iterator[float]:
    now = min(job.attempts[-1].started for job in jobs)
    while now < time.time():
        yield now
        now += SAMPLED_EVERY


def _share(index: int, memory: int) -> DeviceShare:
    if index == COLLEAGUES_GPU:
        return DeviceShare(LoadOwner.OTHERS, others=memory)
    return DeviceShare(LoadOwner.OURS, ours=memory)
