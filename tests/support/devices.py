"""Pictures of machines that are not there, for tests of what is shown."""

from __future__ import annotations

from msgspec.structs import replace

from gputui.core.events import AddJobs, SetLanes, Spawned
from gputui.core.job import JobId, JobSpec
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture, LaneState
from gputui.gpus.sample import DeviceSample, HostSample, MigInstance, ProcessSample, Sample, Status
from gputui.gpus.strangers import Stranger

GIB = 1024**3
NOW = 1_000_000.0


def gpu(index: int, **changes: object) -> DeviceSample:
    figures = DeviceSample(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA A100-SXM4-40GB",
        utilization=97,
        memory_used=int(28.1 * GIB),
        memory_total=40 * GIB,
        temperature=61,
        power=287.0,
        power_limit=400.0,
    )
    return replace(figures, **changes)


def idle(index: int, **changes: object) -> DeviceSample:
    figures = {"utilization": 0, "memory_used": 0, "temperature": 31, "power": 54.0, **changes}
    return gpu(index, **figures)


def silent(index: int, status: Status, message: str, age: float = 0.0) -> DeviceSample:
    return gpu(index, status=status, message=message, age=age)


def mig(index: int, number: int, profile: str = "1g.5gb") -> DeviceSample:
    return DeviceSample(
        index=index,
        uuid=f"MIG-{index}-{number}",
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        memory_used=GIB,
        memory_total=int(4.75 * GIB),
        parent=f"GPU-{index}",
        mig=MigInstance(number, 0),
    )


def process(pid: int, memory: int = 10 * GIB, **changes: object) -> ProcessSample:
    seen = ProcessSample(pid=pid, compute=True, memory=memory, user="alice", command="/usr/bin/python train.py", born=7)
    return replace(seen, **changes)


def shown(sample: DeviceSample, **changes: object) -> DevicePicture:
    return replace(DevicePicture(sample=sample, state=LaneState.FREE), **changes)


def running(sample: DeviceSample, *jobs: JobId, **changes: object) -> DevicePicture:
    return shown(sample, **{"state": LaneState.BUSY, "jobs": jobs, **changes})


def held(sample: DeviceSample, pid: int = 4121, user: str = "alice", command: str = "python x.py") -> DevicePicture:
    stranger = Stranger(pid, user, command, 8 * GIB, NOW - 3600)
    return shown(sample, strangers=(stranger,), blocked=f"used by {user} (pid {pid}, 8.0G, 1 h)")


def picture(
    *devices: DevicePicture, taken: float = NOW, kind: DeviceKind = DeviceKind.GPU, host: HostSample | None = None
) -> DevicesPicture:
    sample = Sample(kind=kind, taken=taken, devices=tuple(device.sample for device in devices), host=host)
    return DevicesPicture(kind=kind, sample=sample, devices=devices, looking=True)


def snapshot(jobs: int, since: float = NOW - 7864) -> Snapshot:
    """A session in which jobs of these numbers run, each on a GPU of its own."""
    scheduler = Scheduler()
    scheduler.handle(SetLanes(tuple(Lane(number, (str(number),)) for number in range(jobs))), since)
    spec = JobSpec(command="true", cwd="/", environment="")
    scheduler.handle(AddJobs((spec,) * jobs), since)
    for start in scheduler.place(since):
        scheduler.handle(Spawned(job=start.job.id, attempt=1, pid=10_000 + start.job.id), since)
    return scheduler.snapshot()
