"""A session that never changes, for what the screen looks like: one moment, one picture, one log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from gputui.core.eta import Outlook
from gputui.core.events import Cause, Mode, PauseKind, SetLanes, UserCommand
from gputui.core.job import (
    Attempt,
    Ended,
    Failed,
    Held,
    Job,
    JobId,
    JobSpec,
    Placed,
    Queued,
    Running,
    StateName,
    Succeeded,
)
from gputui.core.lanes import Lane
from gputui.core.scheduler import Scheduler
from gputui.core.snapshot import Snapshot
from gputui.core.structures import Vector
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import Status
from gputui.session.job_folders import Files
from gputui.session.messages import Outcome
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge
from gputui.tui.chrome import Where

from .devices import GIB, gpu, held, idle, picture, running, shown, silent

NOW = 1_000_000.0
"""A Monday at 13:46 UTC."""
CRASH = "ModuleNotFoundError: No module named 'timm'"
LOG = "".join(f"step {step:4d}  loss {2.5 / (1 + step / 90):.4f}\n" for step in range(0, 300, 10))


class FixedBridge(Bridge):
    """Shows what it was given, and carries nothing out; what it was told is kept in `sent`."""

    def __init__(self, snapshot: Snapshot, seen: DevicesPicture, folder: Path, whys: dict[JobId, str]) -> None:
        super().__init__(lambda changed: _never())
        self._snapshot, self._seen, self._whys = snapshot, seen, whys
        self.sent: list[UserCommand] = []
        self._files = Files(str(folder / "out"), str(folder / "err"))
        Path(self._files.out).write_text(LOG)
        Path(self._files.err or "").write_text(f"Traceback (most recent call last):\n{CRASH}\n")

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def picture(self) -> DevicesPicture:
        return self._seen

    def files(self, job: Job, attempt: int) -> Files | None:
        return self._files

    def whys(self, jobs: Sequence[JobId], then: Callable[[dict[JobId, str]], None]) -> None:
        then({job: words for job, words in self._whys.items() if job in jobs})

    def command(self, events: Sequence[UserCommand], then: Callable[[list[Outcome]], None]) -> None:
        self.sent += events
        then([Outcome(None, None) for _ in events])


def _never() -> NoReturn:
    raise AssertionError("a fixed session is not taken")


def machine() -> DevicesPicture:
    """Four cards: two of ours, a stranger's, and one that fell silent."""
    return picture(
        running(gpu(0), 3),
        running(gpu(1, utilization=88, temperature=84, memory_used=39 * GIB), 4),
        held(gpu(2, utilization=12, memory_used=8 * GIB, temperature=41, power=88.0)),
        shown(silent(3, Status.LOST, "fell off the bus")),
        shown(idle(4)),
        taken=NOW,
    )


def sweep() -> list[Job]:
    """Ended, running and waiting jobs of one sweep."""
    made = [_job(number, Succeeded() if number != 1 else Failed(1)) for number in range(3)]
    made += [_job(number, Running(_placed(number), 100)) for number in (3, 4)]
    made += [_job(number, Queued(NOW)) for number in range(5, 12)]
    return [*made, replace(_job(12, Held()), priority=10)]


def _placed(number: JobId) -> Placed:
    return Placed(1, (number - 3,), (str(number - 3),), NOW - 7864 + 100 * number, "")


def _job(number: JobId, state: Succeeded | Failed | Running | Queued | Held) -> Job:
    params = {"lr": ("0.1", "0.01", "0.001")[number % 3], "seed": str(number // 3)}
    command = f"python train.py --model resnet --lr {params['lr']} --seed {params['seed']}"
    spec = JobSpec(command=command, cwd="/home/ada/work", environment="", params=params, group="sweep")
    attempts: tuple[Attempt, ...] = ()
    if isinstance(state, Succeeded | Failed):
        words = CRASH if isinstance(state, Failed) else None
        attempts = (Attempt(1, ("0",), NOW - 9000, NOW - 8000 + number, state, 1 if words else 0, words, ""),)
    return Job(number, spec, NOW - 9999, 30, float(number), state, issued=1, attempts=attempts)


def session(jobs: list[Job], *, crashed: bool = False) -> Snapshot:
    empty = Scheduler()
    empty.handle(SetLanes(tuple(Lane(number, (str(number),)) for number in range(5))), NOW)
    counts: dict[StateName, int] = {}
    for job in jobs:
        counts[job.state.name] = counts.get(job.state.name, 0) + 1
    cause = Cause(PauseKind.CRASHES, f"3 jobs: {CRASH}", NOW, (0, 1, 2), CRASH)
    outlook = Outlook(NOW + 16_000, sum(not isinstance(job.state, Ended) for job in jobs))
    return replace(
        empty.snapshot(), jobs=Vector(jobs), counts=counts, outlook=outlook,
        active=frozenset(job.id for job in jobs if job.active is not None),
        mode=Mode.PAUSED if crashed else Mode.RUNNING, cause=cause if crashed else None,
    )  # fmt: skip


def fixed_app(folder: Path, *, crashed: bool = False, theme: str | None = None) -> GputuiApp:
    jobs = sweep()
    if crashed:
        jobs = [*(_job(number, Failed(1)) for number in range(3)), *jobs[3:]]
    whys = dict.fromkeys(range(5, 12), "waiting for a GPU: 0 1 3 busy, 2 used by alice (pid 4121, 8.0G, 1 h)")
    bridge = FixedBridge(session(jobs, crashed=crashed), machine(), folder, whys)
    app = GputuiApp(bridge, Setup(Where("lr-sweep", "lab7"), {}, theme=theme))
    app.main.now = lambda: NOW
    return app
