"""The whole app under a pilot, sessions that stand still, and pictures of machines that do not exist."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import pytest
from hypothesis import strategies as st
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.events import Key
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.pilot import Pilot
from textual.screen import Screen

from gputui.cli import app as command
from gputui.cli.commands import run as run_command
from gputui.core.events import AddJobs, Kill, Mode, Pause, SetSlots, Settings, Spawned, UserCommand
from gputui.core.job import (
    Attempt,
    Blocked,
    Delayed,
    Ended,
    Failed,
    Held,
    Job,
    JobId,
    JobSpec,
    Killed,
    Lost,
    Placed,
    Purpose,
    Queued,
    Refused,
    Running,
    Skipped,
    Starting,
    State,
    StateName,
    Stopping,
    Succeeded,
    Suspended,
    TimedOut,
)
from gputui.core.scheduler import Scheduler
from gputui.core.slots import DeviceKind, Slot
from gputui.core.snapshot import Snapshot
from gputui.core.spans import RecordedSpan
from gputui.gpus.external_processes import ExternalProcess
from gputui.gpus.picture import DevicePicture, DevicesPicture, SlotState
from gputui.gpus.sample import DeviceSample, HostSample, ProcessSample, Sample, Status
from gputui.session.event_loop import Work
from gputui.session.job_directories import Files as FilesJobDirectories
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands, Outcome
from gputui.session.owner.requests import Begin, Load
from gputui.session.ownership.acquisition import OwnedSession
from gputui.session.session_dir import Paths
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge, Way
from gputui.tui.chrome import Where
from gputui.tui.log.pane import AttemptLog, JobLog, LogPane
from gputui.tui.main_screen import MainScreen
from gputui.tui.queue.table import QueueTable
from gputui.views.waiting import Reason

from .sessions import GPUTUI, Done, Home, alive, spec
from .terminal import CTRL_L, RecordedTerminal, recorded
from .waiting import PATIENCE, until

# ---- The whole app on a real session, without a terminal ----


T = TypeVar("T")
ScreenKind = TypeVar("ScreenKind", bound=Screen[Any])
ScreenClass = type[ScreenKind]
HOPS = 8
"""From a key to its last effect no message goes through more hands than this."""
LONG = "exec sleep 600"
"""A job that runs until it is ended."""
HELD: dict[str, Any] = {"hold": True}


class Stage:
    """An app with its pilot. What was said to the user is kept in `said`."""

    def __init__(self, app: GputuiApp, pilot: Pilot[Way], directory: Path) -> None:
        self.app, self.pilot, self.directory = app, pilot, directory
        self.said: list[str] = []
        notify = app.notify

        def told(message: str, **more: Any) -> None:
            self.said.append(message)
            notify(message, **more)

        app.notify = told  # type: ignore[method-assign]

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

    async def opens(self, kind: ScreenClass[ScreenKind]) -> ScreenKind:
        """Wait until a screen of this kind is open, and return it."""
        await self.until(lambda: isinstance(self.screen, kind), f"{kind.__name__} is open")
        return cast("ScreenKind", self.screen)

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
            each if isinstance(each, JobSpec) else spec(each, cwd=str(self.directory), **settings) for each in commands
        )
        return (await self.do(Load(specs, dict(os.environ), "a test"))).jobs

    async def running(self, *commands: str) -> JobId:
        """Add jobs, wait until the last one runs, and return it."""
        job = (await self.add(*(commands or (LONG,))))[-1]
        await self.becomes(job, StateName.RUNNING)
        return job

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


def hold_of(root: Path) -> Callable[[Callable[[], None]], OwnedSession]:
    """Takes the session as the app does, but leaves no daemon behind."""
    return lambda changed: OwnedSession(Paths(str(root)), OwnerKind.APP, daemon=False, on_change=changed)


def begin(slots: int | tuple[Slot, ...], **settings: Any) -> Begin:
    made = tuple(Slot(number, (), DeviceKind.CPU) for number in range(slots)) if isinstance(slots, int) else slots
    return Begin(made, given=True, change_slots=True, settings={"cpu_jobs": 2, **settings})


@asynccontextmanager
async def staged(
    directory: Path,
    *,
    size: tuple[int, int] = (120, 40),
    slots: int | tuple[Slot, ...] = 2,
    session: bool = True,
    toasts: bool = False,
    settings: dict[str, Any] | None = None,
    **setup: Any,
) -> AsyncIterator[Stage]:
    """`settings` of the session, `setup` of the app; nothing of it runs on afterwards."""
    bridge = Bridge(hold_of(directory / "gputui_run") if session else None)
    bridge.take()
    try:
        app = GputuiApp(bridge, Setup(Where("a-test", "here"), dict(os.environ), **setup))
        async with app.run_test(size=size, notifications=toasts) as pilot:
            await pilot.pause()
            stage = Stage(app, pilot, directory)
            if session:
                await stage.do(begin(slots, **(settings or {})))
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


# ---- The real app on a real terminal, with a session of its own that others can look at while it runs ----


SIZE = (120, 40)
_LOCAL = {"GPUTUI_SESSION": None, "XDG_CONFIG_HOME": "/nonexistent"}
"""Nothing of whoever runs the tests has a say."""


class AppHome(Home):
    """A session that the app is opened on, again and again if need be."""

    @contextmanager
    def opened(self, *words: str | Path, gpus: str | None = "cpu:2", **settings: Any) -> Iterator[RecordedTerminal]:
        arguments = self.words(*words, gpus=gpus)
        settings["env"] = {**_LOCAL, **settings.get("env", {})}
        with recorded(arguments, **{"size": SIZE, "cwd": self.directory, **settings}) as terminal:
            yield terminal

    @contextmanager
    def opened_quietly(self, *commands: str, gpus: str = "cpu:2") -> Iterator[RecordedTerminal]:
        """Of jobs that come through a pipe nothing is said that would have to go away again."""
        reading, writing = os.pipe()
        with open(reading) as given, open(writing, "w") as taken:
            taken.write("".join(command + "\n" for command in commands))
            taken.close()
            with self.opened("-", gpus=gpus, stdin=given) as terminal:
                yield terminal

    def words(self, *words: str | Path, gpus: str | None = "cpu:2") -> list[str | Path]:
        slots = ("--gpus", gpus) if gpus is not None else ()
        return [*GPUTUI, *slots, "--output-dir", self.root, *words]

    def app(self, but: int = 0) -> int:
        """The pid of the app that owns, as soon as one does."""
        return self.owner(OwnerKind.APP, but)

    def ls(self, *words: str) -> Done:
        """What the command says to a user at another terminal."""
        said = subprocess.run([*GPUTUI, "ls", "--session", self.root, *words], capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        return said

    def state(self, job: JobId) -> str:
        """As whoever owns says it."""
        found: str = self.ask("show", job=job)["state"]
        return found

    def becomes(self, job: JobId, state: str) -> None:
        until(lambda: self.state(job) == state, f"#{job} is {state}; it is {self.state(job)}")

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = self.ask("status")["counts"]
        return counts


@contextmanager
def at_home(directory: Path, name: str = "out") -> Iterator[AppHome]:
    """Whatever became of it, nothing of the session runs afterwards."""
    home = AppHome(directory, name)
    try:
        yield home
    finally:
        home.end()


def gone(pid: int, seconds: float = 60.0) -> None:
    until(lambda: not alive(pid), f"process {pid} is gone", seconds)


def restored(terminal: RecordedTerminal) -> None:
    """As the shell left it to the app: its own screen, its cursor, its modes, no reports of mouse or paste."""
    assert not terminal.emulator.alternate
    assert not terminal.emulator.cursor_hidden
    assert terminal.modes == terminal.modes_before
    raw = terminal.since(0)
    for mode in (b"1000", b"1002", b"1006", b"2004"):
        assert raw.rfind(b"\x1b[?" + mode + b"l") > raw.rfind(b"\x1b[?" + mode + b"h")
    assert raw.count(b"\x1b[<u") == raw.count(b"\x1b[>25u")


def repainted_alike(terminal: RecordedTerminal) -> None:
    """What stands on the screen is what a whole repaint draws: nothing was lost on the way."""

    def alike() -> bool:
        terminal.settles(0.1)
        before = terminal.picture
        terminal.press(CTRL_L)
        terminal.settles(0.1)
        return terminal.picture == before

    until(alike, "a repaint changes nothing")


# ---- `gputui …` as the command line does it, but with a pilot in place of the terminal ----


History = Callable[[Stage], Awaitable[None]]


def opened(
    monkeypatch: pytest.MonkeyPatch, directory: Path, *words: str, history: History, size: tuple[int, int] = (120, 40)
) -> int:
    """The exit status of `gputui WORDS`, during which the history is told; no daemon stays behind."""

    def run(app: GputuiApp, *_: Any, **__: Any) -> None:
        async def told() -> None:
            async with app.run_test(size=size) as pilot:
                stage = Stage(app, pilot, directory)
                await pilot.pause()
                await history(stage)

        asyncio.run(told())

    monkeypatch.chdir(directory)
    monkeypatch.setattr(command, "refusal", lambda: None)
    monkeypatch.setattr(command, "set_piped_stdin_aside", lambda: None)
    monkeypatch.setattr(GputuiApp, "run", run)
    interval = sys.getswitchinterval()
    try:
        return run_command("app", ["--no-daemon", *words])
    finally:
        sys.setswitchinterval(interval)


# ---- Jobs of every kind without a session, for tests of what is made of them ----


NOW = 1_000_000.0
PLACED = Placed(1, (0,), ("0",), NOW - 100, "")
STATES: tuple[State, ...] = (
    Queued(NOW), Held(), Blocked(), Delayed(NOW + 5000, "backs off"), Starting(PLACED), Running(PLACED, 7),
    Suspended(PLACED, 7, NOW - 50), Stopping(PLACED, 7, Purpose.KILL, NOW + 9), Succeeded(), Failed(1), Failed(139),
    Killed(), TimedOut(60.0), Lost("the machine was off"), Refused("no such directory"), Skipped(0),
)  # fmt: skip


def job(id: JobId, state: State | None = None, *, priority: int = 30, archived: bool = False, **spec: Any) -> Job:
    state = state if state is not None else Queued(NOW)
    fields: dict[str, Any] = {"command": f"python train.py --seed {id}", "cwd": "/", "environment": "", **spec}
    made = Job(id, JobSpec(**fields), NOW - 1000, priority, float(id), state, archived=archived)
    return ended(made) if isinstance(state, Ended) else made


def ended(made: Job) -> Job:
    """With the attempt that ended so."""
    end: Any = made.state
    attempt = Attempt(1, ("0",), NOW - 200, NOW - 100 + made.id, end, 1, "ValueError: no", "")
    return replace(made, attempts=(attempt,), issued=1)


def snapshot(jobs: list[Job], first_id: JobId = 0) -> Snapshot:
    return Snapshot(
        version=0, changed=frozenset(), first_id=first_id, jobs=tuple(jobs), counts={}, active=frozenset(),
        mode=Mode.RUNNING, cause=None, settings=Settings(), slots=(), leaving=(), holders={},
    )  # fmt: skip


@dataclass
class Queue:
    """Jobs that change, and the snapshot of them."""

    jobs: list[Job] = field(default_factory=list)

    @property
    def snapshot(self) -> Snapshot:
        return snapshot(self.jobs)

    def change(self, id: JobId, **changes: Any) -> None:
        self.jobs[id] = replace(self.jobs[id], **changes)


TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", "日本語の名前", "e\u0301\u0302", "👩‍👩‍👧", "ｗｉｄｅ" * 20, "x" * 300]),
    st.sampled_from(["\x1b[31mred\x1b[0m", "[/nope]", "a\tb\nc", "\u202eevil", "\x9b2J", "\ud800"]),
)
PARAMETERS = st.dictionaries(
    st.sampled_from(["lr", "bs", "name", "id", "ｗ"]), st.sampled_from(["0.1", "1e-3", "32", "nan", "inf", "x", ""])
)


@st.composite
def jobs(draw: st.DrawFn, id: JobId) -> Job:
    """Any job at all."""
    return job(
        id,
        draw(st.sampled_from(STATES)),
        priority=draw(st.integers(0, 99)),
        archived=draw(st.sampled_from([False, False, False, True])),
        command=draw(TEXTS) or "true",
        name=draw(st.none() | TEXTS),
        params=draw(PARAMETERS),
        group=draw(st.sampled_from(["", "a", "b"])),
    )


# ---- Pictures of machines that are not there, for tests of what is shown ----


GIB = 1024**3


def gpu(index: int, **changes: object) -> DeviceSample:
    figures = DeviceSample(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA A100-SXM4-40GB",
        utilization=97,
        memory_used=int(28.1 * GIB),
        memory_total=40 * GIB,
        temperature=61,
        power=287.0,
        power_limit=400.0,
    )
    return replace(figures, **changes)


def idle(index: int, **changes: object) -> DeviceSample:
    figures = {"utilization": 0, "memory_used": 0, "temperature": 31, "power": 54.0, **changes}
    return gpu(index, **figures)


def silent(index: int, status: Status, message: str, age: float = 0.0) -> DeviceSample:
    return gpu(index, status=status, message=message, age=age)


def process(pid: int, memory: int = 10 * GIB, **changes: object) -> ProcessSample:
    seen = ProcessSample(pid=pid, compute=True, memory=memory, user="alice", command="/usr/bin/python train.py", born=7)
    return replace(seen, **changes)


def shown(sample: DeviceSample, **changes: object) -> DevicePicture:
    return replace(DevicePicture(sample=sample, state=SlotState.FREE), **changes)


def running(sample: DeviceSample, *jobs: JobId, **changes: object) -> DevicePicture:
    return shown(sample, **{"state": SlotState.BUSY, "jobs": jobs, **changes})


def held(sample: DeviceSample, pid: int = 4121, user: str = "alice", command: str = "python x.py") -> DevicePicture:
    external_process = ExternalProcess(pid, user, command, 8 * GIB, NOW - 3600)
    return shown(sample, external_processes=(external_process,), blocked=f"used by {user} (pid {pid}, 8.0G, 1 h)")


def picture(
    *devices: DevicePicture, taken: float = NOW, kind: DeviceKind = DeviceKind.GPU, host: HostSample | None = None
) -> DevicesPicture:
    sample = Sample(kind=kind, taken=taken, devices=tuple(device.sample for device in devices), host=host)
    return DevicesPicture(kind=kind, sample=sample, devices=devices, looking=True)


def device_snapshot(jobs: int, since: float = NOW - 7864) -> Snapshot:
    """A session in which jobs of these numbers run, each on a GPU of its own."""
    scheduler = Scheduler()
    scheduler.handle(SetSlots(tuple(Slot(number, (str(number),)) for number in range(jobs))), since)
    spec = JobSpec(command="true", cwd="/", environment="")
    scheduler.handle(AddJobs((spec,) * jobs), since)
    for start in scheduler.place(since):
        scheduler.handle(Spawned(job=start.job.id, attempt=1, pid=10_000 + start.job.id), since)
    return scheduler.snapshot()


# ---- A session that never changes, for what the screen looks like ----


class FixedBridge(Bridge):
    """Shows what it was given, and carries nothing out; what it was told is kept in `sent`."""

    def __init__(self, snapshot: Snapshot, seen: DevicesPicture, directory: Path, reasons: dict[JobId, Reason]) -> None:
        super().__init__(lambda changed: _never())
        self._snapshot, self._seen, self._reasons = snapshot, seen, reasons
        self.sent: list[UserCommand] = []
        self._files = FilesJobDirectories(str(directory / "out"), str(directory / "err"))
        for file in (self._files.out, self._files.err or ""):
            Path(file).touch()

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def picture(self) -> DevicesPicture:
        return self._seen

    def files(self, job: Job, attempt: int) -> FilesJobDirectories | None:
        return self._files

    def reasons(self, jobs: Sequence[JobId], then: Callable[[dict[JobId, Reason]], None]) -> None:
        then({job: reason for job, reason in self._reasons.items() if job in jobs})

    def command(self, events: Sequence[UserCommand], then: Callable[[list[Outcome]], None]) -> None:
        self.sent += events
        then([Outcome(None, None) for _ in events])

    def spans(self, then: Callable[[list[RecordedSpan]], None]) -> None:
        then([])


def _never() -> NoReturn:
    raise AssertionError("a fixed session is not taken")


# ---- A small app with nothing but a log pane, and files for it to show ----


class Host(App[None]):
    """Keeps what the pane says."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def compose(self) -> ComposeResult:
        yield LogPane()

    @property
    def pane(self) -> LogPane:
        return self.query_one(LogPane)

    def notify(self, message: str, **_: Any) -> None:
        self.notes.append(message)

    @property
    def heading(self) -> str:
        return title_of(self.pane)

    def rows(self) -> list[str]:
        """What stands on the screen, without the scroll bar."""
        pane = self.pane
        return [pane.render_line(y).text.rstrip() for y in range(pane.size.height)]


def title_of(pane: LogPane) -> str:
    """`#12 lr=0.1 · OUT · following`: what the band over the pane says."""
    return " · ".join(filter(None, ("".join(text for text, _ in side).strip() for side in pane.band.parts)))


def numbered(count: int, first: int = 0) -> str:
    return "".join(f"line {number}\n" for number in range(first, first + count))


class Files:
    """The files of one job."""

    def __init__(self, directory: Path) -> None:
        self.out, self.err = directory / "out", directory / "err"

    def job(self, *, live: bool = True, failed: bool = False, number: int = 12, title: str = "lr=0.1") -> JobLog:
        return JobLog(number, title, (AttemptLog(1, self.out, self.err, live, failed),))


def piloted(test: Callable[[Host, Pilot[None], Files], Awaitable[None]]) -> Callable[[Path], None]:
    """A test that is given the app, its pilot and a directory for the files of a job."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            host = Host()
            async with host.run_test(size=(40, 10)) as pilot:
                host.pane.focus()
                await test(host, pilot, Files(tmp_path))

        asyncio.run(main())

    return run
