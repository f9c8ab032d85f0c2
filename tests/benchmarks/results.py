"""What results cost: `python tests/benchmarks/results.py [SECONDS]` reads eight jobs that print 1,000 lines/s each, and
opens a session of 100,000 jobs with parameters and two metrics. CPU time and memory; the machine's load beside.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec
from support.owning import add, owned, spec

from gputui.core.job import Attempt, Job, JobSpec, Succeeded
from gputui.core.result_book import AttemptSeries
from gputui.core.results import Point
from gputui.core.scheduler import Record
from gputui.session.session_dir import Paths
from gputui.session.store.store import Change, ResultRow, Store

PRINTER = """\
import time
began, number = time.time(), 0
while time.time() - began < {seconds}:
    for _ in range(100):
        number += 1
        print(f"epoch 3/90 step {{number}}/900000 | loss: {{1 / number:.5f}} | acc: {{number % 1000 / 1000:.3f}}")
    if number % 2000 == 0:
        print(f"validation: epoch {{number // 2000}} val_loss: {{1 / number:.5f}} val_acc: 0.5", flush=True)
    time.sleep(max(0, began + number / 1000 - time.time()))
"""


def reading(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "train.py")
        program.write_text(PRINTER.format(seconds=seconds + 5))
        with owned(Path(folder, "s"), lanes=8) as owner:
            jobs = add(owner, *(spec(f"python3 -u {program} --seed {seed}") for seed in range(8)))
            while len(owner.snapshot.results) < 8:
                time.sleep(0.1)
            reader = next(thread for thread in threading.enumerate() if thread.name == "gputui-results")
            clock = time.pthread_getcpuclockid(reader.ident or 0)
            began, cpu, all_cpu = time.monotonic(), time.clock_gettime(clock), time.process_time()
            time.sleep(seconds)
            took = time.monotonic() - began
            shares = ((time.clock_gettime(clock) - cpu) / took, (time.process_time() - all_cpu) / took)
            counts = [owner.snapshot.results[job]["val_loss"].count for job in jobs]
            print(f"8 jobs x 1,000 lines/s: reader {shares[0]:.1%} of one processor, owner in all {shares[1]:.1%};")
            print(f"  of about {int((took + 2) / 2)} validation lines each, read: {counts}")


def stored(root: Path, count: int) -> None:
    paths = Paths(str(root))
    paths.create()
    with owned(root) as owner:
        del owner
    store = Store(paths.database)
    series = AttemptSeries()
    for step in range(40):
        series.take("val_loss", Point(step, 1e9 + step, 1 / (step + 1)))
        series.take("val_acc", Point(step, 1e9 + step, 1 - 1 / (step + 1)))
    results, packed = msgspec.msgpack.encode(series.results(1, 1.0)), msgspec.msgpack.encode(series)
    end = Attempt(1, ("0",), 1e9, 1e9 + 60, Succeeded(), 0, None, "e", lanes=(0,))
    for start in range(0, count, 10_000):
        jobs = [
            Job(number, JobSpec(command=f"python train.py --lr {number % 7} --seed {number}", cwd="/", environment="e"),
                1e9, 30, float(number), Succeeded(), issued=1, attempts=(end,))
            for number in range(start, start + 10_000)
        ]  # fmt: skip
        rows = [ResultRow(job.id, 1, results, packed, b"") for job in jobs]
        store.commit(Change(jobs=jobs, results=rows, record=Record(next_position=float(count))))
    store.close()


def opening(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            stored(Path(folder, "s"), count)
            os._exit(0)
        os.waitpid(child, 0)
        cpu, wall = time.process_time(), time.monotonic()
        with owned(Path(folder, "s")) as owner:
            shown = owner.snapshot
            took, used = time.monotonic() - wall, time.process_time() - cpu
            print(
                f"{count:,} jobs with two metrics: open {took:.2f} s ({used:.2f} s "
                f"CPU), {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB; {len(shown.results):,} "
                f"results, metric {shown.metric.name if shown.metric is not None else None}, best #{shown.best}"
            )


if __name__ == "__main__":
    print("load", os.getloadavg())
    opening(100_000)
    reading(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
