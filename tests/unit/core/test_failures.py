"""The failures of a session by kind: true messages, and what the jobs of a kind share that others do not."""

from __future__ import annotations

from msgspec.structs import replace
from support.app import NOW, job, snapshot

from gputui.core.job import Attempt, Failed, Job, Queued, Refused, Succeeded
from gputui.views.failures import (
    CommonFacts,
    FailureGroup,
    Failures,
    failure_groups,
    jobs_with_common_parameters,
    learn_parameters,
)
from gputui.views.parameters import Parameters

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied"


def run(id: int, command: str, *, gpu: str = "0", at: float = NOW, ran: float = 30.0, said: str = SHAPES) -> Job:
    """A job that failed."""
    made = job(id, Failed(1), command=command)
    attempt = Attempt(1, (gpu,), at - ran, at, Failed(1), 1, said.partition("(")[0], "", message=said)
    return replace(made, attempts=(attempt,), issued=1)


def train(model: str, bs: int, seed: int) -> str:
    return f"python train.py --data /d --model {model} --bs {bs} --seed {seed}"


def in_common(jobs: list[Job], parameters: Parameters, devices: int) -> CommonFacts:
    (group,) = Failures(jobs).groups(parameters, devices)
    return group.common


def groups(jobs: list[Job]) -> list[FailureGroup]:
    return failure_groups(snapshot(jobs), learn_parameters(jobs))


def test_failed_jobs_share_only_what_others_do_not_have() -> None:
    crashed = [run(n, train("vit", 256, n)) for n in range(3)]
    others = [job(n, command=train(model, bs, 0)) for n, (model, bs) in enumerate([("swin", 64), ("vit", 64)], 3)]
    parameters = learn_parameters([*crashed, *others])
    assert in_common(crashed, parameters, 4).parameters_text == "model=vit bs=256"


def test_a_single_failure_has_nothing_in_common() -> None:
    crashed, other = run(0, train("vit", 256, 0)), job(1, command=train("swin", 64, 1))
    common = in_common([crashed], learn_parameters([crashed, other]), 4)
    assert (common.parameters_text, common.where, common.only_there) == ("", "GPU 0", False)


def test_a_single_gpu_is_named_if_the_session_has_others() -> None:
    crashed = [run(n, train("vit", 256, n), gpu="3") for n in range(3)]
    parameters = learn_parameters(crashed)
    assert in_common(crashed, parameters, 4).where == "only on GPU 3"
    assert in_common(crashed, parameters, 1).where == "GPU 3"
    assert in_common([*crashed, run(9, train("vit", 1, 9), gpu="10")], parameters, 4).where == "GPUs 3 10"


def test_waiting_jobs_with_the_common_parameters_are_found() -> None:
    crashed = [run(n, train("vit", 256, n)) for n in range(2)]
    waiting = [job(n, Queued(NOW), command=train(*what)) for n, what in
               enumerate([("vit", 256, 7), ("vit", 64, 7), ("swin", 256, 7)], 2)]  # fmt: skip
    common = in_common(crashed, learn_parameters([*crashed, *waiting]), 1)
    assert jobs_with_common_parameters(waiting, common) == [2]


def test_without_common_parameters_no_waiting_job_is_found() -> None:
    crashed = [run(0, train("vit", 256, 1)), run(1, train("swin", 64, 2))]
    waiting = job(2, command=train("vit", 64, 3))
    common = in_common(crashed, learn_parameters([*crashed, waiting]), 1)
    assert jobs_with_common_parameters([waiting], common) == []


def test_groups_are_by_error_newest_first() -> None:
    jobs = [
        run(0, train("vit", 64, 0), at=NOW - 50, said=SHAPES + " (64x512)", ran=20),
        run(1, train("vit", 64, 1), at=NOW - 10, said=SHAPES + " (32x512)", ran=40),
        run(2, train("swin", 64, 2), at=NOW, said="SIGSEGV"),
        job(3, Succeeded(), command=train("swin", 64, 3)),
    ]
    newest, shapes = groups(jobs)
    assert (newest.message, newest.jobs) == ("SIGSEGV", (2,))
    assert (shapes.message, shapes.jobs, shapes.variants) == (SHAPES + " (32x512)", (1, 0), 1)
    assert (shapes.shortest, shapes.longest, shapes.first, shapes.last) == (20, 40, NOW - 50, NOW - 10)
    assert shapes.common.parameters_text == "model=vit"


def test_a_refused_job_is_grouped_by_its_reason() -> None:
    (group,) = groups([replace(job(0), state=Refused("no such directory: /x"))])
    assert group.message == "no such directory: /x"


def test_a_rerun_job_leaves_its_group_and_the_rest_may_share_more() -> None:
    jobs = [run(0, train("vit", 64, 0)), run(1, train("vit", 64, 1)), run(2, train("swin", 64, 2))]
    parameters, failures = learn_parameters(jobs), Failures(jobs)
    (before,) = failures.groups(parameters, 1)
    assert before.common.parameters_text == ""
    assert failures.learn(replace(jobs[2], state=Queued(NOW)))
    (after,) = failures.groups(parameters, 1)
    assert (after.common.parameters_text, after.count) == ("model=vit", 2)
    assert not failures.learn(replace(jobs[2], state=Queued(NOW)))


def test_a_removed_job_is_no_failure() -> None:
    assert groups([replace(run(0, "a"), archived=True)]) == []
