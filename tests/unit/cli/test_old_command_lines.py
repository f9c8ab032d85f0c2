"""The command lines of the older tools' documents, with only the program's name changed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import Home, reap
from support.waiting import until

NAMES = {"simple_gpu_scheduler": "gputui run", "simple_hypersearch": "gputui sweep", "hog": "gputui run"}
TRAIN = "import os, sys\nprint(*sys.argv[1:], 'on', os.environ['CUDA_VISIBLE_DEVICES'])\n"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for name in ("gputui_run", "hog_run"):
        Home(tmp_path, name).end()
    reap()


def line(text: str, directory: Path) -> subprocess.Popen[str]:
    """The line in a shell of its own, where python and gputui are those of this test."""
    for old, new in NAMES.items():
        text = text.replace(f"{old} ", f"{new} ")
    shell = f'gputui() {{ "{sys.executable}" -m gputui "$@"; }}\n{text}\n'
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    return subprocess.Popen(
        ["bash", "-c", shell],
        cwd=directory,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def outputs(root: Path) -> list[str]:
    return sorted(path.read_text() for path in root.glob("job_*/job_*.OUT"))


def test_simple_gpu_scheduler_s_simple_example(directory: Path) -> None:
    (directory / "train_model.py").write_text(TRAIN)
    (directory / "gpu_commands.txt").write_text(
        "python train_model.py --lr 0.001 --output run_1\n"
        "python train_model.py --lr 0.0005 --output run_2\n"
        "python train_model.py --lr 0.0001 --output run_3\n"
    )
    code, out, err = finished(line("simple_gpu_scheduler --gpus 0 1 2 < gpu_commands.txt", directory))
    assert code == 0, err
    processed = [one for one in out.splitlines() if one.startswith("Processing command `python train_model.py --lr ")]
    assert sorted(one.rpartition(" on gpu ")[2] for one in processed) == ["0", "1", "2"]
    assert [one.partition(" on ")[0] for one in outputs(directory / "gputui_run")] == [
        "--lr 0.0001 --output run_3",
        "--lr 0.0005 --output run_2",
        "--lr 0.001 --output run_1",
    ]


@pytest.mark.parametrize(("samples", "jobs"), [("", 9), ("--n-samples 5 ", 5)])
def test_simple_hypersearch_piped_into_the_scheduler(directory: Path, samples: str, jobs: int) -> None:
    (directory / "train_dnn.py").write_text(TRAIN)
    search = (
        'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}" '
        f"{samples}-p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2"
    )
    code, out, err = finished(line(search, directory))
    assert code == 0, err
    assert len(set(outputs(directory / "gputui_run"))) == jobs
    assert out.count("Processing command `python3 train_dnn.py --lr") == jobs


def test_simple_gpu_scheduler_s_queue_that_is_appended_to(directory: Path) -> None:
    (directory / "gpu.queue").write_text("echo written before\n")
    process = line("touch gpu.queue\ntail -f -n 0 gpu.queue | simple_gpu_scheduler --gpus 0,1,2", directory)
    home = Home(directory, "gputui_run")
    until((home.private / "control.sock").exists, "the scheduler is up")
    until(lambda: home.ask("status")["process"] is not None, "it answers")
    submit = 'echo "echo my command | tr m M > logfile" >> gpu.queue'
    assert finished(line(submit, directory))[0] == 0
    logfile = directory / "logfile"
    until(lambda: logfile.exists() and logfile.read_text() == "My coMMand\n", "the command was run")
    os.killpg(process.pid, 15)
    process.communicate()
    assert len(list((directory / "gputui_run").glob("job_*"))) == 1


def test_hog_s_basic_use(directory: Path) -> None:
    (directory / "foo.txt").write_text(
        "# comment\n\ncd / && echo $PWD $CUDA_VISIBLE_DEVICES\n[[ a == b ]]\necho e >&2\n"
    )
    code, _, err = finished(line("hog --job_file foo.txt --gpus 1,2,3", directory))
    assert code == 1, err
    jobs = directory / "hog_run"
    assert sorted(path.name for path in jobs.glob("job_*")) == ["job_0", "job_1", "job_2"]
    assert sorted(path.name for path in (jobs / "job_0").iterdir()) == ["INFO", "SUCCESS", "job_0.ERR", "job_0.OUT"]
    assert (jobs / "job_0/job_0.OUT").read_text() in ("/ 1\n", "/ 2\n", "/ 3\n")
    assert (jobs / "job_1/FAILURE").read_text() == ""
    assert (jobs / "job_2/job_2.ERR").read_text() == "e\n"
    info = (jobs / "job_2/INFO").read_text().splitlines()
    assert info[0] == "job name: job_2"
    assert info[1].startswith("ran on gpu: ")
    assert info[2] == "command: echo e >&2"


def test_hog_s_yielder_loses_no_job_however_long_it_thinks(directory: Path) -> None:
    """Seven seconds: gpu-hog's workers left after five, and the job was lost."""
    (directory / "test.py").write_text(
        "import time\ndef yielder():\n    yield 'echo first'\n    time.sleep(7)\n    yield 'echo second'\n"
    )
    flags = "--gpus 0,0,1 --output_dir mine --prefix run_"
    code, out, err = finished(line(f"hog --job_yielder test.py {flags}", directory))
    assert code == 0, err
    assert (directory / "mine/run_0/run_0.OUT").read_text() == "first\n"
    assert (directory / "mine/run_1/run_1.OUT").read_text() == "second\n"
    assert out.count("Processing command") == 2
    assert not (directory / "hog_run").exists()
