"""The banner of a pause after errors: the message, what the failed jobs share, the next probe, and keys."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from support.core import World, spec

from gputui.core.events import AttemptEnded, Exited, Pause, Rerun, Settings
from gputui.session.control.handlers import scheduler_shown
from gputui.tui.banner import error_rows

SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied"


def fail(world: World, job: int, said: str) -> None:
    attempt = world.job(job).issued
    end = AttemptEnded(
        job=job, attempt=attempt, outcome=Exited(1), at=world.now, signature=SHAPES, message=f"{SHAPES} {said}"
    )
    world.do(end)


def paused() -> World:
    """Four jobs of one model failed after 34 s; another job is running, two of that model and one of another wait."""
    world = World("0 1 2 3 4")
    world.add(spec("train.py --data c100 --model resnet --seed 0"))
    world.add(*(spec(f"train.py --data c100 --model vit --seed {number}") for number in range(1, 7)))
    world.add(spec("train.py --data c100 --model convnext --seed 7"))
    world.start()
    world.now += 34
    for job in range(1, 5):
        fail(world, job, f"({64 if job % 2 else 256}x768 and 1024x100)")
    return world


def rows(world: World, width: int = 120) -> list[str]:
    made = error_rows(world.scheduler.snapshot(), width, world.now, lambda job: f"job {job}")
    assert all(cell_len(row.text) == width for row in made)
    return [row.text.rstrip() for row in made]


def test_four_rows_show_the_error_the_jobs_the_next_probe_and_the_keys() -> None:
    world = paused()
    world.wait(138)
    error, jobs, probe, keys = rows(world)
    assert error == f"▌ 4 jobs failed with the same error  {SHAPES} (256x768 and 1024x100)"
    assert jobs.startswith("▌ #1 #2 #3 #4  ·  all have model=vit  ·  GPUs 1 2 3 4  ·  since ")
    assert jobs.endswith("  ·  1 variant: (64x768 and 1024x100)")
    assert probe == (
        "▌ next probe in 7:42, or when #0 succeeds"
        "  ━━────────  #7 convnext alone; if it succeeds or runs for 1:42, all continue"
    )
    assert keys == "▌ R Rerun the 4, one first   p Resume now   ! Go to error   F Failures: edit and rerun"


def test_a_narrow_screen_gives_the_message_a_row_of_its_own() -> None:
    first, message, keys = rows(paused(), 80)
    assert first == "▌ 4 jobs, same error · next probe 10:00, or when #0 succeeds: #7 convnext alone"
    assert message == f"▌ {SHAPES} (256x768 and 1024x10…"
    assert keys == "▌ R Rerun 4, one first  p Resume  ! Error  F Edit and rerun"


def test_a_running_probe_has_a_progress_bar() -> None:
    world = paused()
    world.wait(600)
    world.start()
    world.wait(51)
    bar = "━" * 13 + "─" * 13
    assert rows(world)[2] == f"▌ probe: #7 convnext alone  {bar}  if it succeeds or runs for 1:42, all continue"
    assert rows(world)[3].startswith("▌ R Rerun the 4, after #7   p Resume now")
    assert rows(world, 80)[0] == "▌ 4 jobs, same error, all model=vit · probe: #7 convnext alone"


def failed_beside(running: int) -> World:
    world = World(" ".join(map(str, range(3 + running))))
    world.add(*(spec(f"train.py --model resnet --seed {number}") for number in range(running)))
    world.add(*(spec(f"train.py --model vit --seed {number}") for number in range(3)))
    world.add(spec("train.py --model a_model_of_a_long_name --seed 0"))
    world.start()
    for job in range(running, running + 3):
        fail(world, job, "")
    return world


@pytest.mark.parametrize("running", [0, 1, 3])
def test_the_third_row_fits_every_width_and_says_that_a_success_starts_the_probe(running: int) -> None:
    world = failed_beside(running)
    for width in range(80, 201):
        row = rows(world, width)[2 if width >= 100 else 0]
        assert "…" not in row.replace(f"#{running + 3} a_model_of_a_lon…", ""), (width, row)
        assert bool(running) is (" succeeds  " in row or " succeeds: " in row or " or on a success" in row), (
            width,
            row,
        )
        assert "if it succeeds or runs for 1:00, all continue" in row or width < 112, (width, row)
    assert ("or when one of the 3 running succeeds  " in rows(world, 150)[2]) is (running == 3)


def test_the_wait_has_a_bar_where_there_is_room() -> None:
    world = failed_beside(0)
    world.wait(150)
    assert rows(world, 120)[2].startswith("▌ next probe in 7:30  ━━━━━━")
    assert "─────────  #3 " in rows(world, 140)[2]


def test_without_automatic_probe_the_banner_says_so() -> None:
    world = paused()
    world.do(Pause())
    assert rows(world)[2] == "▌ no automatic probe"
    other = paused()
    other.do(Settings(probe=None))
    assert rows(other)[2] == "▌ no automatic probe"


def test_jobs_that_were_rerun_are_not_offered_again() -> None:
    world = paused()
    world.do(Rerun(job=1))
    world.do(Rerun(job=2))
    assert "R Rerun the 2, one first" in rows(world)[3]


def test_jobs_that_are_queued_again_are_not_named_as_failed() -> None:
    world = paused()
    for job in (1, 2, 3):
        world.do(Rerun(job=job))
    world.start()
    fail(world, 1, "")
    first, jobs, *_, keys = rows(world)
    assert first.startswith("▌ 4 jobs failed with the same error, 2 queued again  ")
    assert jobs.startswith("▌ #1 #4  ·  queued again: #2 #3  ·  ")
    assert "R Rerun the 2, one first" in keys
    assert rows(world, 80)[0].startswith("▌ 4 jobs, same error, 2 queued again")
    [shown] = scheduler_shown(world.scheduler.snapshot(), owned=True).paused
    assert shown.message.endswith("; 2 queued again")


def test_a_paused_group_is_named_and_its_text_is_sanitized() -> None:
    world = World("0 1 2")
    world.add(*(spec("a", group="bad\x1b[31m.txt") for _ in range(5)), spec("b", group="good"))
    world.start()
    for job in range(3):
        fail(world, job, "\x1b]52;c;x\x07")
    first = rows(world)[0]
    assert first.startswith("▌ bad")
    assert "paused: 3 jobs failed with the same error" in first
    assert not any(ord(char) < 32 for row in rows(world) for char in row)


def test_errors_on_only_one_gpu_say_so() -> None:
    world = World("0 1")
    world.add(*(spec(devices=("1",)) for _ in range(5)))
    for _ in range(3):
        fail(world, world.start()[0], "")
    assert "only on GPU 1" in rows(world)[1]
