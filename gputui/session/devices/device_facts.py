"""What a sample says of one device to the scheduler: whether it may be used, and how full it is. Pure but for names."""

from __future__ import annotations

from gputui.core.cards import DeviceFacts
from gputui.core.job import JobId
from gputui.gpus.identity import find
from gputui.gpus.sample import DeviceSample, Sample
from gputui.gpus.strangers import HeldByStrangers, Verdict
from gputui.gpus.words import why_not


def device_fact(
    sample: Sample, word: str, verdicts: dict[str, Verdict], pids: dict[int, JobId], leased: str | None, now: float
) -> DeviceFacts:
    if sample.trouble is not None:
        return DeviceFacts(blocked=f"{sample.trouble.message}; {sample.trouble.advice}")
    device = find(sample.devices, word)
    if device is None:
        return DeviceFacts(blocked=f"GPU {word} is not there")
    return DeviceFacts(
        blocked=why_not(device, verdicts[device.key], now) or leased,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        ours=_memory_of_ours(device, pids),
        crowded=isinstance(verdicts[device.key], HeldByStrangers),
    )


def _memory_of_ours(device: DeviceSample, pids: dict[int, JobId]) -> dict[JobId, int]:
    used: dict[JobId, int] = {}
    for process in device.processes:
        job = pids.get(process.pid)
        if job is not None:
            used[job] = used.get(job, 0) + (process.memory or 0)
    return used


def user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
