"""Results are read from the logs of jobs, stored for each attempt, and continued by the next owner."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest
from support.sessions import Session, add, change_settings, ended, owned, spec
from support.waiting import until

from gputui.core import eta
from gputui.core.events import Kill
from gputui.core.job import Job, JobId, JobSpec, Queued
from gputui.core.results import Direction, JobResults, direction_of
from gputui.session import results as session_results
from gputui.session.client import Client
from gputui.session.control.connection import ClientError
from gputui.session.control.handlers import details, job_results, reasons
from gputui.session.job_directories import Directories
from gputui.session.messages import Commands, Listing
from gputui.session.owner.owner import Owner
from gputui.views.format import silence


def printing(*lines: str, gate: Path | None = None, to: str = "") -> str:
    waits = f"until test -e {gate}; do sleep 0.01; done; " if gate is not None else ""
    return waits + "; ".join(f"echo '{line}'{to}" for line in lines)


def results(owner: Owner, job: JobId, count: int) -> JobResults:
    """Return the results once the first metric has been printed `count` times."""

    def read() -> bool:
        known = owner.snapshot.results.get(job)
        return known is not None and bool(known.metrics) and known.metrics[0].count >= count

    until(read, f"#{job} has {count} readings")
    return owner.snapshot.results[job]


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("val_loss", Direction.DOWN), ("valLoss", Direction.DOWN), ("loss_acc", Direction.UP),
        ("acc_loss", Direction.DOWN), ("-val_loss", Direction.UP), ("error_rate", Direction.DOWN),
        ("train_loss_step", Direction.DOWN), ("neg_loss", Direction.UP), ("lr", Direction.UNKNOWN),
    ],
)  # fmt: skip
def test_the_last_known_word_of_a_name_decides_what_is_better(name: str, direction: Direction) -> None:
    assert direction_of(name) is direction


def end(owner: Owner, *jobs: JobId) -> None:
    owner.do(Commands(tuple(Kill(job=job, now=True) for job in jobs))).result()
    for job in jobs:
        ended(owner, job)


def test_a_running_job_shows_what_it_printed_to_either_stream(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    wait = f"; until test -e {gate}; do sleep 0.01; done; echo 'epoch 4/4 val_loss: 0.9'"
    with owned(tmp_path / "s") as owner:
        out, err = add(
            owner,
            spec(printing("epoch 1/4 val_loss: 0.5", "epoch 2/4 val_loss: 0.4") + wait),
            spec(printing("epoch 1/4 val_loss: 0.7", "epoch 2/4 val_loss: 0.3", to=" >&2") + wait),
        )
        assert results(owner, out, 2)["val_loss"].best == 0.4
        seen = results(owner, err, 2)
        assert (seen["val_loss"].best, seen["val_loss"].best_step, seen.progress) == (0.3, 2, 0.5)
        until(lambda: owner.snapshot.best == err, "the better one is the best")
        assert owner.snapshot.metric is not None
        assert (owner.snapshot.metric.name, owner.snapshot.metric.direction) == ("val_loss", Direction.DOWN)
        gate.touch()
        ended(owner, out), ended(owner, err)
        last = results(owner, err, 3)["val_loss"]
        assert (last.last, last.best, last.count) == (0.9, 0.3, 3)
        changed = owner.take_changed()
        assert {out, err} <= changed


def test_results_of_an_outfile_are_stored_at_the_end_for_the_next_owner(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        command = "for i in 1 2 3; do echo step $i loss 0.$i; done; printf 'acc=0.75'"
        [job] = add(owner, spec(command, cwd=str(tmp_path), outfile="log"))
        ended(owner, job)
    assert owner.snapshot.results[job]["loss"].last == 0.3, "the last snapshot of an owner is complete"
    with owned(tmp_path / "s") as owner:
        kept = owner.snapshot.results[job]
        assert [metric.name for metric in kept.metrics] == ["loss", "acc"]
        assert (kept["loss"].count, kept["loss"].best, kept["acc"].last) == (3, 0.1, 0.75)
        [loss, _] = owner.do(lambda act: owner.results.curves(job)).result()
        assert [(point.step, point.value) for point in loss.points] == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_a_job_that_is_silent_longer_than_its_siblings_is_reported_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eta, "SHORTEST_SILENCE", 0.3)
    with owned(tmp_path / "s") as owner:
        for command in ("echo loss=0.5", "echo loss=0.4; sleep 0.1"):
            [job] = add(owner, spec(command))
            ended(owner, job)
        until(lambda: owner.snapshot.paces.get("", 9.0) < 1.0, "the pace of its group is known")
        [silent] = add(owner, spec("echo loss=0.3; sleep 100"))
        results(owner, silent, 1)
        until(lambda: silence(owner.snapshot, owner.snapshot[silent], time.time()) != "", "it is silent")
        said = owner.do(lambda act: reasons(owner, [silent])).result()[silent].text
        shown = owner.do(lambda act: details(owner, silent)).result().remark
        assert (said[:8], str(shown)[:8]) == ("silent 0", "silent 0")
        snapshot = owner.snapshot
        fields = job_results(snapshot, snapshot[silent], time.time())
        written_at = snapshot.results[silent].written_at
        assert written_at is not None
        # A quick job may print before its start is reported, from which its silence counts.
        assert fields["silent_since"] == pytest.approx(written_at, abs=1)
        assert fields["eta"] is None
    with owned(tmp_path / "s") as owner:
        assert owner.snapshot.paces[""] < 1.0, "the next owner knows it too"
        assert owner.snapshot.results[silent].written_at == written_at


def unreadable(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Let reads of this file fail; its name and size can still be read."""
    pread = os.pread

    def broken(fd: int, count: int, offset: int) -> bytes:
        if log.exists() and os.path.samestat(os.fstat(fd), log.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, count, offset)

    monkeypatch.setattr(os, "pread", broken)


def test_an_unreadable_log_affects_no_other_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, gate = tmp_path / "s", tmp_path / "gate"
    unreadable(monkeypatch, session / "job_0" / "job_0.OUT")
    with owned(session, slots=6) as owner:
        jobs = add(owner, *(spec(printing("loss=0.5", gate=gate)) for _ in range(3)))
        going = add(owner, *(spec(printing("loss=0.4") + "; sleep 100") for _ in range(3)))
        for job in going:
            results(owner, job, 1)
        gate.touch()
        for job in jobs:
            ended(owner, job)
        for job in jobs[1:]:
            assert results(owner, job, 1)["loss"].last == 0.5
        assert jobs[0] not in owner.snapshot.results
    log = (session / ".gputui" / "scheduler.log").read_text()
    assert log.count("results of #0 cannot be read") == 1
    monkeypatch.undo()
    with owned(session, slots=6) as owner:
        assert results(owner, jobs[0], 1)["loss"].last == 0.5, "the next owner reads it, if it can"
        assert all(owner.snapshot.results[job]["loss"].last == 0.5 for job in jobs)
        end(owner, *going)


def test_a_client_that_fails_releases_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is the owner for the moment of its query."""
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("echo loss=0.5"))
        ended(owner, job)

    def fail(owner: Owner) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(session_results.ResultsReader, "catch_up", fail)
    before = threading.active_count()
    with pytest.raises((OSError, ClientError)):
        Client(str(tmp_path / "s")).ask(Listing())
    monkeypatch.undo()
    assert threading.active_count() == before
    assert Client(str(tmp_path / "s")).ask(Listing()).jobs[0].id == job


def test_curves_do_not_change_while_they_are_drawn(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec(printing("loss=0.5") + "; " + printing("loss=0.4", gate=gate) + "; sleep 100"))
        results(owner, job, 1)
        live = owner.results.reader.curves(job, 1)
        assert live is not None
        gate.touch()
        results(owner, job, 2)
        assert [point.value for curve in live for point in curve.points] == [0.5]
        end(owner, job)


def test_after_a_kill_the_next_owner_reads_every_line_once(tmp_path: Path) -> None:
    session, gate = Session(tmp_path), tmp_path / "gate"
    numbers = "for i in $(seq 1 40); do echo step $i loss $i; done; "
    jobs = session.write(f"{numbers} until test -e {gate}; do sleep 0.01; done; echo step 41 loss 41")
    log = session.root / "job_0/job_0.OUT"
    with session.running(jobs, gpus="0") as victim:
        until(lambda: log.exists() and "loss 40" in log.read_text(), "it has printed")
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        with owned(session.root, slots=1) as owner:
            assert results(owner, 0, 40)["loss"].count == 40
        with owned(session.root, slots=1) as owner:
            assert owner.snapshot.results[0]["loss"].count == 40
            gate.touch()
            ended(owner, 0)
            assert results(owner, 0, 41)["loss"].count == 41


def test_a_rerun_keeps_the_results_of_both_attempts(tmp_path: Path) -> None:
    flag, gate = tmp_path / "flag", tmp_path / "gate"
    command = (
        f"if test -e {flag}; then until test -e {gate}; do sleep 0.01; done; echo loss 0.2; "
        f"else touch {flag}; echo loss 0.1; exit 3; fi"
    )
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec(command, retries=1))
        until(lambda: owner.snapshot[job].issued == 2, "it is run again")
        assert results(owner, job, 1)["loss"].last == 0.1
        gate.touch()
        ended(owner, job)
        until(lambda: owner.snapshot.results[job].attempt == 2, "the second attempt was read")
        both = owner.do(lambda act: owner.results.attempts(job)).result()
        assert {number: one["loss"].last for number, one in both.items()} == {1: 0.1, 2: 0.2}
        assert owner.do(lambda act: owner.results.curves(job, 1)).result()[0].points[0].value == 0.1


def test_a_failed_job_is_never_the_best(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with owned(tmp_path / "s") as owner:
        good, bad = add(
            owner,
            spec("echo loss 0.5"),
            spec(f"echo loss 0.1; until test -e {gate}; do sleep 0.01; done; exit 3"),
        )
        until(lambda: owner.snapshot.best == bad, "a running job may be the best")
        gate.touch()
        ended(owner, bad)
        until(lambda: owner.snapshot.best == good, "a failed one is not")


def test_a_chosen_metric_stays_chosen(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        one, other = add(owner, spec("echo val_loss 0.5 fun=0.1"), spec("echo val_loss 0.6 fun=0.2"))
        ended(owner, one), ended(owner, other)
        until(lambda: owner.snapshot.best == one, "the lower loss is the better")
        change_settings(owner, metric="fun max")
        assert owner.snapshot.best == other
        assert {one, other} <= owner.take_changed()
    with owned(tmp_path / "s") as owner:
        assert owner.snapshot.metric is not None
        assert (owner.snapshot.metric.name, owner.snapshot.best) == ("fun", other)


def test_jobs_are_compared_by_the_metric_in_their_settings(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        named, found = add(
            owner,
            spec("echo 'loss 0.5  zest 7'", metric="zest max"),
            spec("echo 'and so it was: <13> in all'", metric="zest /<([0-9]+)>/ max"),
        )
        results(owner, found, 1)
        results(owner, named, 1)
        until(lambda: owner.snapshot.best == found, "13 is more than 7")
        assert owner.snapshot.metric is not None
        assert owner.snapshot.metric.name == "zest"


def test_a_very_long_log_shows_its_rare_metrics_and_its_newest_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_results, "FURTHEST_BEHIND", 1 << 20)
    program = (
        "import sys\n"
        "for i in range(300000):\n"
        "    print(f'step {i} loss {i / 1e6:.6f}')\n"
        "    if i % 50000 == 49999: print(f'step {i} val_loss {1 - i / 1e6:.4f}')\n"
        "print('::gputui metric score=3 step=9:: ')\n"
    )
    (tmp_path / "train.py").write_text(program)
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec(f"python3 {tmp_path}/train.py"))
        ended(owner, job)
        until(lambda: job in owner.snapshot.results and owner.snapshot.results[job].get("score"), "its end was read")
        seen = owner.snapshot.results[job]
        assert (seen["loss"].last, seen["val_loss"].last) == (0.299999, 0.7)
        assert all(len(curve.points) <= 201 for curve in owner.do(lambda act: owner.results.curves(job)).result())


def test_a_log_that_is_read_late_shows_its_end_at_once_with_the_same_final_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        f"epoch {i // 2000 + 1}/50 loss {abs(45_000 - i) / 1e5 + 0.1:.5f} acc 0.{i % 97:02d}\n" for i in range(50_000)
    ]
    lines[15_000] = "epoch 8/50 score 17\n"
    job, directories = Job(0, spec("train"), 0.0, 30, 0.0, Queued(0.0)), Directories(str(tmp_path))
    directories.prepare(job, 1)
    Path(directories.files(job, 1).out).write_text("".join(lines))
    late, in_order = (session_results.AttemptReader(job, 1, directories) for _ in range(2))
    late.read(200, 1e9)
    assert late.is_behind
    assert (late.results["loss"].last, late.results.progress) == (0.14999, 0.5)
    assert late.series.series["loss"].points[-1].value == 0.14999
    row = late.row(is_over=False)
    with monkeypatch.context() as patch:
        patch.setattr(session_results._LogReader, "_look_ahead", lambda *_: None)
        in_order.read(200, 1e9)
        while in_order.is_behind:
            in_order.read(200, 1e9)
    steps = 0
    while late.is_behind and (steps := steps + 1):
        assert late.results["loss"].last == 0.14999
        late.read(200, 1e9)
    assert steps > 3
    assert late.results == in_order.results
    assert (late.results["loss"].best, late.results["score"].last) == (in_order.results["loss"].low, 17)
    assert late.series.curves() == in_order.series.curves()
    assert msgspec.msgpack.decode(row.results, type=JobResults)["loss"].last == 0.14999


def test_an_ended_log_that_is_far_behind_is_read_to_its_end_in_several_passes(tmp_path: Path) -> None:
    lines = [f"step {i} loss={i / 1e6:.6f}\n{'x' * 4000}\n" for i in range(1500)]
    lines[90] = "step 90 score 17\n"
    (tmp_path / "log").write_text("".join(lines))
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec(f"cat {tmp_path}/log"))
        ended(owner, job)
        until(lambda: job in owner.snapshot.results and owner.snapshot.results[job].get("score"), "all of it was read")
        assert owner.snapshot.results[job]["loss"].last == 0.001499
    with owned(tmp_path / "s") as owner:
        assert owner.snapshot.results[job]["score"].last == 17


def test_missing_results_of_ended_jobs_are_read_again(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as owner:
        [job] = add(owner, spec("echo loss=0.5"))
        ended(owner, job)
    with owned(tmp_path / "s") as owner:
        owner.store._db.executescript("DELETE FROM result; DELETE FROM series")
    with owned(tmp_path / "s") as owner:
        assert results(owner, job, 1)["loss"].last == 0.5


TRAINING = """\
for epoch in 1 2 3 4 5 6 7 8; do echo "epoch $epoch/10 val_loss: $1.$((9 - epoch))"; done
test -z "$2" || until test -e "$2"; do sleep 0.01; done
echo "epoch 9/10 val_loss: $1.0"
"""


def test_a_running_job_behind_its_siblings_is_reported_until_it_ends(tmp_path: Path) -> None:
    gates = [tmp_path / "first", tmp_path / "second"]
    (tmp_path / "train.sh").write_text(TRAINING)

    def training(level: int, gate: str | Path = "") -> JobSpec:
        return spec(f"sh {tmp_path}/train.sh {level} {gate}")

    with owned(tmp_path / "s") as owner:
        for job in add(owner, *[training(level) for level in (0, 0, 1, 1, 1)]):
            ended(owner, job)
            results(owner, job, 9)
        slow, good = add(owner, training(4, gates[0]), training(0, gates[0]))
        until(lambda: slow in owner.snapshot.behind, "it is behind")
        results(owner, good, 8)
        assert owner.snapshot.behind.keys() == {slow}
        assert (owner.snapshot.behind[slow].step, owner.snapshot.behind[slow].value) == (8, 4.1)
        assert slow in owner.take_changed()
        gates[0].touch()
        ended(owner, slow)
        assert not owner.snapshot.behind
    with owned(tmp_path / "s") as owner:
        (slow,) = add(owner, training(5, gates[1]))
        until(lambda: slow in owner.snapshot.behind, "the next owner knows the siblings from the store")
        gates[1].touch()
