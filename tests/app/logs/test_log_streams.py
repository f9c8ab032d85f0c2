"""Streams, attempts and searches in the log pane."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.app import Files, Host, numbered, piloted
from textual.pilot import Pilot

from gputui.tui.log.pane import AttemptLog, JobLog, Stream, stream_to_show


@piloted
async def test_the_streams_can_be_shown_alone_or_together(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("from out\n")
    files.err.write_text("from err\n")
    host.pane.show(files.job())
    assert host.rows()[:2] == ["from out", ""]
    host.pane.cycle_stream()
    assert host.rows()[:2] == ["from err", ""]
    host.pane.cycle_stream()
    rows = host.rows()
    assert rows[0].startswith("── OUT ──")
    assert rows[1] == "from out"
    assert rows[2].startswith("── ERR ──")
    assert rows[3:5] == ["from err", ""]
    await pilot.pause()
    assert host.heading == "#12 lr=0.1 · OUT and ERR · following"
    with files.out.open("a") as log:
        log.write("more out\n")
    host.pane.tick()
    assert host.rows()[2] == "more out"
    host.pane.cycle_stream()
    assert host.rows()[0] == "from out"


@piloted
async def test_the_first_stream_with_output_is_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    host.pane.show(files.job())
    assert host.rows()[0] == " no output on OUT yet"
    files.err.write_text("a warning\n")
    host.pane.tick()
    assert host.rows()[0] == "a warning"
    files.out.write_text("an answer\n")
    host.pane.tick()
    assert host.rows()[0] == "a warning", "it stays on what is being read"


@pytest.mark.parametrize(
    ("out", "err", "job", "shown"),
    [
        ("", "\r 10%|#         | 1/10", {"live": True}, Stream.ERR),
        ("all well\n", "KeyError\n", {"live": True}, Stream.ERR),  # written last
        ("all well\n", "a warning\n", {"live": False}, Stream.OUT),
        ("all well\n", "KeyError\n", {"live": False, "failed": True}, Stream.ERR),
    ],
)
def test_the_stream_that_matters_is_shown_first(
    tmp_path: Path, out: str, err: str, job: dict[str, bool], shown: Stream
) -> None:
    files = Files(tmp_path)
    files.out.write_text(out)
    files.err.write_text(err)
    os.utime(files.out, (1000, 1000))
    assert stream_to_show(files.job(**job).attempts[0]) is shown  # type: ignore[arg-type]


@piloted
async def test_when_a_followed_job_fails_err_is_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("all well\n")
    files.err.write_text("KeyError\n")
    host.pane.show(files.job())
    assert host.rows()[0] == "all well"
    host.pane.show(files.job(live=False, failed=True))
    assert host.rows()[0] == "KeyError"


@piloted
async def test_a_chosen_stream_stays_chosen_unless_it_is_empty(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("from out\n")
    host.pane.show(files.job())
    host.pane.cycle_stream()
    assert host.rows()[0] == " no output on ERR yet; see OUT"
    host.pane.show(files.job(number=13))
    assert host.rows()[0] == "from out", "an empty stream is kept only for the job it was chosen for"
    files.err.write_text("from err\n")
    host.pane.show(files.job(number=14))
    assert host.rows()[0] == "from err"


@piloted
async def test_one_file_for_both_streams_has_nothing_to_cycle(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("merged\n")
    host.pane.show(JobLog(3, "x", (AttemptLog(1, files.out, None, live=False),)))
    host.pane.cycle_stream()
    await pilot.pause()
    assert host.heading == "#3 x · OUT+ERR"
    assert host.notes == ["OUT and ERR are in one file"]


@piloted
async def test_earlier_attempts_can_be_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    attempts = []
    for number in (1, 2, 3):
        out = files.out.with_name(f"out{number}")
        out.write_text(f"attempt {number}\n")
        attempts.append(AttemptLog(number, out, None, live=False))
    host.pane.show(JobLog(3, "x", tuple(attempts[:2])))
    assert host.rows()[0] == "attempt 2"
    host.pane.step_attempt(-1)
    assert host.rows()[0] == "attempt 1"
    await pilot.pause()
    assert host.heading == "#3 x · OUT+ERR · attempt 1/2"
    host.pane.step_attempt(-1)
    host.pane.show(JobLog(3, "x", tuple(attempts)))
    assert host.rows()[0] == "attempt 1", "a chosen attempt stays"
    host.pane.step_attempt(1)
    host.pane.step_attempt(1)
    assert host.rows()[0] == "attempt 3"
    host.pane.step_attempt(1)
    await pilot.pause()
    assert host.notes == ["no earlier attempt", "no later attempt"]


@piloted
async def test_a_new_attempt_is_shown_if_the_newest_was(host: Host, pilot: Pilot[None], files: Files) -> None:
    first = files.job().attempts[0]
    files.out.write_text("first\n")
    host.pane.show(JobLog(3, "x", (first,)))
    second = AttemptLog(2, files.out.with_name("out2"), None, live=True)
    second.out.write_text("second\n")
    host.pane.show(JobLog(3, "x", (first, second)))
    assert host.rows()[0] == "second"


async def found(host: Host) -> str:
    await host.workers.wait_for_complete()
    hit = host.pane._hit
    assert hit is not None
    assert host.pane._document is not None
    return host.pane._document.line(hit).text


@piloted
async def test_search_works_in_both_directions(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    host.pane.search("LINE 5")
    await host.workers.wait_for_complete()
    await pilot.pause()
    assert host.notes == ["no match for 'LINE 5'"]
    host.pane.search("line 5")
    assert host.heading.endswith("searching for 'line 5'")
    assert await found(host) == "line 59", "the nearest above, when there is none below"
    assert "line 59" in host.rows()
    assert not host.pane.following
    host.pane.search_previous()
    assert await found(host) == "line 58"
    host.pane.search_next()
    assert await found(host) == "line 59"
    host.pane.search_next()
    await host.workers.wait_for_complete()
    await pilot.pause()
    assert host.notes[-1] == "no further match for 'line 5'"
    assert host.heading.endswith("paused")
    strip = host.pane.render_line(host.rows().index("line 59"))
    assert [segment.text for segment in strip][:2] == ["line 5", "9" + " " * (host.pane.width - 7)]
    host.pane.search("")
    assert len(list(host.pane.render_line(host.rows().index("line 59")))) == 1


@piloted
async def test_a_search_ends_when_another_job_is_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    with files.out.open("wb") as log:
        log.truncate(64 << 20)
        log.seek(0, 2)
        log.write(b"\nend\n")
    files.err.write_text("x\n")
    host.pane.show(files.job())
    host.pane.search("needle")
    host.pane.show(JobLog(13, "", (AttemptLog(1, files.err, None, live=False),)))
    await pilot.pause()
    assert host.rows()[0] == "x"
    assert host.notes == []
    assert host.heading == "#13 · OUT+ERR"
