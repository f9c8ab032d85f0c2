"""What the log pane costs with a log of 1 GB: its tail on the screen, memory, counting its lines, searching it.

`python tests/benchmarks/log_view.py [--megabytes 1024] [--where FOLDER]`

Headless at 120x40, so no terminal is in the figures. A plain read of the same file is given beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.log_pane_host import Host

from gputui.tui.log.pane import AttemptLog, JobLog, LogPane

MB = 1 << 20
ROUNDS = 20
COLOURED = "\x1b[32m2031-05-04 12:00:00\x1b[0m INFO step {:>7}/9999999 loss 1.932 lr 1.0e-3 tokens/s 100758 mem 28.1G\n"


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.where) as folder:
        path = Path(folder) / "out"
        lines = write(path, options.megabytes)
        print(f"{options.megabytes} MB, {lines:,} lines with colours; plain read {seconds(lambda: read(path)):.2f} s")
        asyncio.run(measure(path))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--where")
    return parser.parse_args()


def write(path: Path, megabytes: int) -> int:
    piece = "".join(COLOURED.format(step) for step in range(10_000)).encode()
    with path.open("wb") as file:
        for _ in range(megabytes * MB // len(piece)):
            file.write(piece)
        file.write(b"the end\n")
    return megabytes * MB // len(piece) * 10_000 + 1


def read(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(MB):
            pass


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


async def measure(path: Path) -> None:
    process = psutil.Process()
    host = Host()
    async with host.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        before = process.memory_info().rss
        pane = host.pane
        shown = [await until_painted(pane, path, number) for number in range(ROUNDS)]
        assert "the end" in host.rows()[-1]
        print(f"tail on the screen: median {statistics.median(shown) * 1e3:.1f} ms, worst {max(shown) * 1e3:.1f} ms")
        ticks = count_all(pane)
        print(f"all lines counted: {sum(ticks):.2f} s in {len(ticks)} ticks, longest {max(ticks) * 1e3:.0f} ms")
        print(f"a tick with nothing new: {seconds(pane.tick) * 1e6:.0f} µs")
        either, exact = await searched(host, "no such text"), await searched(host, "No such text")
        print(f"search for what is not there: {either}")
        print(f"the same, upper and lower case told apart: {exact}")
        jumps = [seconds(pane.move_home) + seconds(host.rows), await jumped(host, 5_000_000)]
        print(f"home: {jumps[0] * 1e3:.1f} ms; into the middle: {jumps[1] * 1e3:.1f} ms")
        print(f"memory: {(process.memory_info().rss - before) / MB:.1f} MB more than before the log was shown")


async def until_painted(pane: LogPane, path: Path, number: int) -> float:
    painted = asyncio.Event()
    begin = time.perf_counter()
    pane.show(JobLog(number, "benchmark", (AttemptLog(1, path, None, live=True),)))
    pane.call_after_refresh(painted.set)
    await painted.wait()
    return time.perf_counter() - begin


def count_all(pane: LogPane) -> list[float]:
    ticks = []
    while pane._document is not None and not pane._document.complete:
        ticks.append(seconds(pane.tick))
    return ticks


async def searched(host: Host, text: str) -> str:
    wall, processor = time.perf_counter(), time.process_time()
    host.pane.search(text)
    await host.workers.wait_for_complete()
    return f"{time.perf_counter() - wall:.2f} s ({time.process_time() - processor:.2f} s of processor time)"


async def jumped(host: Host, row: int) -> float:
    begin = time.perf_counter()
    host.pane.scroll_y = row
    host.rows()
    return time.perf_counter() - begin


if __name__ == "__main__":
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    main()
