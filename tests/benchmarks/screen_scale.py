"""How the screen feels with a long queue: first paint, a key to its repaint while jobs end, a filter's keystroke.

`python tests/benchmarks/screen_scale.py [--jobs 100000] [--ends-per-second 50]`
Headless, so without a terminal's own time; a queue of a thousand jobs stands beside it as the peer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from gputui.core.events import Pause
from gputui.core.job import JobSpec
from gputui.core.lanes import DeviceKind, Lane
from gputui.session.environment import captured
from gputui.session.lock import OwnerKind
from gputui.session.messages import Commands
from gputui.session.owner.requests import Begin, Load
from gputui.session.ownership.acquisition import Holding
from gputui.session.session_dir import Paths
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge
from gputui.tui.chrome import Where
from gputui.tui.queue.rows import Filter

PEER = 1_000
LANES = 4
PRESSES = 200
TYPED = ("r", "re", "resnet", "resnet3", "state:q", "state:q lr=3")


@contextmanager
def session(folder: str, jobs: int, ends_per_second: float) -> Iterator[Bridge]:
    """A queue of short jobs, so many of which end in a second."""

    def hold(on_change: Callable[[], None]) -> Holding:
        return Holding(Paths(os.path.join(folder, "gputui_run")), OwnerKind.APP, keeper=False, on_change=on_change)

    bridge = Bridge(hold)
    bridge.take()
    owner = bridge.owner
    assert owner is not None
    lanes = tuple(Lane(number, (), DeviceKind.CPU) for number in range(LANES))
    owner.do(Begin(lanes=lanes, given=True, change_lanes=True, cpu_jobs=1)).result()
    command = f"sleep {LANES / ends_per_second:.3f}; echo --model resnet{{}} --lr {{}} --seed {{}}"
    specs = (command.format(number % 5, number % 7, number) for number in range(jobs))
    loaded = tuple(JobSpec(command=text, cwd=folder, environment="", group="jobs.txt") for text in specs)
    owner.do(Load(loaded, captured(), "jobs.txt")).result()
    try:
        yield bridge
    finally:
        owner.do(Commands((Pause(),))).result()
        while bridge.snapshot.active:
            time.sleep(0.02)
        bridge.close()


class Painted(asyncio.Event):
    """Set whenever the app paints."""

    def __init__(self, app: GputuiApp) -> None:
        super().__init__()
        display = app._display

        def displayed(*painted: Any) -> None:
            display(*painted)
            self.set()

        setattr(app, "_display", displayed)  # noqa: B010  # only there is it known that a frame is out


async def measured(bridge: Bridge) -> tuple[float, list[float], list[float]]:
    """Seconds to the first paint; milliseconds of each key and of each keystroke of a filter."""
    begun = time.perf_counter()
    app = GputuiApp(bridge, Setup(where=Where("benchmark", "here"), environment={}))
    async with app.run_test(size=(120, 40)) as pilot:
        first = time.perf_counter() - begun
        await pilot.pause(2.0)
        painted = Painted(app)
        keys = []
        for _ in range(PRESSES):
            await asyncio.sleep(0.02)
            painted.clear()
            pressed = time.perf_counter()
            app.main.table.action_move(1)
            await painted.wait()
            keys.append(1000 * (time.perf_counter() - pressed))
        app.main.table.rows.read_texts(app.main.snapshot)
        filters = []
        for text in TYPED:
            typed = time.perf_counter()
            app.main.table.set_view(filter=Filter(text))
            filters.append(1000 * (time.perf_counter() - typed))
        app.exit()
    return first, keys, filters


def line(jobs: int, ends_per_second: float) -> str:
    with tempfile.TemporaryDirectory() as folder, session(folder, jobs, ends_per_second) as bridge:
        first, keys, filters = asyncio.run(measured(bridge))
        ended = len(bridge.snapshot.jobs) - bridge.snapshot.waiting - bridge.snapshot.running
    p95 = statistics.quantiles(keys, n=20)[-1]
    memory = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{jobs:>9,}{first:>12.2f}{statistics.median(keys):>10.1f}{p95:>10.1f}{max(filters):>12.1f}"
        f"{ended:>8}{memory:>8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--ends-per-second", type=float, default=50.0)
    options = parser.parse_args()
    sys.setswitchinterval(0.0005)
    print(f"{'jobs':>9}{'first, s':>12}{'key p50':>10}{'key p95':>10}{'filter max':>12}{'ended':>8}{'MB':>8}")
    for jobs in (PEER, options.jobs):
        print(line(jobs, options.ends_per_second))


if __name__ == "__main__":
    main()
