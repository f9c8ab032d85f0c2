"""Highlighted errors and results, wrapping, search counts, and habits that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.app import Stage, on_stage

from gputui.core.job import StateName
from gputui.tui.layout import Pane, ScreenHabits, read_habits, write_habits
from gputui.tui.log.view import highlighted, number_after
from gputui.tui.theme import palette_of

PALETTE = palette_of("gputui-dark")
LONG_ERROR = "RuntimeError: " + "invalid mat1 and mat2 shapes: multiplied " * 5 + "(64x768 and 1024x100)"


@pytest.mark.parametrize(
    ("line", "stands_out"),
    [
        ("Traceback (most recent call last):", True),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", True),
        ("KeyboardInterrupt", True),
        ("2024-01-01 12:00:00,123 ERROR cannot open", True),
        ("[rank0]: ValueError: no", False),
        ('  File "train.py", line 3, in <module>', True),
        ("Segmentation fault (core dumped)", True),
        ("epoch 3  error 0.31", False),
        ("validation error: 0.2", False),
        ("", False),
    ],
)
def test_errors_and_tracebacks_are_highlighted(line: str, stands_out: bool) -> None:
    assert bool(highlighted(line, PALETTE, None)) is stands_out


@pytest.mark.parametrize(
    ("line", "bold"),
    [
        ("epoch 3 loss 0.9 val_loss 0.41 acc 91", ["0.41"]),
        ("val_loss=0.41, best_val_loss=0.4", ["0.41"]),
        ('{"val_loss": 4.1e-3}', ["4.1e-3"]),
        ("Val_Loss: -1", ["-1"]),
        ("val_loss_weight 3", []),
        ("nothing here", []),
    ],
)
def test_the_result_is_bold(line: str, bold: list[str]) -> None:
    found = highlighted(line, PALETTE, number_after("val_loss"))
    assert [line[mark.start : mark.stop] for mark in found] == bold


@on_stage(slots=1, size=(80, 24))
async def test_a_long_last_line_is_wrapped_and_w_is_remembered(stage: Stage) -> None:
    [job] = await stage.add(f"echo start; echo '{LONG_ERROR}'")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.shows("4x100)")
    assert stage.main.log_pane.wrapped
    await stage.press("3", "w")
    await stage.until(lambda: "4x100)" not in stage.text, "it is one line again")
    assert read_habits().wrap is False


@on_stage(slots=1, size=(120, 40))
async def test_a_search_counts_its_matches(stage: Stage) -> None:
    [job] = await stage.add("for n in 1 2 3 4 5 6 7 8 9; do echo needle $n; echo hay; done")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.press("3", "g", "/", *"needle", "enter")
    await stage.shows("match 1/9")
    await stage.press("n")
    await stage.shows("match 2/9")
    await stage.press("N")
    await stage.shows("match 1/9")


def test_habits_are_kept_and_a_damaged_file_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert read_habits() == ScreenHabits()
    write_habits(ScreenHabits(3, -8, True))
    assert read_habits() == ScreenHabits(3, -8, True)
    (tmp_path / "gputui" / "screen.json").write_text('{"queue_rows": "x"')
    assert read_habits() == ScreenHabits()
    (tmp_path / "gputui" / "screen.json").unlink()
    (tmp_path / "gputui").chmod(0o500)
    write_habits(ScreenHabits(1))


@on_stage(size=(120, 40))
async def test_keys_resize_queue_and_log(stage: Stage) -> None:
    before = stage.main.frames[Pane.LOG].size.height
    await stage.press("<", "<")
    await stage.until(lambda: stage.main.frames[Pane.LOG].size.height == before + 2, "the log has more room")
    await stage.press(">")
    await stage.until(lambda: stage.main.frames[Pane.LOG].size.height == before + 1, "the queue has")
    assert read_habits().queue_rows == -1
