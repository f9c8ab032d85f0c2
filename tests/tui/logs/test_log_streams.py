"""The log pane shows the stream and the attempt that are wanted, and finds text in them."""

from __future__ import annotations

import os

from support.log_pane_host import Files, Host, numbered, piloted
from textual.pilot import Pilot

from gputui.tui.log.pane import AttemptLog, JobLog


@piloted
async def test_streams_take_turns_and_both_are_told_apart(host: Host, pilot: Pilot[None], files: Files) -> None:
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
    assert host.titles[-1] == "Log  #12 lr=0.1 · OUT and ERR · following"
    with files.out.open("a") as log:
        log.write("more out\n")
    host.pane.tick()
    assert host.rows()[2] == "more out"
    host.pane.cycle_stream()
    assert host.rows()[0] == "from out"


@piloted
async def test_a_job_that_wrote_only_to_err_is_shown_there(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.err.write_text("\r 10%|#         | 1/10")
    host.pane.show(files.job())
    assert host.rows()[0] == " 10%|#         | 1/10"


@piloted
async def test_a_job_that_begins_to_write_is_shown_where_it_writes(
    host: Host, pilot: Pilot[None], files: Files
) -> None:
    host.pane.show(files.job())
    assert host.rows()[0] == " nothing on OUT yet"
    files.err.write_text("a warning\n")
    host.pane.tick()
    assert host.rows()[0] == "a warning"
    files.out.write_text("an answer\n")
    host.pane.tick()
    assert host.rows()[0] == "a warning", "not torn away from what is being read"


@piloted
async def test_of_a_live_job_the_stream_written_last_is_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("old\n")
    files.err.write_text("bar\n")
    os.utime(files.out, (1000, 1000))
    host.pane.show(files.job())
    assert host.rows()[0] == "bar"


@piloted
async def test_of_a_failed_job_err_is_shown(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("all well\n")
    files.err.write_text("KeyError\n")
    host.pane.show(files.job(live=False))
    assert host.rows()[0] == "all well"
    host.pane.show(files.job(number=13, live=False, failed=True))
    assert host.rows()[0] == "KeyError"


@piloted
async def test_a_job_that_fails_while_it_is_followed_turns_to_err(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("all well\n")
    files.err.write_text("KeyError\n")
    host.pane.show(files.job())
    assert host.rows()[0] == "all well"
    host.pane.show(files.job(live=False, failed=True))
    assert host.rows()[0] == "KeyError"


@piloted
async def test_a_chosen_stream_stays_chosen_where_there_is_something(
    host: Host, pilot: Pilot[None], files: Files
) -> None:
    files.out.write_text("from out\n")
    host.pane.show(files.job())
    host.pane.cycle_stream()
    assert host.rows()[0] == " nothing on ERR yet; OUT has something"
    host.pane.show(files.job(number=13))
    assert host.rows()[0] == "from out", "an empty stream is insisted on only for the job it was chosen for"
    files.err.write_text("from err\n")
    host.pane.show(files.job(number=14))
    assert host.rows()[0] == "from err"


@piloted
async def test_one_file_for_both_streams_says_so(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("merged\n")
    host.pane.show(JobLog(3, "x", (AttemptLog(1, files.out, None, live=False),)))
    host.pane.cycle_stream()
    await pilot.pause()
    assert host.titles == ["Log  #3 x · OUT+ERR"]
    assert host.notes == ["both streams of this job are in one file"]


@piloted
async def test_attempts_can_be_gone_through(host: Host, pilot: Pilot[None], files: Files) -> None:
    attempts = []
    for number in (1, 2, 3):
        out = files.out.with_name(f"out{number}")
        out.write_text(f"attempt {number}\n")
        attempts.append(AttemptLog(number, out, None, live=False))
    host.pane.show(JobLog(3, "x", tuple(attempts[:2])))
    assert host.rows()[0] == "attempt 2"
    host.pane.attempt_earlier()
    assert host.rows()[0] == "attempt 1"
    await pilot.pause()
    assert host.titles[-1] == "Log  #3 x · OUT+ERR · attempt 1/2"
    host.pane.attempt_earlier()
    host.pane.show(JobLog(3, "x", tuple(attempts)))
    assert host.rows()[0] == "attempt 1", "a chosen attempt stays"
    host.pane.attempt_later()
    host.pane.attempt_later()
    assert host.rows()[0] == "attempt 3"
    host.pane.attempt_later()
    await pilot.pause()
    assert host.notes == ["there is no earlier attempt", "there is no later attempt"]


@piloted
async def test_a_new_attempt_is_turned_to_when_the_newest_was_shown(
    host: Host, pilot: Pilot[None], files: Files
) -> None:
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
async def test_text_is_searched_in_both_directions(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    host.pane.search("LINE 5")
    await host.workers.wait_for_complete()
    await pilot.pause()
    assert host.notes == ["no match for 'LINE 5'"]
    host.pane.search("line 5")
    assert host.pane.title.endswith("searching 'line 5'")
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
    assert host.pane.title.endswith("paused")
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
    assert host.pane.title == "Log  #13 · OUT+ERR"
