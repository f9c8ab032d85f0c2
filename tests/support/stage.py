"""The whole app on a real session, without a terminal: keys go in, and the session's snapshot says what they did."""

from __future__ import annotations

import asyncio
import os
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from textual.events import Key
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.pilot import Pilot
from textual.screen import Screen

from gputui.core.events import Kill, Pause, UserCommand
from gputui.core.job import Job, JobId, JobSpec, StateName
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.snapshot import Snapshot
from gputui.session.event_loop import Work
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands, Outcome
from gputui.session.owner.requests import Begin, Load
from gputui.session.ownership.acquisition import Holding
from gputui.session.session_dir import Paths
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge, Way
from gputui.tui.chrome import Where
from gputui.tui.main_screen import MainScreen
from gputui.tui.queue.table import QueueTable

from .waiting import PATIENCE

T = TypeVar("T")
HOPS = 8
"""From a key to its last effect no message goes through more hands than this."""
LONG = "exec sleep 600"
"""A job that runs until it is ended."""
HELD: dict[str, Any] = {"hold": True}


class Stage:
    """An app with its pilot. What was said to the user is kept in `said`."""

    def __init__(self, app: GputuiApp, pilot: Pilot[Way], folder: Path) -> None:
        self.app, self.pilot, self.folder = app, pilot, folder
        self.said: list[str] = []
        say = app.main.say

        def told(sentence: str, *, grave: bool = False) -> None:
            self.said.append(sentence)
            say(sentence, grave=grave)

        app.main.say = told  # type: ignore[method-assign]

    # What is there

    @property
    def main(self) -> MainScreen:
        return self.app.main

    @property
    def table(self) -> QueueTable:
        return self.main.table

    @property
    def screen(self) -> Screen[Any]:
        return self.app.screen

    @property
    def snapshot(self) -> Snapshot:
        """The session's own, not what is painted."""
        return self.app.bridge.snapshot

    def job(self, job: JobId) -> Job:
        return self.snapshot[job]

    def state(self, job: JobId) -> StateName:
        return self.snapshot[job].state.name

    @property
    def shown(self) -> list[JobId]:
        return list(self.table.rows.jobs())

    @property
    def line(self) -> list[JobId]:
        """The waiting jobs as the scheduler orders them."""
        waiting = [job for job in self.snapshot if job.state.name in (StateName.QUEUED, StateName.HELD)]
        return [job.id for job in sorted(waiting, key=lambda job: (-job.priority, job.position))]

    def lines(self, screen: Screen[Any] | None = None) -> list[str]:
        """What stands on the screen."""
        strips = (screen or self.screen)._compositor.render_strips(self.app.size)
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines())

    # What happens

    async def press(self, *keys: str) -> None:
        """One after the other, each when what the one before brought about is done.

        As the pilot does it, but without its guess that a process that rests has nothing left to do:
        the owner's thread works all the time.
        """
        for key in keys:
            await self.app._post_message(key_event(key))
            await self.settle()

    async def settle(self) -> None:
        """Until messages, those that they caused, and so on, are handled; then what is to be painted is."""
        for _ in range(HOPS):
            await self.pilot._wait_for_screen()
        if self.app.is_running and not self.app._exit:
            self.screen._on_timer_update()
            await self.pilot._wait_for_screen()

    async def type(self, text: str) -> None:
        """Letter by letter, as a person does."""
        await self.press(*("space" if letter == " " else letter for letter in text))

    async def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                seen = "\n".join(line for line in self.lines() if line.strip("│ "))
                raise AssertionError(f"waited in vain until {what}; said {self.said}; the screen:\n{seen}")
            await asyncio.sleep(0.01)
        await self.settle()

    async def becomes(self, job: JobId, state: StateName) -> None:
        """In the session and as painted."""
        painted = self.main.table

        def both() -> bool:
            return all(job in each and each[job].state.name is state for each in (self.snapshot, painted.snapshot))

        await self.until(both, f"#{job} is {state}")

    async def told(self, words: str) -> None:
        await self.until(lambda: any(words in sentence for sentence in self.said), f"{words!r} is said")

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text, f"{words!r} is on the screen")

    async def back_on_main(self) -> None:
        await self.until(lambda: self.screen is self.main, "the dialog is gone")

    async def do(self, work: Work[T]) -> T:
        """What another client would ask; done and painted when this returns."""
        owner = self.app.bridge.owner
        assert owner is not None
        answer = await asyncio.to_thread(lambda: owner.do(work).result(PATIENCE))
        self.main.paint()
        await self.settle()
        return answer

    async def command(self, *events: UserCommand) -> list[Outcome]:
        return await self.do(Commands(events))

    async def add(self, *commands: str | JobSpec, **settings: Any) -> list[JobId]:
        specs = tuple(
            each if isinstance(each, JobSpec) else spec(each, str(self.folder), **settings) for each in commands
        )
        return (await self.do(Load(specs, dict(os.environ), "a test"))).jobs

    async def go_to(self, job: JobId) -> None:
        assert self.table.move_to(job), f"#{job} is not in this view"
        await self.settle()


def key_event(key: str) -> Key:
    """What a keyboard sends for it."""
    if len(key) == 1 and not key.isalnum():
        key = _character_to_key(key)
    character: str | None = key if len(key) == 1 else None
    with suppress(KeyError):
        character = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(key, key)))
    return Key(key, character)


def spec(command: str, cwd: str = "/", **settings: Any) -> JobSpec:
    return JobSpec(command=command, cwd=cwd, environment="", **settings)


def hold_of(root: Path) -> Callable[[Callable[[], None]], Holding]:
    """Takes the session as the app does, but leaves no keeper behind."""
    return lambda changed: Holding(Paths(str(root)), OwnerKind.APP, keeper=False, on_change=changed)


def cpu_lanes(count: int) -> tuple[Lane, ...]:
    return tuple(Lane(number, (), DeviceKind.CPU) for number in range(count))


def simulated_lanes(count: int) -> tuple[Lane, ...]:
    return tuple(Lane(number, (str(number),), DeviceKind.SIMULATED) for number in range(count))


def begin(lanes: int | tuple[Lane, ...], **settings: Any) -> Begin:
    made = cpu_lanes(lanes) if isinstance(lanes, int) else lanes
    return Begin(made, given=True, change_lanes=True, cpu_jobs=2, **settings)


@asynccontextmanager
async def staged(
    folder: Path,
    *,
    size: tuple[int, int] = (120, 40),
    lanes: int | tuple[Lane, ...] = 2,
    session: bool = True,
    toasts: bool = False,
    settings: dict[str, Any] | None = None,
    **setup: Any,
) -> AsyncIterator[Stage]:
    """`settings` of the session, `setup` of the app; nothing of it runs on afterwards."""
    bridge = Bridge(hold_of(folder / "gputui_run") if session else None)
    bridge.take()
    try:
        app = GputuiApp(bridge, Setup(Where("a-test", "here"), dict(os.environ), **setup))
        async with app.run_test(size=size, notifications=toasts) as pilot:
            await pilot.pause()
            stage = Stage(app, pilot, folder)
            if session:
                await stage.do(begin(lanes, **(settings or {})))
            yield stage
    finally:
        await asyncio.to_thread(_end, bridge)


def _end(bridge: Bridge) -> None:
    owner = bridge.owner
    if owner is not None and owner.alive:
        owner.do(Commands((Pause(),))).result(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while owner.snapshot.active and time.monotonic() < deadline:
            kills = tuple(Kill(job=job, now=True) for job in owner.snapshot.active)
            owner.do(Commands(kills)).result(PATIENCE)
            time.sleep(0.02)
    bridge.close()


def on_stage(**staging: Any) -> Callable[[Callable[[Stage], Awaitable[None]]], Callable[[Path], None]]:
    """A test that is given the app on a session of its own."""

    def made(test: Callable[[Stage], Awaitable[None]]) -> Callable[[Path], None]:
        def run(tmp_path: Path) -> None:
            async def told() -> None:
                async with staged(tmp_path, **staging) as stage:
                    await test(stage)

            asyncio.run(told())

        return run

    return made
