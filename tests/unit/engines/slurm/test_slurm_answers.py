"""Parsing what Slurm prints, from 22.05 (recorded on a cluster) to 24.11 (documented)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputui.core.slots import NodeState
from gputui.engines.slurm.parse import (
    Phase,
    host_list,
    largest,
    parse_accounting,
    parse_job_details,
    parse_nodes,
    parse_queue,
    parse_submitted_id,
    parse_version,
)


def recorded(name: str) -> str:
    return (Path(__file__).parent / "recorded" / f"{name}.txt").read_text()


def test_the_queue_of_a_real_cluster_is_read_whole() -> None:
    jobs = {job.name: job for job in parse_queue(recorded("22.05-queue"))}
    assert len(jobs) == 9  # two of one array have one name
    ours = jobs["gputui-7.1"]
    assert (ours.id, ours.state, ours.phase) == ("2", "RUNNING", Phase.RUNNING)
    assert (ours.comment, ours.partition, ours.nodes) == ("gputui:5f3a:7.1", "gpu", ("n1",))
    assert (ours.submitted, ours.started, ours.ends) == (1794987850, 1794987851, None)
    assert jobs["wide"].reason is not None
    assert jobs["wide"].reason.startswith("Nodes required for job are DOWN, DRAINED")
    assert jobs["proof"].nodes == ("n1", "n2", "n3")
    assert jobs["later"].started == 1794991450
    assert jobs["held"].started is None
    assert jobs["kill"].phase is Phase.ENDED


def test_a_name_with_a_separator_is_a_name() -> None:
    (job,) = [job for job in parse_queue(recorded("22.05-queue")) if job.id == "6"]
    assert (job.comment, job.name, job.state) == ("x y", "a|b c", "FAILED")


def test_states_and_lines_that_are_not_known_end_nothing() -> None:
    jobs = {job.id: job for job in parse_queue(recorded("24.11-queue"))}
    assert len(jobs) == 5  # the cluster's name is no job
    assert jobs["88241"].reason == "QOSMaxJobsPerUserLimit"
    assert jobs["88243"].phase is Phase.ENDED
    assert jobs["88244"].phase is Phase.RUNNING


def test_a_job_says_where_its_gpus_are() -> None:
    jobs = {job.name: job for job in parse_job_details(recorded("22.05-jobs"))}
    assert jobs["gputui-7.1"].places == (("n1", 0), ("n1", 1))
    assert jobs["full"].places == tuple(("n3", index) for index in range(4))
    assert jobs["wide"].places == ()
    assert (jobs["a|b c"].code, jobs["a|b c"].signal, jobs["a|b c"].state) == (3, 0, "FAILED")
    assert (jobs["kill"].code, jobs["kill"].signal, jobs["kill"].reason) == (0, 9, "JobLaunchFailure")
    assert jobs["gputui-7.1"].comment == "gputui:5f3a:7.1"


def test_nothing_is_read_from_what_a_job_is_called() -> None:
    named = "lr=0.1 JobState=FAILED ExitCode=9:0 NodeList=n7"
    (job,) = parse_job_details(recorded("23.11-jobs").splitlines()[0].replace("JobName=train", f"JobName={named}"))
    assert (job.name, job.state, job.code, job.nodes) == (named, "RUNNING", 0, ("gpu01", "gpu02"))


def test_gpus_with_a_type_on_several_nodes_are_distinguished() -> None:
    both, failed = parse_job_details(recorded("23.11-jobs"))
    assert both.places == (("gpu01", 1), ("gpu01", 3), ("gpu02", 0))
    assert both.restarts == 2
    assert (failed.state, failed.reason, failed.ended) == ("NODE_FAIL", "NodeDown", 1794904608)
    assert (failed.name, failed.comment) == ("gputui-9.2", "gputui:5f3a:9.2")


def test_nodes_say_what_is_used_and_who_closed_them() -> None:
    up, drained, draining = parse_nodes(recorded("22.05-nodes"))
    assert (up.name, up.state, up.gpus, up.used) == ("n1", NodeState.UP, 4, 2)
    assert up.memory == 64000 * 1024**2
    assert (drained.state, drained.reason, drained.by) == (NodeState.DRAINED, "GPU 1 = broken", "root")
    assert (draining.state, draining.used) == (NodeState.DRAINING, 4)
    assert (draining.reason, draining.since) == ("fan replacement, back on Tuesday", 1794987852)
    assert up.partitions == ("gpu", "short")


def test_nodes_of_later_versions_are_read_too() -> None:
    mixed, down = parse_nodes(recorded("23.11-nodes"))
    assert (mixed.gpus, mixed.gpu_type, mixed.used) == (4, "a100", 2)
    assert mixed.state is NodeState.UP
    assert (down.state, down.reason, down.by) == (NodeState.DOWN, "Not responding", "slurm")
    (several,) = parse_nodes(recorded("24.05-nodes"))
    assert (several.gpus, several.gpu_type, several.used) == (10, "", 4)
    assert (several.state, several.reason) == (NodeState.DRAINING, "State=UP after reboot? ask chen")
    plain, taken = parse_nodes(recorded("24.11-nodes"))
    assert (plain.gpus, plain.used) == (0, 0)
    assert (taken.gpus, taken.gpu_type, taken.used) == (2, "l40s", 2)
    found = largest([mixed, down, several, plain])
    assert found is not None
    assert found.name == "h01"


def test_the_accounting_tells_how_jobs_ended() -> None:
    good, cancelled, late, failed = parse_accounting(recorded("24.05-ended"))
    assert (good.state, good.started, good.ended) == ("COMPLETED", 1794901000, 1794904608)
    assert (cancelled.state, cancelled.signal, cancelled.nodes) == ("CANCELLED", 15, ("gpu01", "gpu02"))
    assert late.state == "TIMEOUT"
    assert (failed.code, failed.started, failed.name) == (3, None, "a|b")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("slurm-wlm 22.05.8", (22, 5)), ("slurm 23.11.4", (23, 11)), ("slurm 24.11.0-0rc1\n", (24, 11)),
        ("sbatch: command not found", None),
    ],
)  # fmt: skip
def test_the_version_is_read(text: str, read: tuple[int, int] | None) -> None:
    assert parse_version(text) == read


@pytest.mark.parametrize(
    ("text", "number"),
    [("88240\n", "88240"), ("88240;hpc1\n", "88240"), ("NOTE: 2 jobs of yours wait\n88241\n", "88241"), ("\n", None)],
)
def test_the_number_of_a_new_job_is_found_among_the_words_of_a_plugin(text: str, number: str | None) -> None:
    assert parse_submitted_id(text) == number


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]), ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu[08-10,21],login1", ["gpu08", "gpu09", "gpu10", "gpu21", "login1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]), ("(null)", []), ("", []),
    ],
)  # fmt: skip
def test_lists_of_nodes_are_expanded(text: str, names: list[str]) -> None:
    assert host_list(text) == names
