"""The rows of a pause by crashes: true words of a job, what the jobs share, who is tried when, and keys that fit."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from support.core_world import World, spec

from gputui.core.events import AttemptEnded, Exited, Pause, Rerun, Settings
from gputui.tui.banner import crash_rows
from gputui.tui.theme import palette_of

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied"


def crash(world: World, job: int, said: str) -> None:
    attempt = world.job(job).issued
    end = AttemptEnded(
        job=job, attempt=attempt, outcome=Exited(1), at=world.now, signature=SHAPES, message=f"{SHAPES} {said}"
    )
    world.do(end)


def paused() -> World:
    """Four jobs of one model crashed after 34 s; one runs on, another model waits behind two of the same."""
    world = World("0 1 2 3 4")
    world.add(spec("train.py --data c100 --model resnet --seed 0"))
    world.add(*(spec(f"train.py --data c100 --model vit --seed {number}") for number in range(1, 7)))
    world.add(spec("train.py --data c100 --model convnext --seed 7"))
    world.start()
    world.now += 34
    for job in range(1, 5):
        crash(world, job, f"({64 if job % 2 else 256}x768 and 1024x100)")
    return world


def rows(world: World, width: int = 120) -> list[str]:
    made = crash_rows(world.scheduler.snapshot(), width, palette_of("gputui-dark"), world.now, lambda job: f"job {job}")
    assert all(cell_len(row.plain) == width for row in made)
    return [row.plain.rstrip() for row in made]


def test_four_rows_tell_the_cause_the_jobs_the_next_try_and_the_keys() -> None:
    world = paused()
    world.wait(138)
    cause, jobs, following, keys = rows(world)
    assert cause == f"▌ 4 jobs crashed alike  {SHAPES} (256x768 and 1024x100)"
    assert jobs.startswith("▌ #1 #2 #3 #4  ·  all are model=vit  ·  GPUs 1 2 3 4  ·  since ")
    assert jobs.endswith("  ·  1 variant: (64x768 and 1024x100)")
    assert following == (
        "▌ next try in 7:42, or when #0 succeeds"
        "  #7 convnext alone, unlike the crashed; if it succeeds or lives 1:42, all go on"
    )
    assert keys == "▌ R Rerun the 4, one first   p Resume now   ! Go to the crash   F Failures: edit and rerun"


def test_a_narrow_screen_gives_the_message_a_row_of_its_own() -> None:
    first, message, keys = rows(paused(), 80)
    assert first == "▌ 4 crashed alike, all model=vit · next try 10:00 or at a success: #7 convnext"
    assert message == f"▌ {SHAPES} (256x768 and 1024x10…"
    assert keys == "▌ R Rerun 4, one first  p Resume  ! Crash  F Fails: edit, rerun"


def test_the_one_that_is_tried_is_told_with_the_life_it_has_behind_it() -> None:
    world = paused()
    world.wait(600)
    world.start()
    world.wait(51)
    assert rows(world)[2] == f"▌ tries #7 convnext alone  {'━' * 13}{'─' * 13}  if it succeeds or lives 1:42, all go on"
    assert rows(world)[3].startswith("▌ R Rerun the 4, after #7   p Resume now")
    assert rows(world, 80)[0] == "▌ 4 crashed alike, all model=vit · tries #7 convnext alone"


def crashed_beside(running: int) -> World:
    world = World(" ".join(map(str, range(3 + running))))
    world.add(*(spec(f"train.py --model resnet --seed {number}") for number in range(running)))
    world.add(*(spec(f"train.py --model vit --seed {number}") for number in range(3)))
    world.add(spec("train.py --model a_model_of_a_long_name --seed 0"))
    world.start()
    for job in range(running, running + 3):
        crash(world, job, "")
    return world


@pytest.mark.parametrize("running", [0, 1, 3])
def test_the_third_row_fits_every_width_and_tells_that_a_success_makes_the_try_due(running: int) -> None:
    world = crashed_beside(running)
    for width in range(80, 201):
        row = rows(world, width)[2 if width >= 100 else 0]
        assert "…" not in row.replace(f"#{running + 3} a_model_of_a_long_na…", ""), (width, row)
        assert bool(running) is (" succeeds  " in row or " succeeds: " in row or " or at a success" in row), (
            width,
            row,
        )
        assert "if it succeeds or lives 1:00, all go on" in row or width < 112, (width, row)
    assert ("or when one of the 3 running succeeds  " in rows(world, 150)[2]) is (running == 3)


def test_the_wait_is_drawn_where_words_leave_room() -> None:
    world = crashed_beside(0)
    world.wait(150)
    assert rows(world, 120)[2].startswith("▌ next try in 7:30  ━━━━━━")
    assert "─────────  #3 " in rows(world, 140)[2]


def test_nothing_is_promised_when_nobody_tries_by_itself() -> None:
    world = paused()
    world.do(Pause())
    assert rows(world)[2] == "▌ nothing is tried by itself"
    other = paused()
    other.do(Settings(probe=None))
    assert rows(other)[2] == "▌ nothing is tried by itself"


def test_a_rerun_is_not_offered_for_what_waits_to_run_again() -> None:
    world = paused()
    world.do(Rerun(job=1))
    world.do(Rerun(job=2))
    assert "R Rerun the 2, one first" in rows(world)[3]


def test_a_paused_group_is_named_and_text_from_outside_does_no_harm() -> None:
    world = World("0 1 2")
    world.add(*(spec("a", group="bad\x1b[31m.txt") for _ in range(5)), spec("b", group="good"))
    world.start()
    for job in range(3):
        crash(world, job, "\x1b]52;c;x\x07")
    first = rows(world)[0]
    assert first.startswith("▌ bad")
    assert "paused: 3 jobs crashed alike" in first
    assert not any(ord(char) < 32 for row in rows(world) for char in row)


def test_crashes_on_one_card_of_several_say_so() -> None:
    world = World("0 1")
    world.add(*(spec(devices=("1",)) for _ in range(5)))
    for _ in range(3):
        crash(world, world.start()[0], "")
    assert "only on GPU 1" in rows(world)[1]
