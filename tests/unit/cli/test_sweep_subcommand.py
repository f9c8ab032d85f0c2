"""`gputui sweep`: simple_hypersearch's command line, and what is new."""

from __future__ import annotations

import subprocess

import pytest
from support.sessions import GPUTUI, Gputui
from support.wires import FakeOwner

PATTERN = "python3 train_dnn.py --lr {lr} --batch_size {bs}"
DOCUMENT = (PATTERN, *["-p", "lr", "0.001", "0.0005", "0.0001", "-p", "bs", "32", "64", "128"])


def test_the_documented_grid_has_every_combination_once(gputui: Gputui) -> None:
    told = gputui("sweep", *DOCUMENT)
    wanted = {
        f"python3 train_dnn.py --lr {lr} --batch_size {bs}"
        for lr in ("0.001", "0.0005", "0.0001")
        for bs in (32, 64, 128)
    }
    assert (told.status, told.err) == (0, "")
    assert sorted(told.out.splitlines()) == sorted(wanted)


def test_abbreviations_and_values_below_zero_are_understood(gputui: Gputui) -> None:
    told = gputui("sweep", "x {a}", "--n", "2", "--sampling", "grid", "-p", "a", "-0.5", "-1e-3", "-")
    assert told.out == "x -0.5\nx -1e-3\n"


def test_the_last_values_of_a_parameter_count(gputui: Gputui) -> None:
    told = gputui("sweep", "{a} {b}", "--sampling-mode", "grid", "-p", "a", "1", "-p", "b", "2", "-r", "a", "3..4")
    assert told.out == "3 2\n4 2\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{lr}", "-p", "lr"], "-p lr has no values"),
        (["-p", "lr", "1", "{lr}"], "put it before -p and -r, or after --"),
        (["{lr}"], "needs parameters"),
        (["{l}", "-p", "lr", "1"], "did you mean {lr}?"),
        (["{lr}", "-p", "lr", "1", "--samples", "3"], "sweep has no option --samples"),
        (["{lr}", "-p", "lr", "1", "--n-samples", "-1"], "--n-samples: "),
        (["{lr}", "-p", "lr", "1", "--priority", "3"], "needs --add"),
        (["{lr}", "-r", "lr", "5"], "-r lr: invalid range '5'"),
    ],
)
def test_wrong_usage_is_one_sentence(gputui: Gputui, words: list[str], sentence: str) -> None:
    told = gputui("sweep", *words)
    assert told.status == 2
    assert sentence in told.err
    assert not told.out


def test_added_jobs_keep_their_parameters(gputui: Gputui, owner: FakeOwner) -> None:
    added = [{"id": number, "name": f"l{number + 1}", "key": None, "created": True} for number in range(2)]
    owner.answers["load"] = {"jobs": [0, 1], "new": 2, "sentence": "", "by_spec": added}
    told = gputui(
        "sweep", "t {lr}", "-p", "lr", "1", "2", "--sampling-mode", "grid", "--add", "--gpus", "2", "--name", "l{lr}"
    )
    assert told.out == "0\n1\n"
    (asked,) = owner.asks("load")
    assert [(spec["command"], spec["params"], spec["name"]) for spec in asked["specs"]] == [
        ("t 1", {"lr": "1"}, "l1"),
        ("t 2", {"lr": "2"}, "l2"),
    ]
    assert asked["specs"][0]["group"] == "sweep lr"
    assert asked["specs"][0]["request"] == {"gpus": 2}


def test_a_closed_pipe_ends_it_quietly() -> None:
    pipe = f"{' '.join(GPUTUI)} sweep 'x {{a}} {{b}}' -r a 0..999 -r b 0..999 --sampling-mode grid | head -n 1"
    told = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=60)
    assert (told.stdout, told.stderr) == ("x 0 0\n", "")
