"""A real `gputui run` on fake GPUs read by the real bindings: other processes, memory, leases, a hanging driver."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.machines import CONDA, python_path
from support.sessions import Home, add, ended, owned, spec
from support.waiting import until

from gputui.core.events import Kill
from gputui.core.slots import DeviceKind, Slot
from gputui.gpus.leases import Leases
from gputui.session.errors import CommitFailed, StoreTrouble
from gputui.session.messages import Commands

IDLE: dict[str, Any] = {"mem_used": "1G"}
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(tmp_path: Path, nvml: Any) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, commands: tuple[str, ...], **settings: Any) -> subprocess.Popen[str]:
        jobs = tmp_path / "jobs.txt"
        jobs.write_text("\n".join(commands) + "\n")
        call = [sys.executable, "-m", "gputui", "run", "--output-dir", str(tmp_path / "out"), *words, str(jobs)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(call, env=nvml.environment, cwd=tmp_path, **(quiet | settings)))
        return started[-1]

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    Home(tmp_path).end()


def asked(root: Path, kind: str, **fields: Any) -> Any:
    return Home(root.parent, root.name).ask(kind, **fields)


def listing(root: Path) -> dict[int, dict[str, Any]]:
    if not (root / ".gputui" / "control.sock").exists():
        return {}
    return {job["id"]: job for job in asked(root, "listing")["jobs"]}


def state(root: Path, job: int) -> str | None:
    return listing(root).get(job, {}).get("state")


def test_a_gpu_used_by_an_external_process_is_not_used_until_it_is_free(
    nvml: Any, run: Start, external_process: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    nvml.set([IDLE, {"mem_used": "11G", "procs": [f"{external_process} 10G C"]}])
    run("--gpus", "0,1", commands=("sleep 600", "sleep 600"))
    until(lambda: state(out, 0) == "running", "the first job runs on the free card")
    until(lambda: "used by" in str(listing(out)[1]["why"]), "the second says who is in its way")
    why = listing(out)[1]["why"]
    assert pwd.getpwuid(os.getuid()).pw_name in why
    assert f"pid {external_process}" in why
    assert "10.0G" in why
    assert state(out, 1) == "queued"
    left = time.time()
    nvml.set([IDLE, IDLE])
    until(lambda: state(out, 1) == "running", "the second job runs when the card is free")
    job = listing(out)[1]
    assert job["gpus"] == ["1"]
    assert job["started"] - left > 3, "the card rests for a while after its external process"


def test_share_gpus_ignores_external_processes(nvml: Any, run: Start, external_process: int, tmp_path: Path) -> None:
    nvml.set([{"mem_used": "11G", "procs": [f"{external_process} 10G C"]}])
    process = run("--gpus", "0", "--share-gpus", commands=("true",))
    assert process.wait(60) == 0


def test_jobs_share_a_gpu_only_while_their_memory_fits(nvml: Any, run: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    nvml.set([{"mem_used": "1G", "mem_total": "80G"}])
    run(
        "--gpus",
        "0x3",
        commands=("#: memory=30G", "sleep 600", "#: memory=50%", "sleep 600", "#: memory=10G", "sleep 600"),
    )
    until(lambda: state(out, 1) == "running", "the first two fit: 30 and 40 of 79 GB")
    until(lambda: "left" in str(listing(out)[2]["why"]), "the third says what is missing")
    assert "waiting for a GPU with 10.0 GiB" in listing(out)[2]["why"]


def test_the_gpu_usage_of_an_attempt_is_stored(nvml: Any, run: Start, tmp_path: Path) -> None:
    card = {"mem_used": "8G", "util": "60", "energy": 0}
    nvml.set([card])
    out, go, taken = tmp_path / "out", tmp_path / "go", set()
    process = run("--gpus", "0", commands=(f"until test -e {go}; do sleep 0.05; done",))
    until(lambda: state(out, 0) == "running", "it runs")

    def some_samples() -> bool:
        taken.add(asked(out, "slots")["sample"]["taken"])
        card["energy"] = (len(taken) - 1) * 1_800_000_000
        nvml.set([card])
        return len(taken) > 3

    until(some_samples, "its card was looked at while it ran")
    go.touch()
    assert process.wait(60) == 0
    (attempt,) = asked(tmp_path / "out", "show", job=0)["attempts"]
    assert attempt["gpu_mean"] == pytest.approx(60)
    assert attempt["gpu_peak_memory"] == 8 * 1024**3
    assert 0 < attempt["gpu_seconds"] <= attempt["ended"] - attempt["started"]
    assert attempt["kwh"] >= 0.5, "half a kilowatt-hour for each sample"


def test_keep_free_leaves_gpus_to_others(nvml: Any, run: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    nvml.set([IDLE, IDLE, IDLE])
    run("--gpus", "0,1,2", "--keep-free", "1", commands=("sleep 600",) * 3)
    until(lambda: state(out, 1) == "running", "two cards are used")
    until(lambda: "kept free" in str(listing(out)[2]["why"]), "the third job says why it waits")


def test_a_daemon_follows_a_killed_owner_at_once_although_the_driver_hangs(
    nvml: Any, run: Start, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    nvml.set([IDLE, IDLE])
    owner = run("--gpus", "0,1", commands=("sleep 600", "sleep 600"))
    until(lambda: state(out, 1) == "running", "both jobs run")
    nvml.set([IDLE, IDLE], delays={"nvmlDeviceGetMemoryInfo*": 600.0, "nvmlDeviceGetUtilizationRates": 600.0})
    until(lambda: "stale" in json.dumps(asked(out, "slots")["sample"]), "the driver hangs")
    owner.kill()
    owner.wait()
    until(lambda: _owner(out) not in (None, owner.pid), "daemon took over the session")
    assert {job["state"] for job in listing(out).values()} == {"running"}


def _owner(root: Path) -> int | None:
    owner = asked(root, "status")["process"]
    return owner["pid"] if owner is not None else None


def test_gpus_are_found_and_leased_on_a_python_like_condas(nvml: Any, run: Start, tmp_path: Path) -> None:
    nvml.set([IDLE] * 8)
    nvml.environment["PYTHONPATH"] = python_path(tmp_path, CONDA)
    run("--gpus", ",".join(map(str, range(8))), commands=("#: gpus=8", "sleep 600"))
    until(lambda: state(tmp_path / "out", 0) == "running", "the job runs on all cards")
    sample = asked(tmp_path / "out", "slots")["sample"]
    assert len(sample["devices"]) == 8
    leases = Leases("another", nvml.environment.get("GPUTUI_LEASES"))
    for device in sample["devices"]:
        assert len(leases.others(device["uuid"])) == 1


@pytest.mark.parametrize("other", ["the same user", "nobody"])
def test_two_sessions_never_use_one_gpu_at_once(nvml: Any, tmp_path: Path, other: str) -> None:
    """Each job says when it began and ended; those on one card must not overlap, whoever's they are."""
    if other == "nobody" and not _can_run_python(other):
        pytest.skip("two users need root, and a Python that others may run")
    nvml.set([IDLE])
    _open_to_others(tmp_path)
    _open_to_others(Path(nvml.environment["LD_LIBRARY_PATH"]))
    times = tmp_path / "times"
    times.touch()
    os.chmod(times, 0o666)
    command = f"echo $(date +%s%N) begin >>{times}; sleep 0.3; echo $(date +%s%N) end >>{times}"
    me = pwd.getpwuid(os.getuid()).pw_name
    with (
        _run_as(me, "one", nvml, tmp_path, command) as one,
        _run_as("nobody" if other == "nobody" else me, "two", nvml, tmp_path, command) as two,
    ):
        for process in (one, two):
            said = process.communicate(timeout=120)[0]
            assert process.returncode == 0, said
    words = [line.split()[1] for line in sorted(times.read_text().splitlines())]
    assert words == ["begin", "end"] * 8


def _can_run_python(user: str) -> bool:
    if os.getuid() != 0:
        return False
    entry = pwd.getpwnam(user)
    try:
        check = "import gputui.session.owner.owner"
        done = subprocess.run(
            [sys.executable, "-c", check], user=entry.pw_uid, group=entry.pw_gid, cwd="/", check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _open_to_others(directory: Path) -> None:
    os.chmod(directory, 0o777)
    for parent in directory.parents:
        if parent.name.startswith("pytest-"):
            os.chmod(parent, parent.stat().st_mode | 0o011)


def _run_as(user: str, name: str, nvml: Any, directory: Path, command: str) -> subprocess.Popen[str]:
    home = directory / name
    home.mkdir()
    entry = pwd.getpwnam(user)
    os.chown(home, entry.pw_uid, entry.pw_gid)
    (home / "jobs.txt").write_text(f"{command}\n" * 4)
    environment = {**nvml.environment, "HOME": str(home), "XDG_STATE_HOME": str(home)}
    environment.pop("FAKE_NVML_LOG")
    words = ["run", "--gpus", "0", "--output-dir", str(home / "out"), str(home / "jobs.txt")]
    identity: dict[str, Any] = {"user": entry.pw_uid, "group": entry.pw_gid} if entry.pw_uid != os.getuid() else {}
    return subprocess.Popen(
        [sys.executable, "-m", "gputui", *words],
        env=environment, cwd=home, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        **identity,
    )  # fmt: skip


def silent(root: Path, job: int) -> str:
    why = listing(root).get(job, {}).get("why") or ""
    return why if why.startswith("silent") else ""


def test_a_job_without_output_on_an_idle_gpu_is_flagged_in_time(nvml: Any, run: Start, tmp_path: Path) -> None:
    """The second spins on a processor, as a collective call does that waits for a dead partner; the third's card works;
    of the fourth's the driver tells nothing, and its processors work."""
    out, spin = tmp_path / "out", "while :; do :; done"
    nvml.set([IDLE, IDLE, IDLE | {"util": "60"}, {**IDLE, "util": "na"}])
    commands = [line for command in ("sleep 600", spin, "sleep 600", spin) for line in ("#: hang_after=4s", command)]
    run("--gpus", "0,1,2,3", commands=tuple(commands))
    until(lambda: silent(out, 0) and silent(out, 1), "both are flagged")
    for job in (0, 1):
        shown = asked(out, "show", job=job)
        at = next(line["time"] for line in shown["history"] if line["text"].startswith("no output or activity for "))
        assert 4.0 <= at - shown["started"] < 30.0, "by the history, which does not depend on when we look"
    assert not silent(out, 2)
    assert not silent(out, 3)


def test_a_hung_job_is_requeued_and_its_hook_runs(nvml: Any, run: Start, tmp_path: Path) -> None:
    settings = tmp_path / "config" / "gputui"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(
        f"[hooks]\non_hang = 'echo $GPUTUI_JOB_ID $GPUTUI_CAUSE >> {tmp_path}/hung'\n"
    )
    nvml.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    nvml.set([IDLE])
    out = tmp_path / "out"
    run("--gpus", "0", commands=("#: hang_after=2s on_hang=requeue", "sleep 600"))
    until(lambda: listing(out).get(0, {}).get("attempt") == 2, "its second attempt runs")
    until((tmp_path / "hung").exists, "the hook has run")
    assert (tmp_path / "hung").read_text().startswith("0 silent 0:02")
    (first,) = asked(out, "show", job=0)["attempts"]
    assert (first["state"], first["message"]) == ("timed_out", "no activity for 2 s, stopped")


def test_a_start_that_cannot_be_saved_keeps_no_lease(
    nvml: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise StoreTrouble("cannot write the queue: database or disk is full")

    nvml.set([IDLE])
    for name, value in nvml.environment.items():
        monkeypatch.setenv(name, value)
    with owned(tmp_path / "s", (Slot(0, ("0",), DeviceKind.GPU),)) as owner:
        until(lambda: owner.devices.sample is not None and owner.devices.sample.complete, "the GPU is known")
        key = owner.devices.sample.devices[0].key  # type: ignore[union-attr]
        other_session = Leases("other", nvml.environment["GPUTUI_LEASES"])
        with monkeypatch.context() as disk:
            disk.setattr(owner.store, "commit", full)
            with pytest.raises(CommitFailed):
                add(owner, spec("exec sleep 600"))
            assert other_session.others(key) == []
        until(lambda: owner.snapshot.trouble is None, "the queue is writable again")
        [job] = add(owner, spec("exec sleep 600"))
        until(lambda: len(other_session.others(key)) == 1, "a job that starts has a lease")
        owner.do(Commands((Kill(job=job, now=True),))).result(60)
        ended(owner, job)
