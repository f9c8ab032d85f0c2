"""The failures of a session by kind: true messages, and what the jobs of a kind share that others do not."""

from __future__ import annotations

from msgspec.structs import replace
from support.queues import NOW, job, snapshot

from gputui.core.job import Attempt, Failed, Job, Queued, Refused, Succeeded
from gputui.views.failures import Failures, alike_waiting, failure_groups, in_common, learnt_parameters

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied"


def run(id: int, command: str, *, gpu: str = "0", at: float = NOW, ran: float = 30.0, said: str = SHAPES) -> Job:
    """A job that failed."""
    made = job(id, Failed(1), command=command)
    attempt = Attempt(1, (gpu,), at - ran, at, Failed(1), 1, said.partition("(")[0], "", message=said)
    return replace(made, attempts=(attempt,), issued=1)


def train(model: str, bs: int, seed: int) -> str:
    return f"python train.py --data /d --model {model} --bs {bs} --seed {seed}"


def test_what_crashed_jobs_share_is_told_and_what_all_jobs_share_is_not() -> None:
    crashed = [run(n, train("vit", 256, n)) for n in range(3)]
    others = [job(n, command=train(model, bs, 0)) for n, (model, bs) in enumerate([("swin", 64), ("vit", 64)], 3)]
    parameters = learnt_parameters([*crashed, *others])
    assert in_common(crashed, parameters, 4).told == "model=vit bs=256"


def test_one_crash_shares_nothing_with_anybody() -> None:
    crashed, other = run(0, train("vit", 256, 0)), job(1, command=train("swin", 64, 1))
    common = in_common([crashed], learnt_parameters([crashed, other]), 4)
    assert (common.told, common.where, common.only_there) == ("", "GPU 0", False)


def test_only_one_gpu_is_told_where_the_session_has_others() -> None:
    crashed = [run(n, train("vit", 256, n), gpu="3") for n in range(3)]
    parameters = learnt_parameters(crashed)
    assert in_common(crashed, parameters, 4).where == "only on GPU 3"
    assert in_common(crashed, parameters, 1).where == "GPU 3"
    assert in_common([*crashed, run(9, train("vit", 1, 9), gpu="10")], parameters, 4).where == "GPUs 3 10"


def test_waiting_jobs_that_share_what_the_crashed_share_are_found() -> None:
    crashed = [run(n, train("vit", 256, n)) for n in range(2)]
    waiting = [job(n, Queued(NOW), command=train(*what)) for n, what in
               enumerate([("vit", 256, 7), ("vit", 64, 7), ("swin", 256, 7)], 2)]  # fmt: skip
    common = in_common(crashed, learnt_parameters([*crashed, *waiting]), 1)
    assert alike_waiting(waiting, common) == [2]


def test_nothing_shared_means_that_nobody_is_alike() -> None:
    crashed = [run(0, train("vit", 256, 1)), run(1, train("swin", 64, 2))]
    waiting = job(2, command=train("vit", 64, 3))
    common = in_common(crashed, learnt_parameters([*crashed, waiting]), 1)
    assert alike_waiting([waiting], common) == []


def test_groups_are_by_crash_newest_first_with_a_true_message_of_the_newest_job() -> None:
    jobs = [
        run(0, train("vit", 64, 0), at=NOW - 50, said=SHAPES + " (64x512)", ran=20),
        run(1, train("vit", 64, 1), at=NOW - 10, said=SHAPES + " (32x512)", ran=40),
        run(2, train("swin", 64, 2), at=NOW, said="SIGSEGV"),
        job(3, Succeeded(), command=train("swin", 64, 3)),
    ]
    newest, shapes = failure_groups(snapshot(jobs))
    assert (newest.message, newest.jobs) == ("SIGSEGV", (2,))
    assert (shapes.message, shapes.jobs, shapes.variants) == (SHAPES + " (32x512)", (1, 0), 1)
    assert (shapes.shortest, shapes.longest, shapes.first, shapes.last) == (20, 40, NOW - 50, NOW - 10)
    assert shapes.common.told == "model=vit"


def test_a_job_that_never_ran_says_why() -> None:
    (group,) = failure_groups(snapshot([replace(job(0), state=Refused("there is no folder /x"))]))
    assert group.message == "there is no folder /x"


def test_a_rerun_job_leaves_its_group_and_the_rest_may_share_more() -> None:
    jobs = [run(0, train("vit", 64, 0)), run(1, train("vit", 64, 1)), run(2, train("swin", 64, 2))]
    parameters, failures = learnt_parameters(jobs), Failures(jobs)
    (before,) = failures.groups(parameters, 1)
    assert before.common.told == ""
    assert failures.learn(replace(jobs[2], state=Queued(NOW)))
    (after,) = failures.groups(parameters, 1)
    assert (after.common.told, after.count) == ("model=vit", 2)
    assert not failures.learn(replace(jobs[2], state=Queued(NOW)))


def test_a_removed_job_is_no_failure() -> None:
    assert failure_groups(snapshot([replace(run(0, "a"), archived=True)])) == []
