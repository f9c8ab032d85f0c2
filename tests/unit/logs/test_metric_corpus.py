"""How often the reader of results is right on what training programs print, and that how bytes arrive changes nothing.

Each line of `corpus/metrics.jsonl` is a sample with its labelled readings. Names are compared without case and signs; a
train reading may say so or not, a validation reading under a train reading's name is wrong.
"""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.waiting import never_hanging

from gputui.logs.metrics import MetricReader, MetricReading
from gputui.logs.metrics.findings import NameKind, kind_of

Sample = dict[str, Any]
CORPUS = Path(__file__).parent / "corpus"
CORPORA: dict[str, list[Sample]] = {
    name: [json.loads(line) for line in (CORPUS / name).read_bytes().split(b"\n") if line]
    for name in ("metrics.jsonl", "unseen_metrics.jsonl")
}
SAMPLES = [sample for samples in CORPORA.values() for sample in samples]
PHASES = re.compile("train|val|test|eval|dev|pred")


def flat(name: str) -> str:
    return re.sub(r"[\W_]+", "_", re.sub(r"[@%+]", lambda one: f"x{ord(one[0])}x", name.casefold())).strip("_")


def fits(label: Sample, reading: MetricReading) -> bool:
    names = {flat(name) for name in (label["name"], *label.get("aka", ()))}
    names |= {name.removeprefix("train_") for name in names}
    names |= {f"train_{name}" for name in names if PHASES.search(name) is None}
    values = [
        float(value) for value in (label["value"], *label.get("alt", ()), *([label["avg"]] if "avg" in label else []))
    ]
    values += [values[0] / 100] if label.get("unit") == "%" else []
    return flat(reading.name) in names and any(same(value, reading.value) for value in values)


def same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or one == other or math.isclose(one, other, rel_tol=1e-6)


def read(sample: Sample) -> tuple[list[MetricReading], float | None]:
    reader, raw, at = MetricReader(), sample["raw"].encode(), 0
    readings: list[MetricReading] = []
    if sample["mid_line"]:
        reader.gap()
    for cut in (*sample["cuts"], len(raw)):
        readings += reader.feed(raw[at:cut])
        at = cut
    return readings + reader.finish(), reader.progress


@pytest.mark.parametrize("corpus", CORPORA)
def test_named_numbers_and_progress_are_right_on_the_corpus(corpus: str) -> None:
    labelled = found = reported = false = right = 0
    for sample in CORPORA[corpus]:
        readings, progress = read(sample)
        labelled += len(sample["metrics"])
        found += sum(any(fits(label, one) for one in readings) for label in sample["metrics"])
        reported += len(readings)
        false += sum(not any(fits(label, one) for label in sample["metrics"] + sample["also_ok"]) for one in readings)
        wanted = sample["progress"]
        right += progress == wanted or (
            None not in (progress, wanted) and abs(progress - wanted) <= sample["progress_tol"] + 1e-3
        )
    print(f"found {found}/{labelled}, false {false}/{reported}, progress {right}/{len(CORPORA[corpus])}")
    assert found >= 0.97 * labelled
    assert false <= 0.02 * reported
    assert right >= 0.98 * len(CORPORA[corpus])


def test_unknown_frameworks_are_read_too() -> None:
    lines = (CORPUS / "other_frameworks.jsonl").read_bytes().split(b"\n")
    missed: list[str] = []
    labelled = 0
    for sample in (json.loads(line) for line in lines if line):
        readings, progress = read({**sample, "cuts": [], "mid_line": False})
        labelled += len(sample["metrics"])
        missed += [f"{sample['id']}: {one}" for one in sample["metrics"] if not any(fits(one, got) for got in readings)]
        wanted = sample["progress"]
        assert wanted == "any" or progress == wanted or abs((progress or 0) - (wanted or 0)) < 0.01, sample["id"]
    assert len(missed) <= 0.08 * labelled, "\n".join(missed)


FORMS = {
    "a number before its name": ("9: 6.5, 6.66 avg loss, 0.001 rate\n", {"avg_loss": 6.66}),
    "decimal commas": ("Verlust: 0,412 · Genauigkeit: 91,2 %\n", {"Verlust": 0.412, "Genauigkeit": 91.2}),
    "a rate alone, after an epoch": ("Epoch 3\nlr: 0.01\n", {"lr": 0.01}),
    "a rate alone, before any": ("lr: 0.01\n", {}),
    "rows that are results": ("     Train | Valid\nacc  | 0.8 | 0.7\n", {"Train_acc": 0.8, "Valid_acc": 0.7}),
    "metric and value": (
        "|Task|Metric|Value|\n|---|---|---|\n|arc|acc|0.4|\n| |f1|0.5|\n",
        {"arc_acc": 0.4, "arc_f1": 0.5},
    ),
    "a header of two lines": (
        "|Epoch|Batch|Batch|\n| |Loss|Accuracy|\n|1|2.3|14.0%|\n",
        {"Batch_Loss": 2.3, "Batch_Accuracy": 14},
    ),
    "a list of one in a cell": ("| Epoch | time | recall |\n|   6   | 9.1  | [0.03] |\n", {"recall": 0.03}),
    "blanks in CSV": ("Epoch ,LR ,RMSE\n   0 ,0.1 , 14.5\n", {"LR": 0.1, "RMSE": 14.5}),
    "slashes in names": ("9.6it/s train/loss: 0.4 val/acc: 0.8\n", {"train/loss": 0.4, "val/acc": 0.8}),
    "a dictionary over several lines": (
        "{'Loss/box': 0.2,\n 'Loss/total_loss': 0.5}\n",
        {"Loss/box": 0.2, "Loss/total_loss": 0.5},
    ),
    "a version": ("top_loss==0.1 is needed\n", {}),
    "a condition and weights": ("stops when val_loss < 0.1, loss weights: {'ce': 1.0, 'dice': 0.5}\n", {}),
    "an open bracket": ("Epoch 3, loss[loss=0.2, over 9.0 frames. ]\n", {"loss": 0.2}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_named_numbers(form: str) -> None:
    printed, named = FORMS[form]
    readings = MetricReader().feed(printed.encode())
    assert {reading.name: reading.value for reading in readings if kind_of(reading.name) is not NameKind.OTHER} == named


@pytest.mark.parametrize(
    ("printed", "progress"),
    [
        ("[batch=120/4000]:", 0.03),
        ("[ 42.0%] 4200 of 10000 steps done", 0.42),
        ("Train Epoch: 12 [40%]", 0.4),
        ("acc: 0.81, loss: 0.4 ||:  42%|####2     | 420/1000 [00:31<00:43, 13.41it/s]", 0.42),
        ("Epoch 12/50  train: loss=0.4  |  valid: loss=0.5", 0.24),
        ("INFO Train: [2/4][5/10] loss 3.4", 0.375),
        ("loss: 1.871002  [384/600]", 0.64),
        ("Train: 12 [ 350/1250 ( 28%)]  Loss: 3.41", 0.28),
        ("[=====>....]  Loss: 0.912 | Acc: 67.8% (135/200) 157/314", 0.5),
        ("Training ━━━━━━━━╸━━━━ 45% 0:00:12", 0.45),
        ('{"step": 300, "total_steps": 1000, "loss": 0.5}', 0.3),
        ('{"epoch": 3, "epochs": 10, "loss": 0.5}', 0.3),
        ("{'loss': 0.5, 'global_step/max_steps': '120/400'}", 0.3),
        ("Epochs:  20%|##   | 2/10 [1:12<4:48, 30.1s/it]\nBatches:  40%|####  | 160/400 [02:01<02:54, 1.3it/s]", 0.24),
        ("  0%|          | 0/5 [00:00<?]\r 40%|####      | 2/5 [00:01<00:02]", 0.4),
        ("100%|##########| 5/5 [00:01<00:00]\nsaving the model", 1),
        ("epoch 45/90 loss 1.9", 0.5),
        ("[Epoch 3/10] loss 2", 0.3),
        ("Epoch 3 of 10", 0.3),
        ("Epoch 5/10\n 50/100 [=====>....] - ETA: 6s - loss: 1.2", 0.45),
        ("      5/10      4.1G      1.2       640:  50%|#####     | 50/100 [00:1<00:1]", 0.45),
        ("epoch 5/10  loss 1.932  ━━━━━╸━━ 50%", 0.45),
        ("Iter [610/1000] lr 0.1", 0.61),
        ("Trial 3/20 finished", 0.15),
        ("61/100 ━━━━━━━━━━ 6s 10ms/step - loss: 1", 0.61),
        ("Progress: 61.5%", 0.615),
        ("\x1b[32mWorking... ━━━━━━━━━━━━━ 100% 0:00:00\x1b[0m", 1),
        ("[ 61%]", 0.61),
        ("61it [00:10, 6.1it/s]", None),
        ("val acc 93.1%", None),
        ("GPU memory 97%", None),
        ("12/09/2024 10:00 hello", None),
        ("accuracy 9312/10000 correct", None),
        ("/data/1/2", None),
        ("Downloading 12/90 MB", None),
        ("999%", None),
        ("epoch 1/1", None),
        ("loss 1/0", None),
        ("150/100 too many", None),
        ("[03/14 10:21:07 d2.utils.events]:  eta: 2:31:45  iter: 1259  total_loss: 0.91", None),
        ("03/14 10:21:07 - mmengine - INFO - Epoch(val) [3][40/625]", None),
        ("Test: [ 40/196]  Time 0.1", None),
        ("Loading checkpoint shards:  50%|█████     | 2/4 [00:04<00:04,  2.11s/it]", None),
        ("Receiving objects:  71% (412/580), 3.12 MiB | 1.20 MiB/s", None),
        ("acc: 0.91 [910/1000]", None),
        ("Step 7/12 : RUN make", None),
        ("Downloading ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 31/100", None),
        ("Validation [=====>....] 31/100", None),
        ("(0/4) Epoch 3, loss 0.2", None),
        ("[12/121] Building CUDA object a.cu.o", None),
    ],
)
def test_progress_is_read_from_counters_of_the_work(printed: str, progress: float | None) -> None:
    reader = MetricReader()
    reader.feed(f"{printed}\n".encode())
    assert reader.progress == pytest.approx(progress)


def _bars(description: str, postfix: str) -> list[str]:
    """Return what tqdm draws for three of ten epochs; each bar's first frame has no description yet."""
    frames = []
    for epoch in (1, 2, 3):
        words, after = description.format(epoch), postfix.format(epoch)
        frames.append("  0%|          | 0/200 [00:00<?, ?it/s]\r")
        for done in (1, 50, 100, 200):
            frames.append(f"{words}{done // 2:3d}%|###       | {done}/200 [00:31<01:02,  3.21it/s{after}]\r")
        frames.append("\n")
    return frames


@pytest.mark.parametrize(
    ("description", "postfix", "end"),
    [
        ("Epoch {}/10 loss 0.4: ", "", 0.3),
        ("Epoch [{}/10]: ", ", loss=0.4", 0.3),
        ("", ", epoch={}/10, loss=0.4", 0.3),
        ("      {}/10      2.3G      1.41      2.87        43       640: ", "", 0.3),
        ("", ", epoch={}, loss=0.4", 1.0),
        ("Epoch {}: ", ", loss=0.4", 1.0),
    ],
)
def test_a_bar_that_names_its_epoch_late_moves_the_progress(description: str, postfix: str, end: float) -> None:
    reader = MetricReader()
    if description.endswith("640: "):
        reader.feed(b"      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size\n")
    seen = [(reader.feed(frame.encode()), reader.progress)[1] for frame in _bars(description, postfix)]
    assert reader.progress == pytest.approx(end)
    if end < 1:
        known = [far for far in seen if far is not None]
        assert known == sorted(known)
        assert len({round(far, 3) for far in known}) > 9


def test_names_of_columns_lose_their_stray_brackets() -> None:
    printed = (
        b"  Class  Images  Instances  Box(P  R  mAP50  mAP50-95)  Mask(P  R  mAP50  mAP50-95): 100%|##| 4/4 [00:01]\n"
        b"  all       128        929   0.68  0.5   0.63      0.47     0.66  0.5    0.6       0.4\n"
    )
    assert set(named(printed)) == {"P", "R", "mAP50", "mAP50-95", "Mask_P", "Mask_R", "Mask_mAP50", "Mask_mAP50-95"}
    assert named(b"epoch 3 mAP50-95): 0.41\n") == {"mAP50-95": 0.41}


def test_all_rows_of_a_box_have_its_step() -> None:
    box = b"---------------\n| approxkl | 0.01 |\n| total_timesteps | 800 |\n| value_loss | 3.1 |\n---------------\n"
    readings = MetricReader().feed(box)
    assert {(one.name, one.step) for one in readings} == {("approxkl", 800), ("value_loss", 800)}


@given(st.sampled_from(SAMPLES), st.lists(st.integers(0, 2000), max_size=6))
def test_chunks_and_resumed_readers_change_nothing(sample: Sample, cuts: list[int]) -> None:
    raw = sample["raw"].encode()
    whole = MetricReader()
    expected = whole.feed(raw) + whole.finish()
    reader, at, readings = MetricReader(), 0, []
    for cut in (*sorted(min(cut, len(raw)) for cut in cuts), len(raw)):
        readings += reader.feed(raw[at:cut])
        reader, at = MetricReader.resume(reader.state()), cut
    readings += reader.finish()
    assert repr(readings) == repr(expected)
    assert reader.progress == whole.progress


@pytest.mark.parametrize("cut", [0, 8])
def test_a_line_whose_beginning_was_not_read_is_skipped(cut: int) -> None:
    reader, raw = MetricReader(), b"oss=0.7 acc=0.15\nval_loss=0.2\n"
    reader.gap()
    readings = reader.feed(raw[:cut]) + reader.feed(raw[cut:])
    assert [(reading.name, reading.value) for reading in readings] == [("val_loss", 0.2)]


@given(st.one_of(st.binary(max_size=400), st.text("los=: 0.1/%|[]{}'\",\r\n\t-()nae", max_size=300).map(str.encode)))
def test_anything_may_be_printed(printed: bytes) -> None:
    reader = MetricReader()
    reader.feed(printed)
    reader.finish()
    assert reader.progress is None or 0 <= reader.progress <= 1


def test_an_invalid_state_is_refused() -> None:
    with pytest.raises(ValueError, match="not the state"):
        MetricReader.resume(b"rubbish")


@pytest.mark.parametrize(
    "line",
    [
        *(" " * 380 + "x 0.5", "{" + " " * 15_000, "/" * 590 + " 0.5", "a-" * 290 + "=0.5"),
        *("loss " + "is " * 180 + "x 0.5", "a[" * 290 + "=0.5", "| loss " * 80 + "|", "run_1_of_many " * 40 + "x=0.5"),
        *("loss 0,5 " * 60, "1.5 loss, " * 55, "epoch " * 90 + "5%", "a=1" * 190 + " 5%|#| 1/2 [1]"),
        *("mae 0.5 a/b/c/d" * 38, "5% " + "━" * 590, "5% ━━━━━━ 1/2 " * 42, "| a | 0.5 |", "Box(P " * 98),
        *("0.5 a/b" * 80, "[" + "=" * 590, "[===== " * 85, "'a/b': 1, " * 58, "{" + "'step" * 120 + "}"),
    ],
    ids=[
        *("blanks", "an open brace", "slashes", "dashes", "words", "open brackets", "cells", "names of runs"),
        *("decimal commas", "numbers first", "epochs", "pairs before a bar"),
        *("units", "a long bar", "many bars", "a box", "groups of columns"),
        *("rates", "a bar without end", "bars", "quoted names", "steps"),
    ],
)
def test_no_line_keeps_its_reader_busy(line: str) -> None:
    """A search that scanned the same blanks again and again once blocked the scheduler for a minute."""

    with never_hanging():
        MetricReader().feed(f"{line}\n".encode() * 5)


def named(printed: bytes) -> dict[str, float]:
    reader = MetricReader()
    return {one.name: one.value for one in [*reader.feed(printed), *reader.finish()]}


@pytest.mark.parametrize(
    ("line", "readings"),
    [
        ("epoch 1/10  loss 2.8593  accuracy 28.8%", {"loss": 2.8593, "accuracy": 28.8}),
        ("epoch 3  loss 1  acc 0", {"loss": 1, "acc": 0}),
        ("précision=0.5", {"précision": 0.5}),
        ("损失：0.25，精度：91.5%", {"损失": 0.25, "精度": 91.5}),
        ("验证损失=0.3", {"验证损失": 0.3}),
        ("Genauigkeit: 0.91", {"Genauigkeit": 0.91}),
        ("β=3", {}),
    ],
)
def test_names_with_values_are_not_a_header_and_need_no_ascii(line: str, readings: dict[str, float]) -> None:
    assert named(f"{line}\n".encode()) == readings


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_binary_output_neither_hides_a_metric_nor_makes_names(seed: int) -> None:
    chance = random.Random(seed)
    reader, found = MetricReader(), []
    for value, junk in ((0.2, 600_000), (0.7, 100_000)):
        printed = b"\nval_acc=%.1f\n" % value + chance.randbytes(junk)
        for start in range(0, len(printed), 1 << 18):
            found += reader.feed(printed[start : start + (1 << 18)], 200)
    assert [(one.name, one.value) for one in found] == [("val_acc", 0.2), ("val_acc", 0.7)]
