"""The status line fits every width; names are dropped before numbers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from support import evening
from support.app import NOW, session, sweep
from support.evening import snapshot

from gputui.core.eta import NO_OUTLOOK, NeverStarts, Outlook
from gputui.core.events import Mode
from gputui.core.job import Ended, Failed, Held, Job, Request, Running, Succeeded, Suspended
from gputui.core.snapshot import Snapshot
from gputui.tui.chrome import Where, status_parts, terminal_title
from gputui.views.status import format_counts

WHERE = Where("lr-sweep", "lab7")


def line(shown: Snapshot, width: int, now: float = NOW) -> str:
    return "".join(text for text, _ in status_parts(WHERE, shown, now, width))


@pytest.mark.parametrize("width", range(30, 251))
def test_it_fits_every_width_with_state_and_count(width: int) -> None:
    said = line(snapshot(), width, evening.NOW)
    assert cell_len(said) <= width
    assert "▶ 4 running" in said
    assert "37/60" in said


def test_it_shows_as_much_as_fits() -> None:
    assert line(snapshot(), 120, evening.NOW) == (
        " gputui  lr-sweep @ lab7   ▶ 4 running   ━━━━━━━━━━━━━─────── 37/60   3 ✗   done ≈ 11:25  in 26 min"
    )
    assert line(snapshot(), 80, evening.NOW) == (" gputui  lr-sweep  ▶ 4 running  ━━━━━━━━── 37/60  3 ✗  done ≈ 11:25")


def test_it_never_shows_an_end_that_is_unknown() -> None:
    hangs = replace(snapshot(), outlook=Outlook(evening.NOW + 1560, 22, unknown=(38,)))
    assert line(hangs, 120, evening.NOW).endswith("3 ✗   22 jobs ≈ 11:25 · #38 unknown")
    assert line(hangs, 80, evening.NOW).endswith("3 ✗  22 jobs ≈ 11:25"), "true, if not all"
    never = tuple(NeverStarts(job, Request(99)) for job in (58, 59))
    wide = replace(snapshot(), outlook=Outlook(evening.NOW + 1560, 21, never=never))
    assert "21 jobs ≈ 11:25 · never: #58 needs 99 GPUs, 1 more" in line(wide, 140, evening.NOW)
    stuck = replace(snapshot(), outlook=Outlook(unknown=(37, 38, 39, 40)))
    assert line(stuck, 120, evening.NOW).endswith("3 ✗   #37 #38 #39 and 1 more unknown")
    for shown in (hangs, wide, stuck):
        assert all(cell_len(line(shown, width, evening.NOW)) <= width for width in range(30, 200))


def test_a_finished_session_is_done() -> None:
    over = [job for job in sweep() if isinstance(job.state, Ended)]
    assert "DONE, 1 ✗" in line(session(over), 120)
    assert "run" not in line(session(over), 120)
    assert "✓ DONE" in line(session([job for job in over if isinstance(job.state, Succeeded)]), 120)


def test_it_says_what_a_session_is_waiting_for() -> None:
    held = [job for job in sweep() if isinstance(job.state, Held)]
    stands = replace(session(held), awaits="1 held job; use gputui release", outlook=NO_OUTLOOK)
    assert "◷ WAITING" in line(stands, 60)
    assert "1 held job; use gputui release" in line(stands, 140)
    for width in range(50, 200):
        assert cell_len(line(stands, width)) <= width


def test_a_paused_session_shows_running_and_waiting_jobs() -> None:
    said = line(replace(session(sweep()), mode=Mode.PAUSED), 120)
    assert "‖ PAUSED" in said
    assert "2 running, 8 waiting" in said
    assert "done ≈" not in said


def test_a_suspended_job_is_neither_running_nor_waiting() -> None:
    suspend = {job.id: job for job in sweep() if isinstance(job.state, Running)}
    one = next(iter(suspend))

    def jobs(*ids: int) -> list[Job]:
        return [
            replace(job, state=Suspended(job.active, pid=1, since=NOW))
            if job.id in ids and job.active is not None
            else job
            for job in sweep()
        ]

    assert "▶ 1 running   1 suspended" in line(session(jobs(one)), 120)
    none_runs = line(replace(session(jobs(*suspend)), outlook=NO_OUTLOOK), 140)
    assert "◐ SUSPENDED" in none_runs
    assert "2 suspended jobs; to continue: gputui contin" in none_runs
    assert "run" not in none_runs.replace("running", "")
    assert "8 waiting" in none_runs
    assert format_counts(session(jobs(one))) == "1 running, 1 suspended, 8 waiting"
    assert "1 running, 1 suspended, 8 waiting" in line(replace(session(jobs(one)), mode=Mode.PAUSED), 120)


def test_the_terminal_title_shows_progress_and_failures() -> None:
    assert terminal_title(snapshot()) == "37/60 · 3✗ gputui"
    good = [job for job in sweep() if not isinstance(job.state, Failed)]
    assert terminal_title(session(good)) == f"2/{len(good)} gputui"
    assert terminal_title(session([])) == "gputui"


def test_the_bar_is_full_only_when_all_have_ended() -> None:
    ended = [replace(job, state=Succeeded()) for job in sweep()]
    running = next(job for job in sweep() if job.active is not None)
    assert "━─ 13/14" in line(session([*ended, running]), 120)
    assert "━━ 13/13" in line(session(ended), 120)
