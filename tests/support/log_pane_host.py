"""A small app with nothing but a log pane, and files for it to show."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from gputui.tui.log.pane import AttemptLog, JobLog, LogPane


class Host(App[None]):
    """Keeps what the pane says."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.titles: list[str] = []

    def compose(self) -> ComposeResult:
        yield LogPane()

    @property
    def pane(self) -> LogPane:
        return self.query_one(LogPane)

    def on_log_pane_noticed(self, message: LogPane.Noticed) -> None:
        self.notes.append(message.text)

    def on_log_pane_title_changed(self, message: LogPane.TitleChanged) -> None:
        self.titles.append(message.title)

    def rows(self) -> list[str]:
        """What stands on the screen, without the scroll bar."""
        pane = self.pane
        return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def numbered(count: int, first: int = 0) -> str:
    return "".join(f"line {number}\n" for number in range(first, first + count))


class Files:
    """The files of one job."""

    def __init__(self, folder: Path) -> None:
        self.out, self.err = folder / "out", folder / "err"

    def job(self, *, live: bool = True, failed: bool = False, number: int = 12, title: str = "lr=0.1") -> JobLog:
        return JobLog(number, title, (AttemptLog(1, self.out, self.err, live, failed),))


def piloted(test: Callable[[Host, Pilot[None], Files], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that is given the app, its pilot and a folder for the files of a job."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            host = Host()
            async with host.run_test(size=(40, 10)) as pilot:
                host.pane.focus()
                await test(host, pilot, Files(tmp_path))

        asyncio.run(main())

    return run
