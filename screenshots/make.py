"""Pictures of the real app: `python screenshots/make.py` plays the demo's jobs for four minutes and writes *.svg here.

The app runs without a terminal but with a real session, real jobs and simulated GPUs; only the host's name is made up.
`python tests/slurm/cluster.py run python screenshots/make.py --slurm` takes the one of a cluster, on a real one.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import TextArea

from gputui.core.events import Mode
from gputui.core.job import StateName
from gputui.demo.broom import Broom
from gputui.demo.stage import Stage, begin_jobs, drafts
from gputui.session.environment import captured
from gputui.session.lock import OwnerKind
from gputui.session.ownership.acquisition import OwnedSession
from gputui.session.session_dir import Paths
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge, Way
from gputui.tui.chrome import Where
from gputui.tui.main_screen import MainScreen
from gputui.tui.terminal.tty import Colours
from gputui.tui.theme import theme_names

HERE = Path(__file__).parent
WIDE, NARROW = (120, 40), (80, 24)
PATIENCE = 300.0
FAR_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""A picture in a README may load nothing."""
FONTS = "Fira Code, ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"


class Photographer:
    """Waits for the right moments and takes the pictures."""

    def __init__(self, app: GputuiApp, pilot: Pilot[Way]) -> None:
        self._app = app
        self._pilot = pilot

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the moment for a picture did not come")
            await self._pilot.pause(0.1)

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self._pilot.pause(0.3)

    async def resize(self, size: tuple[int, int]) -> None:
        await self._pilot.resize_terminal(*size)
        await self._pilot.pause(1.5)  # what is told once a second is told anew for the new size

    def take(self, name: str) -> None:
        drawn = self._app.export_screenshot(title="gputui", simplify=True)
        drawn = FAR_FONTS.sub("", drawn).replace("Fira Code, monospace", FONTS).replace("Fira Code;", f"{FONTS};")
        (HERE / f"{name}.svg").write_text(drawn)

    # The pictures

    async def running(self) -> None:
        main = self._app.main
        await self.until(lambda: main.snapshot.running == 4)
        await self.until(lambda: main.table.move_to(max(main.snapshot.active)))
        await self.until(lambda: self._seconds_run(main.table.cursor) > 12)
        self.take("main")

    def _seconds_run(self, job: int | None) -> float:
        placed = self._app.main.snapshot[job].active if job is not None else None
        return time.time() - placed.since if placed is not None else 0.0

    async def paused(self) -> None:
        await self.until(lambda: self._app.main.snapshot.mode is Mode.PAUSED)
        await self._pilot.pause(1.5)
        self.take("paused")
        await self.view("F", "failures")

    async def view(self, key: str, name: str) -> None:
        """One that fills the screen, opened and left again."""
        await self.press(key)
        await self._pilot.pause(1.5)
        self.take(name)
        await self.press("escape")

    async def going_on(self, stage: Stage) -> None:
        stage.fix()
        await self.press("R")
        self.take("rerun")
        await self.press("enter")
        main = self._app.main
        await self.until(lambda: main.snapshot.mode is Mode.RUNNING and main.snapshot.running == 4)
        await self._pilot.pause(7)  # until what was said has gone, and the bars have moved

    async def dialogs(self) -> None:
        self._app.main.table.move_to(max(self._app.main.snapshot.active))
        await self.press("K")
        self.take("kill")
        await self.press("escape", "A")
        await self.press("ctrl+a", "ctrl+k", *"python train.py --net vit --lr {lr} --bs {bs}")
        self._app.screen.query_one(TextArea).text = "lr log:1e-4:1e-1:4\nbs 64 128 256"
        await self._pilot.pause(0.3)
        self.take("sweep")
        await self.press("escape")

    async def views(self) -> None:
        await self.view("t", "timeline")
        await self.press("1", "z")
        await self._pilot.pause(1.5)
        self.take("gpus")
        await self.press("z", "2")
        await self.view("enter", "details")

    async def end(self) -> None:
        await self.until(lambda: not self._app.main.snapshot.running and not self._app.main.snapshot.waiting)
        await self._pilot.pause(2)
        if self._app.screen is self._app.main:
            await self.press("=")
            await self._pilot.pause(1.5)
        self.take("summary")

    async def looks(self) -> None:
        await self.resize(NARROW)
        self.take("narrow")
        await self.resize(WIDE)
        dark, self._app.theme = self._app.theme, theme_names(Colours.RGB)["light"]
        await self._pilot.pause(0.5)
        self.take("light")
        self._app.theme = dark


@asynccontextmanager
async def playing(stage: Stage, *, begin: bool = True) -> AsyncIterator[tuple[GputuiApp, Pilot[Way]]]:
    """`begin=False`: its session is there and has its jobs."""
    environment = stage.environment(captured())

    def hold(on_change: Callable[[], None]) -> OwnedSession:
        return OwnedSession(Paths(stage.session), OwnerKind.APP, daemon=False, on_change=on_change)

    def first(main: MainScreen) -> None:
        if begin:
            begin_jobs(main, stage, environment)

    if begin:
        stage.prepare()
    bridge = Bridge(hold)
    bridge.take()
    setup = Setup(Where("lr-sweep", "lab7"), environment, first=first)
    app = GputuiApp(bridge, setup)
    try:
        async with app.run_test(size=WIDE) as pilot:
            yield app, pilot
    finally:
        bridge.close()


async def make_slurm() -> None:
    """On the cluster that SLURM_CONF names: a colleague has some of it, and one node is closed."""
    directory = tempfile.mkdtemp(prefix="gputui-pictures-", dir=os.path.dirname(os.environ["SLURM_CONF"]))
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = directory
    stage = Stage(directory, speed=0.5)
    stage.set_up()
    stage.fix()
    gputui = [sys.executable, "-m", "gputui"]
    subprocess.run([*_SBATCH, "-w", "n1", "--gres=gpu:2", "--wrap", "sleep 600"], check=True)
    closing = ("update", "node=n3", "state=drain", "reason=fan replacement, back on Tuesday")
    subprocess.run(["scontrol", *closing], check=True)
    jobs = Path(directory) / "jobs.txt"
    jobs.write_text("".join(f"{draft.command}\n" for draft in drafts()))
    environment = stage.environment(captured())
    with suppress(subprocess.TimeoutExpired):  # killed, it is followed by its daemon, and that by the app
        subprocess.run([*gputui, "run", "--gpus", "slurm:8", jobs], cwd=directory, env=environment, timeout=6)
    try:
        async with playing(stage, begin=False) as (app, pilot):
            photographer = Photographer(app, pilot)
            await photographer.until(lambda: app.main.snapshot.count(StateName.SUCCEEDED) >= 3)
            photographer.take("slurm")
    finally:
        subprocess.run([*gputui, "stop", "--session", stage.session], check=True)


_SBATCH = ("sbatch", "--uid=nobody", "--gid=nogroup", "-D", "/", "-o", "/dev/null")


async def make() -> None:
    directory = tempfile.mkdtemp(prefix="gputui-pictures-")
    stage = Stage(directory)
    broom = Broom(directory, stage.session)
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = directory
    try:
        stage.set_up()
        async with playing(stage) as (app, pilot):
            photographer = Photographer(app, pilot)
            await photographer.running()
            await photographer.paused()
            await photographer.going_on(stage)
            await photographer.dialogs()
            await photographer.views()
            await photographer.looks()
            await photographer.end()
    finally:
        broom.sweep()


if __name__ == "__main__":
    asyncio.run(make_slurm() if "--slurm" in sys.argv else make())
