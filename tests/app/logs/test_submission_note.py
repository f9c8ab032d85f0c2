"""Instead of a log, a job in a cluster's queue shows what it asks for, why it waits and what helps."""

from __future__ import annotations

from msgspec.structs import replace
from support.app import NOW, job, snapshot

from gputui.core.events import Submitted
from gputui.core.job import EngineName, Placed, Starting
from gputui.core.slots import DeviceKind, NodeState
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import ClusterSample, DeviceSample, NodeSample, ProcessSample, Sample
from gputui.tui.log.pane import ADVICE, submission_note


def gpu(word: str, *jobs: int, user: str | None = None) -> DevicePicture:
    others = (ProcessSample(pid=88123, compute=True, user=user),) if user else ()
    return DevicePicture(sample=DeviceSample(index=0, uuid=word, name="a100", processes=others), jobs=jobs)


def test_a_submitted_job_shows_who_uses_the_gpus() -> None:
    waiting = job(0, Starting(Placed(1, (0,), (), NOW - 60, "", engine=EngineName.SLURM)))
    why = "not enough free GPUs, CPUs or memory in gpu; Slurm expects 14:20 (Resources)"
    shown = replace(snapshot([waiting]), submitted={0: Submitted(job=0, attempt=1, why=why, slurm_job=88240)})
    nodes = (NodeSample(name="n1", gpus=2), NodeSample(name="n3", standing=NodeState.DRAINING, gpus=1))
    cluster = ClusterSample(nodes=nodes, asked=NOW - 3)
    gpus = (gpu("n1:0", 5), gpu("n1:1", user="ch\x1b[2Jen"), gpu("n3:0", 6))
    sample = Sample(kind=DeviceKind.SLURM, taken=NOW, cluster=cluster)
    picture = DevicesPicture(kind=DeviceKind.SLURM, sample=sample, devices=gpus)
    facts, reason, taken, guess, _, advice, asked = submission_note(waiting, shown, picture, NOW).split("\n")
    assert facts.endswith("as Slurm job 88240: 1 GPU.")
    assert reason == f"N{why[1:]}."
    assert taken == "2 GPUs in service: 1 yours, 1 used by chen, 0 free; n3 is draining."
    assert "estimate" in guess
    assert (advice, asked) == (ADVICE, "Nodes last queried 3 s ago")
