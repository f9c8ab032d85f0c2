"""How often the reader of crashes is right on real ones: their kinds, true messages, and which belong together.

Each line of a file in `corpus` is a crash: what it printed, its exit code, and what a person would say of it. Other
kinds and texts that are also true are listed with it. A text is right when what is shown contains it, white space and
case aside; where nothing in the log tells the cause (`""`), no line of the log may be shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputui.core.job import CrashKind
from gputui.logs.crashes.signature import Crash, job_crash

CORPUS = Path(__file__).parent / "corpus"
FEWEST_LETTERS = 4  # of a line that can be recognised in a message

Sample = dict[str, Any]
Reading = list[tuple[Sample, Crash]]


@pytest.fixture(scope="module", params=["crashes.jsonl", "others.jsonl", "unseen_crashes.jsonl"])
def reading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reading:
    directory = tmp_path_factory.mktemp("corpus")
    samples = [json.loads(line) for line in (CORPUS / request.param).read_bytes().split(b"\n") if line]
    return [(sample, crash_in(sample, directory)) for sample in samples]


def crash_in(sample: Sample, directory: Path) -> Crash:
    out, err = directory / "job.OUT", directory / "job.ERR"
    out.write_bytes(sample["out"].encode())
    err.write_bytes(sample["err"].encode())
    return job_crash(str(out), str(err), sample["exit_code"])


def flat(text: str) -> str:
    return " ".join(text.split()).lower()


def kind_is_right(sample: Sample, crash: Crash) -> bool:
    return crash.kind in (sample["expected_kind"], *sample["kind_also"])


def text_is_right(sample: Sample, crash: Crash) -> bool:
    shown = flat(crash.message)
    if sample["expected_text"]:
        return any(flat(text) in shown for text in (sample["expected_text"], *sample["text_also"]))
    said = (flat(line) for line in f"{sample['out']}\n{sample['err']}".replace("\r", "\n").split("\n"))
    return not any(len(line) >= FEWEST_LETTERS and line in shown for line in said)


def pairs(reading: Reading, field: str) -> list[tuple[Crash, Crash]]:
    crashes = {sample["id"]: crash for sample, crash in reading}
    return [(crash, crashes[other]) for sample, crash in reading for other in sample[field]]


def accuracy(reading: Reading, right: Callable[[Sample, Crash], bool], what: str) -> float:
    wrong = [f"{sample['id']}: {crash}" for sample, crash in reading if not right(sample, crash)]
    share = 1 - len(wrong) / len(reading)
    print(f"{what}: {len(reading) - len(wrong)} of {len(reading)} right ({share:.1%})", *wrong, sep="\n  ")
    return share


def test_kinds_are_right_in_97_of_100_crashes(reading: Reading) -> None:
    assert accuracy(reading, kind_is_right, "kinds") >= 0.97


def test_what_is_shown_is_the_true_message_in_95_of_100_crashes(reading: Reading) -> None:
    assert accuracy(reading, text_is_right, "true messages") >= 0.95


def test_all_crashes_that_are_alike_come_together(reading: Reading) -> None:
    apart = [(one, other) for one, other in pairs(reading, "same_as") if one.signature != other.signature]
    print(f"alike: {len(pairs(reading, 'same_as'))} pairs, {len(apart)} apart")
    assert apart == []


def test_98_of_100_crashes_that_differ_stay_apart(reading: Reading) -> None:
    unlike = pairs(reading, "differs_from")
    together = [(one, other) for one, other in unlike if one.signature == other.signature]
    print(f"unlike: {len(unlike)} pairs, {len(together)} together", *together, sep="\n  ")
    assert len(together) <= 0.02 * len(unlike)


def test_no_crash_is_called_a_success_and_no_success_a_crash(reading: Reading) -> None:
    for sample, crash in reading:
        assert (crash.kind is CrashKind.NONE) == (sample["exit_code"] == 0), sample["id"]
