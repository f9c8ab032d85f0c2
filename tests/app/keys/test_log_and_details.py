"""Keys for the log of the job under the cursor, its details, and the clipboard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.app import LONG, Stage, on_stage, title_of

from gputui.core.job import StateName
from gputui.tui.dialogs.ask import Reading
from gputui.tui.layout import Pane
from gputui.tui.log.pane import LogPane

TALKS = "for i in $(seq 100); do echo line $i needle; done; echo problem >&2; exit 1"


def log(stage: Stage) -> str:
    pane: LogPane = stage.main.log_pane
    return "\n".join(pane.render_line(y).text.rstrip() for y in range(pane.size.height))


@on_stage(size=(160, 30))
async def test_the_log_pane_follows_the_cursor_and_answers_its_keys(stage: Stage) -> None:
    [talks, quiet] = await stage.add(TALKS, f"echo hello; {LONG}")
    await stage.becomes(quiet, StateName.RUNNING)
    await stage.becomes(talks, StateName.FAILED)
    await stage.go_to(quiet)
    await stage.until(lambda: "hello" in log(stage), "its log is shown")
    await stage.go_to(talks)
    await stage.until(lambda: "line 100" in log(stage) or "problem" in log(stage), "the other log is shown")
    streams = {}
    while (name := title_of(stage.main.log_pane).split(" · ")[1]) not in streams:
        streams[name] = ("line 100 needle" in log(stage), "problem" in log(stage))
        await stage.press("o")
    assert streams == {"OUT": (True, False), "ERR": (False, True), "OUT and ERR": (True, True)}
    while title_of(stage.main.log_pane).split(" · ")[1] != "OUT":
        await stage.press("o")
    await stage.press("3", "g")
    assert "line 1 needle" in log(stage)
    await stage.press("f")
    await stage.until(lambda: "line 100" in log(stage), "it follows")
    await stage.press("w", "w")


@on_stage(size=(80, 24))
async def test_the_log_can_be_searched_full_screen(stage: Stage) -> None:
    [job] = await stage.add("for i in $(seq 200); do echo line $i; done; echo needle; seq 200")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.press("/", *"#0", "enter")
    await stage.press("l")
    assert stage.main.zoomed is Pane.LOG
    await stage.press("/")
    await stage.shows("search …")
    await stage.type("needle")
    await stage.press("enter")
    await stage.until(lambda: "needle" in log(stage), "the match is in sight")
    assert stage.app.focused is stage.main.log_pane
    await stage.press("n", "N", "/", *"gone", "escape")
    assert stage.app.focused is stage.main.log_pane, "giving up a search stays in the log"
    assert stage.table.rows.filter.written == "#0", "and leaves the queue's filter alone"
    await stage.press("l")
    assert stage.main.zoomed is None
    assert stage.app.focused is stage.table


@on_stage(slots=1)
async def test_keys_show_the_logs_of_other_attempts(stage: Stage) -> None:
    [job] = await stage.add("echo attempt; ls; touch seen; exit 1")
    await stage.becomes(job, StateName.FAILED)
    await stage.press("r")
    await stage.until(lambda: len(stage.job(job).attempts) == 2, "it ran twice")
    await stage.shows("attempt 2/2")
    await stage.press(",")
    await stage.shows("attempt 1/2")
    await stage.press(".")
    await stage.shows("attempt 2/2")


@on_stage(slots=1)
async def test_details_show_the_job_and_mask_secrets(stage: Stage) -> None:
    os.environ["A_TEST_TOKEN"] = "hunter2"
    try:
        [job] = await stage.add("echo hi; exit 3", variables={"SEED": "7"})
    finally:
        del os.environ["A_TEST_TOKEN"]
    await stage.becomes(job, StateName.FAILED)
    await stage.press("enter")
    await stage.shows("History")
    for words in ("echo hi; exit 3", str(stage.directory)[:30], "✗ failed", "exit code 3", "Attempts"):
        assert words in stage.text, words
    await stage.press("v")
    assert isinstance(stage.screen, Reading)
    environment = str(stage.screen.query_one("#text").render())
    assert "SEED=7" in environment
    assert "A_TEST_TOKEN=••••••" in environment
    assert "hunter2" not in environment
    await stage.press("escape", "escape")
    await stage.back_on_main()


@on_stage()
async def test_y_copies_the_command_and_the_path_of_the_log(stage: Stage) -> None:
    [job] = await stage.add("echo 'exact  [text]'", hold=True)
    await stage.press("y")
    assert stage.app.clipboard == "echo 'exact  [text]'"
    await stage.press("Y")
    await stage.told("#0 has not started: no log yet")
    await stage.press("h")
    await stage.becomes(job, StateName.SUCCEEDED)
    await stage.press("Y")
    assert Path(stage.app.clipboard).read_text() == "exact  [text]\n"


@on_stage()
async def test_without_jobs_every_key_is_harmless(stage: Stage) -> None:
    await stage.press(
        *"echKSBr+-[]{}v*oflwnNyYL,.", "space", "delete", "enter", "escape", "left", "right", "s", "s", "!"
    )
    assert stage.screen is stage.main
    assert "no job selected" in stage.said
    await stage.press("2")
    await stage.shows("no jobs yet: a: add one, A: add a sweep")


def test_the_pager_gets_the_log_without_control_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paged = tmp_path / "paged"
    monkeypatch.setenv("PAGER", f"cp /dev/stdin {paged}")

    @on_stage()
    async def history(stage: Stage) -> None:
        from contextlib import nullcontext

        stage.app.suspend = nullcontext  # type: ignore[assignment]
        copied, linked = r"\033]52;c;cm0gLXJmIH4=\007", r"\033]8;;http://evil\033\\here\033]8;;\033\\"
        [job] = await stage.add(f"printf 'to {copied}paged\\n{linked} \033[31mred\\n50%%\\r100%%\\n\\ttab'")
        await stage.becomes(job, StateName.SUCCEEDED)
        await stage.press("L")
        assert paged.read_text() == "to paged\nhere \x1b[31mred\x1b[0m\n100%\n\ttab"
        monkeypatch.setenv("PAGER", "true")
        await stage.press("L")
        monkeypatch.setenv("PAGER", "/there/is/no/pager")
        await stage.press("L")
        await stage.told("cannot open the log in /there/is/no/pager")

    history(tmp_path)


@on_stage(size=(80, 24))
async def test_n_without_a_search_says_how_to_start_one(stage: Stage) -> None:
    await stage.add("echo hi")
    await stage.becomes(0, StateName.SUCCEEDED)
    await stage.press("/", *"hi", "enter", "n")
    await stage.told("no search yet: press 3 for the log, then / to search")


@on_stage(size=(80, 24))
async def test_long_texts_scroll_with_the_keys_of_panes(stage: Stage) -> None:
    await stage.press("?")
    page = stage.screen.query_one("VerticalScroll")
    await stage.press("G")
    assert page.scroll_offset.y == page.max_scroll_y > 0
    await stage.press("ctrl+u")
    assert 0 < page.scroll_offset.y < page.max_scroll_y
    await stage.press("g")
    assert page.scroll_offset.y == 0
    await stage.press("ctrl+d")
    assert page.scroll_offset.y > 0
