"""How far a job is can be read off what it prints, and what is no progress is not taken for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputui.logs import progress as progress_reader
from gputui.logs.line_index import read_tail
from gputui.logs.progress import Progress, ProgressReader, progress_of

TOLD = [
    (" 61%|██████    | 61/100 [00:10<00:06,  9.80it/s]", 0.61, "61%"),
    ("train:   5%|▌         | 5/100 [00:01<00:19,  5.00it/s, loss=1.2]", 0.05, "5%"),
    ("\r  0%|          | 0/5\r 40%|####      | 2/5\r", 0.40, "40%"),
    ("100%|##########| 5/5 [00:01<00:00]\nsaving the model", 1.0, "100%"),
    ("Epoch 12:  61%|██████    | 61/100 [00:10<00:06]", 0.61, "epoch 12 61%"),
    ("epoch 45/90 loss 1.9", 0.5, "epoch 45/90"),
    ("[Epoch 3/10] loss 2", 0.3, "epoch 3/10"),
    ("Epoch 3 of 10", 0.3, "epoch 3/10"),
    ("Epoch 5/10\n 50/100 [=====>....] - ETA: 6s - loss: 1.2", 0.45, "epoch 5/10"),
    ("Epoch 5/10:  50%|#####     | 50/100", 0.45, "epoch 5/10"),
    ("epochs:  40%|####      | 4/10 [1:00<5:00]\nbatch:  50%|#####     | 50/100", 0.45, "epoch 4/10"),
    ("      5/10      4.1G      1.2       640:  50%|#####     | 50/100 [00:1<00:1]", 0.45, "epoch 5/10"),
    ("epoch 5/10  loss 1.932  ━━━━━╸━━ 50%", 0.45, "epoch 5/10"),
    ("step 610/1000 loss 2", 0.61, "step 610/1000"),
    ("Iter [610/1000] lr 0.1", 0.61, "iter 610/1000"),
    ("Trial 3/20 finished", 0.15, "trial 3/20"),
    ("61/100 ━━━━━━━━━━ 6s 10ms/step - loss: 1", 0.61, "61/100"),
    ("[610/1000] compiling", 0.61, "610/1000"),
    ("Progress: 61.5%", 0.61, "61%"),
    ("\x1b[32mWorking... ━━━━━━━━━━━━━ 100% 0:00:00\x1b[0m", 1.0, "100%"),
    ("[ 61%] Building CXX object", 0.61, "61%"),
    ("61%", 0.61, "61%"),
]
SILENT = [
    "",
    "61it [00:10, 6.1it/s]",
    "val acc 93.1%",
    "GPU memory 97%",
    "12/09/2024 10:00 hello",
    "accuracy 9312/10000 correct",
    "/data/1/2",
    "Downloading 12/90 MB",
    "999%",
    "epoch 1/1",
    "loss 1/0",
    "150/100 too many",
    "[03/14 10:21:07 d2.utils.events]:  eta: 2:31:45  iter: 1259  total_loss: 0.91",
    "03/14 10:21:07 - mmengine - INFO - Epoch(val) [3][40/625]",
    "Test: [ 40/196]  Time 0.1",
    "Validation DataLoader 0:  20%|██        | 10/50 [00:00<00:01, 31.2it/s]",
    "Loading checkpoint shards:  50%|█████     | 2/4 [00:04<00:04,  2.11s/it]",
    "Receiving objects:  71% (412/580), 3.12 MiB | 1.20 MiB/s",
    "\x00\xff\xfe",
]


@pytest.mark.parametrize(("printed", "fraction", "text"), TOLD)
def test_progress_is_read(printed: str, fraction: float, text: str) -> None:
    progress = progress_of(f"starting\n{printed}".encode())
    assert progress is not None
    assert progress.text == text
    assert progress.fraction == pytest.approx(fraction)


@pytest.mark.parametrize("printed", SILENT)
def test_what_is_no_progress_is_not_taken_for_it(printed: str) -> None:
    assert progress_of(f"starting\n{printed}\n".encode("utf-8", "surrogateescape")) is None


@given(st.one_of(st.binary(max_size=300), st.text("epoch step 0123456789/%|[]\r\n#=", max_size=200).map(str.encode)))
def test_anything_may_be_printed(tail: bytes) -> None:
    progress = progress_of(tail)
    assert progress is None or (0 <= progress.fraction <= 1 and progress.text.isprintable())


@pytest.mark.parametrize(
    "piece", [b"1", b"1/", b"%|", b"9%|", b"epoch ", b" ", b"===", b"step 1/", b"[", b"1 of ", b"\x1b[", b"done "]
)
def test_a_hostile_tail_costs_little(piece: bytes) -> None:
    begin = time.process_time()
    progress_of(piece * (8192 // len(piece)))
    assert time.process_time() - begin < 1


def test_files_are_read_only_when_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    reads: list[str] = []

    def counting(path: str, limit: int) -> bytes:
        reads.append(os.path.basename(path))
        return read_tail(path, limit)

    monkeypatch.setattr(progress_reader, "read_tail", counting)
    reader = ProgressReader()
    assert reader.read(out, err) is None
    out.write_text("step 1/10\n")
    assert reader.read(out, err) == Progress(0.1, "step 1/10")
    assert reader.read(out, err) == Progress(0.1, "step 1/10")
    assert reads == ["out"]
    with out.open("a") as file:
        file.write("step 2/10\n")
    assert reader.read(out, err) == Progress(0.2, "step 2/10")
    assert reads == ["out", "out"]


def test_the_file_written_last_knows_best_unless_epochs_are_counted(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("step 1/10\n")
    err.write_text(" 50%|#####     | 5/10")
    os.utime(out, (100, 100))
    os.utime(err, (200, 200))
    assert ProgressReader().read(out, err) == Progress(0.5, "50%")
    out.write_text("epoch 1/10\n")
    os.utime(out, (100, 100))
    assert ProgressReader().read(out, err) == Progress(0.1, "epoch 1/10", whole=True)
    assert ProgressReader().read(out, None) == Progress(0.1, "epoch 1/10", whole=True)


def test_progress_of_many_jobs_is_kept_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_reader, "MOST_FILES", 3)
    reader = ProgressReader()
    for number in range(9):
        (tmp_path / str(number)).write_text("50%\n")
        reader.read(tmp_path / str(number), None)
    assert len(reader._seen) == 3
