"""An evening with a sweep: sixty jobs of a plain text file on four cards, half of them done, with results; it stands
still."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from msgspec.structs import replace

from gputui.core.breaker import ScopeState
from gputui.core.eta import Outlook
from gputui.core.events import Cause, Mode, PauseKind, SetSlots
from gputui.core.job import (
    Attempt,
    Ended,
    Failed,
    Job,
    JobId,
    JobSpec,
    Placed,
    Queued,
    Running,
    StateName,
    Succeeded,
    Usage,
)
from gputui.core.results import Direction, JobResults, MainMetric, MetricResult, PackedResults
from gputui.core.scheduler import Scheduler
from gputui.core.slots import Slot
from gputui.core.snapshot import PausedScope, Snapshot
from gputui.gpus.picture import DevicesPicture
from gputui.gpus.sample import Status
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.chrome import Where
from gputui.tui.terminal.tty import Colours
from gputui.views.waiting import Reason

from .app import GIB, FixedBridge, gpu, held, picture, running, shown, silent

NOW = 1_000_033_140.0
"""A Thursday at 22:59 UTC."""
GRID = list(
    itertools.product(("resnet50", "vit-b", "convnext"), ("0.3", "0.1", "0.03", "0.01", "0.003"), (64, 256), (0, 1))
)
CRASH = "ModuleNotFoundError: No module named 'timm'"
RUNNING = (37, 38, 39, 40)
FAILED: dict[JobId, Failed] = {12: Failed(139), 20: Failed(1), 21: Failed(1)}
LOG = "".join(
    f"epoch {epoch}/40  loss {0.7 + 0.9 / epoch:.4f}  val_loss {0.88 + 1.5 / epoch:.4f}  acc {46 + epoch}.2%  8.0 s\n"
    for epoch in range(1, 32)
)


def commands() -> list[str]:
    return [
        f"python train.py --data cifar100 --epochs 40 --model {model} --lr {lr} --bs {bs} --seed {seed}"
        for model, lr, bs, seed in GRID
    ]


def jobs() -> list[Job]:
    return [_job(number, command) for number, command in enumerate(commands())]


def _job(number: JobId, command: str) -> Job:
    spec = JobSpec(command=command, cwd="/home/mira/cifar", environment="", group="jobs.txt")
    job = Job(number, spec, NOW - 9999, 30, float(number), Queued(NOW - 9999))
    if number > max(RUNNING):
        return job
    if number in RUNNING:
        at = RUNNING.index(number)
        placed = Placed(1, (at,), (str(at),), NOW - (310, 227, 211, 29)[at], "")
        return replace(job, state=Running(placed, 100 + number), issued=1)
    end = FAILED.get(number) or Succeeded()
    ended = NOW - 60 - (36 - number) * 45
    said = {12: "SIGSEGV", 20: "loss is nan at step 812", 21: "loss is nan at step 947"}.get(number)
    took = 200 + number * 37 % 150
    attempt = Attempt(
        1, (str(number % 4),), ended - took, ended, end, None if number == 12 else int(number in FAILED), said, "",
        usage=Usage(gpu_mean=91.0, gpu_peak_memory=int((16.1 + number % 9) * GIB), gpu_seconds=float(took),
                    energy=took * (262.0 + number % 5 * 11), energy_seconds=float(took)),
    )  # fmt: skip
    return replace(job, state=end, issued=1, attempts=(attempt,))


def results() -> dict[JobId, JobResults]:
    chance = random.Random(7)
    found = {}
    for number in range(max(RUNNING) + 1):
        if number in FAILED:
            continue
        best = 0.70 + abs(number - 33) * 0.012 + chance.random() * 0.02
        overfits = number % 5 == 0
        trend = tuple(best + (0.02 * step if overfits else 0.08 * (7 - step)) for step in range(8))
        accuracy = 95 - best * 17
        main = MetricResult("val_loss", trend[-1], best, 29.0, 31, trend, (best, accuracy))
        second = MetricResult("acc", accuracy - 1, accuracy + 0.5, 30.0, 31, (), (best, accuracy))
        progress = {37: 0.88, 38: 0.78, 39: 0.65, 40: 0.08}.get(number)
        found[number] = JobResults(1, (main, second), progress, progress_at=NOW if progress is not None else None)
    return found


def snapshot(made: list[Job] | None = None) -> Snapshot:
    made = jobs() if made is None else made
    empty = Scheduler()
    empty.handle(SetSlots(tuple(Slot(number, (str(number),)) for number in range(4))), NOW)
    counts: dict[StateName, int] = {}
    for job in made:
        counts[job.state.name] = counts.get(job.state.name, 0) + 1
    told = results()
    outlook = Outlook(NOW + 1560, sum(not isinstance(job.state, Ended) for job in made))
    return replace(
        empty.snapshot(), jobs=tuple(made), counts=counts, outlook=outlook,
        active=frozenset(job.id for job in made if job.active is not None),
        results=PackedResults().with_results(dict(told)), metric=MainMetric("val_loss", Direction.DOWN),
        best=min(told, key=lambda job: told[job]["val_loss"].best),
    )  # fmt: skip


def paused() -> Snapshot:
    """The last three jobs that ended have failed with the same error; #41 is to be tried alone."""
    made = jobs()
    for number in (34, 35, 36):
        [attempt] = made[number].attempts
        failed = replace(attempt, end=Failed(1), exit_code=1, signature=CRASH)
        made[number] = replace(made[number], state=Failed(1), attempts=(failed,))
    cause = Cause(PauseKind.CRASHES, f"3 jobs: {CRASH}", NOW, (34, 35, 36), CRASH)
    scope = PausedScope(group=None, cause=cause, job=41, state=ScopeState.PAUSED, at=NOW + 462, life=102.0, wait=600.0)
    return replace(snapshot(made), mode=Mode.PAUSED, cause=cause, paused_scopes=(scope,))


def cards() -> DevicesPicture:
    loads = ((91, 28.1, 58, 246.0), (97, 31.6, 63, 312.0), (98, 27.4, 61, 301.0), (95, 31.9, 66, 318.0))
    made = [
        running(
            gpu(at, utilization=load, memory_used=int(used * GIB), temperature=heat, power=watts), (37, 38, 39, 40)[at]
        )
        for at, (load, used, heat, watts) in enumerate(loads)
    ]
    return picture(*made, taken=NOW)


def cards_in_trouble() -> DevicesPicture:
    """A good one, a hot one, one that another user computes on, and one that is lost."""
    return picture(
        running(gpu(0), 37),
        running(gpu(1, utilization=88, temperature=84, memory_used=39 * GIB), 38),
        held(gpu(2, utilization=12, memory_used=8 * GIB, temperature=41, power=88.0)),
        shown(silent(3, Status.LOST, "fell off the bus")),
        taken=NOW,
    )


def evening_app(
    directory: Path, *, theme: str | None = None, colours: Colours = Colours.RGB, trouble: bool = False
) -> GputuiApp:
    obstacles = "0 1 3 busy, 2 used by alice (pid 4121, 8.0G, 1 h)"
    reason = Reason(f"waiting for a GPU: {obstacles}", obstacles)
    reasons = dict.fromkeys(range(41, 60), reason) if trouble else {}
    bridge = FixedBridge(
        paused() if trouble else snapshot(), cards_in_trouble() if trouble else cards(), directory, reasons
    )
    (directory / "out").write_text(LOG)
    (directory / "err").write_text("")
    app = GputuiApp(bridge, Setup(Where("sweep", "lab7"), {}, theme=theme, colours=colours))
    app.main.now = lambda: NOW
    return app
