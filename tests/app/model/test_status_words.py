"""The status line fits every width; names are dropped before numbers."""

from __future__ import annotations

from msgspec.structs import replace
from rich.cells import cell_len
from support.evening import NOW, RUNNING, jobs, snapshot

from gputui.core.eta import NO_OUTLOOK, NeverStarts, Outlook
from gputui.core.events import Mode
from gputui.core.job import Ended, Failed, Held, Request, Succeeded, Suspended
from gputui.core.snapshot import Snapshot
from gputui.tui.chrome import Where, status_parts, terminal_title
from gputui.views.status import format_counts

WHERE = Where("lr-sweep", "lab7")


def line(shown: Snapshot, width: int, now: float = NOW) -> str:
    return "".join(text for text, _ in status_parts(WHERE, shown, now, width))


def test_it_fits_every_width_with_state_and_count() -> None:
    for width in range(30, 251):
        said = line(snapshot(), width)
        assert cell_len(said) <= width
        assert "▶ 4 running" in said
        assert "37/60" in said


def test_it_shows_as_much_as_fits() -> None:
    assert line(snapshot(), 120) == (
        " gputui  lr-sweep @ lab7   ▶ 4 running   ━━━━━━━━━━━━━─────── 37/60   3 ✗   done ≈ 11:25  in 26 min"
    )
    assert line(snapshot(), 80) == (" gputui  lr-sweep  ▶ 4 running  ━━━━━━━━── 37/60  3 ✗  done ≈ 11:25")


def test_it_never_shows_an_end_that_is_unknown() -> None:
    hangs = replace(snapshot(), outlook=Outlook(NOW + 1560, 22, unknown=(38,)))
    assert line(hangs, 120).endswith("3 ✗   22 jobs ≈ 11:25 · #38 unknown")
    assert line(hangs, 80).endswith("3 ✗  22 jobs ≈ 11:25"), "true, if not all"
    never = tuple(NeverStarts(job, Request(99)) for job in (58, 59))
    wide = replace(snapshot(), outlook=Outlook(NOW + 1560, 21, never=never))
    assert "21 jobs ≈ 11:25 · never: #58 needs 99 GPUs, 1 more" in line(wide, 140)
    stuck = replace(snapshot(), outlook=Outlook(unknown=(37, 38, 39, 40)))
    assert line(stuck, 120).endswith("3 ✗   #37 #38 #39 and 1 more unknown")
    for shown in (hangs, wide, stuck):
        assert all(cell_len(line(shown, width)) <= width for width in range(30, 200))


def test_a_finished_session_is_done() -> None:
    over = [job for job in jobs() if isinstance(job.state, Ended)]
    assert "DONE, 3 ✗" in line(snapshot(over), 120)
    assert "run" not in line(snapshot(over), 120)
    assert "✓ DONE" in line(snapshot([job for job in over if isinstance(job.state, Succeeded)]), 120)


def test_it_says_what_a_session_is_waiting_for() -> None:
    held = [replace(jobs()[-1], state=Held())]
    waits = replace(snapshot(held), awaits="1 held job; use gputui release", outlook=NO_OUTLOOK)
    assert "◷ WAITING" in line(waits, 60)
    assert "1 held job; use gputui release" in line(waits, 140)
    for width in range(50, 200):
        assert cell_len(line(waits, width)) <= width


def test_a_paused_session_shows_running_and_waiting_jobs() -> None:
    said = line(replace(snapshot(), mode=Mode.PAUSED), 120)
    assert "‖ PAUSED" in said
    assert "4 running, 19 waiting" in said
    assert "done ≈" not in said


def test_a_suspended_job_is_neither_running_nor_waiting() -> None:
    def suspended(*ids: int) -> Snapshot:
        return snapshot(
            [
                replace(job, state=Suspended(job.active, pid=1, since=NOW)) if job.id in ids and job.active else job
                for job in jobs()
            ]
        )

    assert "▶ 3 running   1 suspended" in line(suspended(37), 120)
    none_runs = line(replace(suspended(*RUNNING), outlook=NO_OUTLOOK), 150)
    assert "◐ SUSPENDED" in none_runs
    for width in (120, 150):
        assert "S: continue 4 jobs" in line(replace(suspended(*RUNNING), outlook=NO_OUTLOOK), width)
    assert "run" not in none_runs.replace("running", "")
    assert "19 waiting" in none_runs
    assert format_counts(suspended(37)) == "3 running, 1 suspended, 19 waiting"
    assert "3 running, 1 suspended, 19 waiting" in line(replace(suspended(37), mode=Mode.PAUSED), 120)


def test_the_terminal_title_shows_progress_and_failures() -> None:
    assert terminal_title(snapshot()) == "37/60 · 3✗ gputui"
    assert terminal_title(snapshot([job for job in jobs() if not isinstance(job.state, Failed)])) == "34/57 gputui"
    assert terminal_title(snapshot([])) == "gputui"


def test_the_bar_is_full_only_when_all_have_ended() -> None:
    ended = [replace(job, state=Succeeded()) for job in jobs()]
    assert "━─ 59/60" in line(snapshot([*ended[1:], jobs()[37]]), 120)
    assert "━━ 60/60" in line(snapshot(ended), 120)
