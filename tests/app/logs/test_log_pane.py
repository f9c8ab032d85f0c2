"""The log pane shows the end of a log, follows it, and stays where the reader put it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from unittest.mock import patch

from support.app import Files, Host, numbered, piloted
from support.waiting import until_then
from textual.app import ComposeResult
from textual.events import MouseScrollDown
from textual.geometry import Region
from textual.pilot import Pilot

from gputui.tui.log import pane
from gputui.tui.log.pane import AttemptLog, JobLog, LogPane

LAST_TEN = [f"line {number}" for number in range(90, 100)]


@piloted
async def test_a_job_is_shown_at_the_end_of_its_log(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    assert host.rows() == LAST_TEN
    await pilot.pause()
    assert host.heading == "#12 lr=0.1 · OUT · following"


def test_a_log_may_be_shown_before_the_pane_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(numbered(100))

    class Early(Host):
        def compose(self) -> ComposeResult:
            pane = LogPane()
            pane.show(Files(tmp_path).job())
            pane.tick()
            yield pane

    async def main() -> None:
        host = Early()
        async with host.run_test(size=(40, 10)) as pilot:
            await pilot.pause()
            assert host.rows() == LAST_TEN

    asyncio.run(main())


@piloted
async def test_new_lines_are_followed_until_the_reader_scrolls_up(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    with files.out.open("a") as log:
        print("line 100", file=log, flush=True)
        host.pane.tick()
        assert host.rows()[-1] == "line 100"
        await pilot.press("up")
        assert host.rows()[-1] == "line 99"
        print("line 101", file=log, flush=True)
        host.pane.tick()
        assert host.rows()[-1] == "line 99"
        await pilot.pause()
        assert host.heading.endswith("· paused")
        await pilot.press("down", "down")
        assert host.rows()[-1] == "line 101"
        print("line 102", file=log, flush=True)
        host.pane.tick()
        assert host.rows()[-1] == "line 102", "at the end it follows again"
        host.pane.follow(not host.pane.following)
        print("line 103", file=log, flush=True)
        host.pane.tick()
        assert host.rows()[-1] == "line 102"
        host.pane.follow(not host.pane.following)
        assert host.rows()[-1] == "line 103"


@piloted
async def test_every_moving_key_moves(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    for key, first in (
        ("k", 89), ("pageup", 80), ("pagedown", 89), ("ctrl+u", 84), ("ctrl+d", 89),
        ("g", 0), ("j", 1), ("G", 90), ("home", 0), ("end", 90),
    ):  # fmt: skip
        await pilot.press(key)
        assert host.rows()[0] == f"line {first}", key
    assert host.pane.following


@piloted
async def test_the_wheel_and_the_scroll_bar_move(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    await pilot.pause()
    host.pane.scroll_y = 50  # as dragging the scroll bar does
    assert host.rows()[0] == "line 50"
    assert not host.pane.following
    await pilot._post_mouse_events([MouseScrollDown], host.pane)
    assert host.rows()[0] == "line 53"
    host.pane.scroll_y = 90
    assert host.pane.following


@piloted
async def test_a_paused_reader_keeps_the_place_while_a_big_log_is_read(
    host: Host, pilot: Pilot[None], files: Files
) -> None:
    with files.out.open("wb") as log:
        log.write(b"the very first\n")
        log.seek(6 << 20)
        log.write(b"\n" + numbered(100).encode())
    host.pane.show(files.job())
    with patch.object(pane, "SLICE", 0.0):  # the timer reads little, however slow the machine is
        await pilot.press("pageup")
        seen = host.rows()
    document = host.pane._document
    assert document is not None
    assert not document.complete
    while not document.complete:
        host.pane.tick()
    host.pane.show(files.job(live=False))
    assert host.rows() == seen, "also when the same job is shown again"
    await pilot.press("home")
    assert host.rows()[0] == "the very first"
    host.pane.show(files.job(number=13))
    await pilot.press("g")
    await host.workers.wait_for_complete()
    assert host.rows()[0] == "the very first", "g reads the rest of the log first"


@piloted
async def test_a_truncated_or_replaced_log_is_followed(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    await pilot.press("pageup")
    files.out.write_text("new\n")
    host.pane.tick()
    assert host.rows()[0] == "new"
    assert host.pane.following
    files.out.rename(files.out.with_name("old"))
    files.out.write_text("other\n")
    host.pane.tick()
    assert host.rows()[0] == "other"


@piloted
async def test_wrapped_lines_scroll_to_their_end(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("x" * 400 + "END\n" + "short\n" * 3)
    host.pane.show(files.job())
    width = host.pane.width
    assert host.rows()[0] == "x" * (width - 1) + "›"
    host.pane.wrap(not host.pane.wrapped)
    parts = -(-403 // width)
    assert host.rows()[-3:] == ["short"] * 3, "wrapped, the end stays at the bottom"
    assert host.rows()[10 - 4].endswith("END")
    await pilot.press("home")
    assert host.rows() == ["x" * width] * 10
    for _ in range(parts + 3 - 10):
        await pilot.press("down")
    assert host.rows()[-3:] == ["short"] * 3
    assert host.pane.following


@piloted
async def test_long_lines_scroll_sideways(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("0123456789" * 5 + "\n日本語" * 3)
    host.pane.show(files.job())
    await pilot.press("right")
    assert host.rows()[0].startswith("89012")
    await pilot.press("right", "right", "right")
    assert host.rows()[0].endswith("789"), "never past the longest line on the screen"
    await pilot.press("left", "left", "left")
    assert host.rows()[0].startswith("01234")


@piloted
async def test_after_resizing_the_end_is_still_visible(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    await pilot.resize_terminal(30, 5)
    await until_then(lambda: host.rows() == LAST_TEN[-5:], "the end is visible")
    host.pane.wrap(not host.pane.wrapped)
    await pilot.resize_terminal(5, 5)
    await pilot.resize_terminal(60, 10)
    await until_then(lambda: host.rows() == LAST_TEN, "the end is visible again")
    assert host.pane.following


@piloted
async def test_only_a_line_that_changed_is_repainted(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text("one\ntwo\n 10%")
    host.pane.show(files.job())
    await pilot.pause()
    asked: list[Region] = []
    host.pane.refresh = lambda *regions, **_: asked.extend(regions)  # type: ignore[method-assign,assignment]
    host.pane.tick()
    assert asked == []
    with files.out.open("a") as log:
        log.write("\r 20%")
    host.pane.tick()
    assert asked == [Region(0, 2, host.pane.width, 1)]
    assert host.rows()[2] == " 20%"


@piloted
async def test_a_job_that_has_not_run_shows_why(host: Host, pilot: Pilot[None], files: Files) -> None:
    host.pane.show(JobLog(14, "lr=0.3", ()))
    host.pane.note("#14 waits: GPU 1 is used by \x1b[31malice[/nope] since five in the morning")
    assert host.rows()[:2] == [" #14 waits: GPU 1 is used by", " alice[/nope] since five in the"]
    await pilot.pause()
    assert host.heading == "#14 lr=0.3"
    host.pane.show(None)
    host.pane.note("")
    assert host.rows()[0] == ""
    host.pane.tick()
    for key in ("up", "down", "home", "end", "pageup", "left", "right"):
        await pilot.press(key)


@piloted
async def test_a_selection_moves_with_its_lines(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_text(numbered(100))
    host.pane.show(files.job())
    await pilot.pause()
    await pilot.mouse_down(host.pane, offset=(2, 3))
    await pilot.hover(host.pane, offset=(5, 5))
    await pilot.mouse_up(host.pane, offset=(5, 5))
    selected = host.screen.get_selected_text()
    assert selected == "ne 93\nline 94\nline 9"
    with files.out.open("a") as log:
        log.write("more\n")
    host.pane.tick()
    assert host.screen.get_selected_text() == selected


@piloted
async def test_hostile_lines_are_made_harmless(host: Host, pilot: Pilot[None], files: Files) -> None:
    files.out.write_bytes(
        b"\x1b]52;c;aGFja2Vk\x07clip\n\x1b[2J\x1b[Hhome\n[/nope][@click=app.quit]x[/]\n"
        + b"y" * 100_000
        + b"\nnul\0\xff\n"
    )
    host.pane.show(files.job())
    assert host.rows()[:3] == ["clip", "home", "[/nope][@click=app.quit]x[/]"]
    assert host.rows()[4] == "nul�"
    host.pane.wrap(not host.pane.wrapped)
    await pilot.press("home")
    await pilot.press("end")
    assert host.rows()[-1] == "nul�"
    assert "+83,616 bytes" in "".join(host.rows())


@piloted
async def test_files_are_closed_with_the_pane(host: Host, pilot: Pilot[None], files: Files) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for job in range(20):
        out = files.out.with_name(f"out{job}")
        out.write_text("x\n")
        host.pane.show(JobLog(job, "", (AttemptLog(1, out, None, live=True),)))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    await host.pane.remove()
    assert len(os.listdir("/proc/self/fd")) == before
