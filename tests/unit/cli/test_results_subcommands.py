"""`gputui results` and `gputui summary` on a real sweep: the best first, what parameters did, what failed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from support.sessions import Session

from gputui.python.api.session import Session as ApiSession

TRAIN = """\
import math, sys
given = dict(word[2:].split("=") for word in sys.argv[1:])
if given["model"] == "vit" and given["lr"] == "1.0":
    raise ValueError("loss is nan")
for epoch in range(1, 4):
    loss = abs(math.log10(float(given["lr"]))) + (0.5 if given["model"] == "vit" else 0) + int(given["seed"]) / 100
    print(f"epoch {epoch}/3 val_loss: {loss + 1 / epoch:.4f} acc {10 * epoch}%")
"""


@pytest.fixture
def swept(tmp_path: Path) -> Session:
    session = Session(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    lines = [
        f"python3 train.py --model={model} --lr={lr} --seed={seed}"
        for model in ("cnn", "vit")
        for lr in ("0.01", "0.1", "1.0")
        for seed in (0, 1)
    ]
    done = session.run(session.write(*lines), "--pause-after", "0", gpus="sim:4")
    assert "best val_loss   #4 cnn lr=1.0 seed=0" in done.stderr, done.stderr
    assert "failed 2 × ValueError: loss is nan" in done.stderr
    return session


def test_results_and_summary_of_a_sweep(swept: Session) -> None:
    top = swept.call("results", "--top", "2").stdout.splitlines()
    assert top[0].split() == ["id", "state", "model", "lr", "seed", "val_loss", "at", "acc", "time", "gpu"]
    assert top[1].split()[:8] == ["★", "4", "✓", "succeeded", "cnn", "1.0", "0", "0.3333"]
    rows = list(csv.DictReader(io.StringIO(swept.call("results", "--csv").stdout)))
    assert [row["id"] for row in rows[:3]] == ["4", "5", "2"]
    assert rows[0]["val_loss"] == "0.3333"
    assert len(rows) == 10
    told = json.loads(swept.call("results", "--json", "--metric", "acc").stdout)
    assert told["metric"] == {"name": "acc", "direction": "max"}
    assert told["jobs"][0]["best"] == 30
    text = swept.call("summary").stdout
    assert text.startswith("DONE, 2 ✗  10 ok · 2 failed")
    assert "by lr" in text
    assert "runs that differ only in their seed: 0.01" in text
    summed = json.loads(swept.call("summary", "--json").stdout)
    assert (summed["succeeded"], summed["failed"], summed["best"][0]["id"]) == (10, 2, 4)
    assert "median val_loss by lr × model" in text
    line = next(line for line in text.splitlines() if line.split()[:1] == ["1.0"] and "✗" in line)
    assert line.split() == ["1.0", "★0.3383", "n", "2", "2", "✗"]
    other = swept.call("summary", "--by", "seed,lr")
    assert "median val_loss by lr × seed" in other.stdout
    assert [
        each["rows"]["name"] for each in json.loads(swept.call("summary", "--json", "--by", "lr,seed").stdout)["maps"]
    ] == ["lr"]
    assert "--by lr,net: use two of lr, model, seed" in swept.call("summary", "--by", "lr,net").stderr
    assert "--top: invalid number 'x'" in swept.call("results", "--top", "x").stderr
    refused = swept.call("results", "--metric", "nope")
    assert refused.returncode == 1
    assert "no job has printed nope; found: acc, val_loss" in refused.stderr


def test_a_saved_metric_applies_to_python_programs_too(swept: Session) -> None:
    swept.call("results", "--metric", "acc", "--save")
    assert json.loads(swept.call("results", "--json").stdout)["metric"]["name"] == "acc"
    best = {result.job: result for result in ApiSession(swept.root).results()}[4]
    assert (best.metrics["val_loss"], best.last["acc"], best.progress) == (0.3333, 30, 1.0)
    assert best.params["lr"] == "1.0"


def results_of(tmp_path: Path, *commands: str) -> tuple[Session, list[list[str]]]:
    """A session in which each of these ran, and its table, a job per line."""
    session = Session(tmp_path)
    session.run(session.write(*commands), "--pause-after", "0", gpus="cpu:2")
    return session, [line.split() for line in session.call("results").stdout.splitlines()[1:]]


def test_the_result_of_a_failed_job_is_shown(tmp_path: Path) -> None:
    _, (row,) = results_of(tmp_path, "echo val_loss=0.3; exit 3")
    assert "0.3000" in row


def test_small_results_keep_enough_digits_beside_large_ones(tmp_path: Path) -> None:
    values = ("1.2e-4", "1.4e-4", "0.2", "0.0123451", "0.0123461")
    session, rows = results_of(tmp_path, *(f"echo val_loss={value}" for value in values))
    assert {"1.200e-04", "1.400e-04", "0.2000"} <= {word for row in rows for word in row}
    assert "1.400e-04" in session.call("summary").stdout


def test_a_job_that_came_to_nan_is_listed_last_and_named(tmp_path: Path) -> None:
    session, rows = results_of(tmp_path, "echo val_loss=nan", "echo val_loss=0.5", "echo val_loss=0.6; exit 1")
    assert ["nan" in row for row in rows] == [False, False, True]
    assert "1 job printed val_loss as nan only: #0" in session.call("summary").stdout
    told = json.loads(session.call("results", "--json").stdout)["jobs"][-1]
    assert (told["id"], told["best"], told["not_finite"]) == (0, None, "nan")
    assert session.call("report", "-o", str(tmp_path / "page.html")).returncode == 0


def test_a_parameter_that_jobs_print_back_is_one_column_and_a_result_of_that_name_stays(tmp_path: Path) -> None:
    program = tmp_path / "train.sh"
    program.write_text("echo epoch 1 lr=$2 loss=0.$4 kl=0.9; echo epoch 2 lr=${2}e-1 loss=0.$4 kl=0.8\n")
    session, _ = results_of(tmp_path, *(f"sh {program} --lr 0.0{lr} --kl {lr}" for lr in (1, 2, 3)))
    head = session.call("results").stdout.splitlines()[0].split()
    assert (head.count("lr"), head.count("kl")) == (1, 2), "a kl of 0.9 is not what was asked for"
    told = json.loads(session.call("results", "--json").stdout)
    assert (told["params"], told["others"]) == (["lr", "kl"], ["kl"])
    columns = next(csv.reader(io.StringIO(session.call("results", "--csv").stdout)))
    assert columns.count("lr") == 1


def test_a_table_has_no_columns_that_are_empty_in_every_row(tmp_path: Path) -> None:
    program = tmp_path / "train.sh"
    program.write_text("echo $1 loss=0.$2\n")
    session, _ = results_of(tmp_path, *(f"sh {program} '' {seed}" for seed in (1, 2)))
    assert session.call("results").stdout.splitlines()[0].split() == ["id", "state", "job", "loss", "time"]
    on_gpus = Session(tmp_path, "gpus")
    on_gpus.run(on_gpus.write(f"sh {program} 'epoch 3' 4"), gpus="sim:2")
    assert {"at", "gpu"} <= set(on_gpus.call("results").stdout.splitlines()[0].split())
