"""The demo: a temporary directory with a session of forty fake training runs, and the app that shows it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

from gputui.core.job import JobSpec
from gputui.gpus import simulated
from gputui.gpus.hardware import Hardware
from gputui.gpus.slots import Simulated, slots
from gputui.session.creation import cpu_jobs
from gputui.session.environment import captured
from gputui.session.lock import OwnerKind
from gputui.session.owner.requests import Begin, Load
from gputui.session.ownership.acquisition import OwnedSession
from gputui.session.session_dir import Paths
from gputui.sources.source import Draft, specs
from gputui.tui.app import GputuiApp, Setup
from gputui.tui.bridge import Bridge, Way, host_name
from gputui.tui.chrome import Where
from gputui.tui.main_screen import MainScreen
from gputui.tui.terminal.tty import colours

from .evening import prepare
from .tour import Tour, guide

GPUS = 4
GRACE = 5.0
FORGOTTEN = "augment_v2.py"
"""Name of the module that the vit jobs import. They fail until it is created."""
RATES = ("0.3", "0.1", "0.03", "0.01")
BATCHES = ("64", "256")
OPENING = (
    ("mlp", "0.3", "256"),
    ("rn50", "0.3", "64"),
    ("unet", "0.3", "64"),
    ("rn50", "0.1", "64"),
    ("mlp", "0.3", "64"),
)
"""The first jobs. One of them soon frees a GPU for the vit jobs, and no other job ends while the vit jobs fail."""


class Stage:
    """The demo's directory, which contains the training script, the session and a home directory for settings."""

    def __init__(self, directory: str, speed: float = 1.0) -> None:
        self.directory = Path(directory)
        self.session = str(self.directory / "gputui_run")
        self._speed = speed

    def set_up(self) -> None:
        shutil.copy(Path(__file__).with_name("train.py"), self.directory)
        programs = self.directory / "bin"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)

    def environment(self, captured: Mapping[str, str]) -> dict[str, str]:
        """Return the user's environment with the demo's `python` first in PATH.

        That `python` imports modules from the script's directory.
        """
        variables = {name: value for name, value in captured.items() if name != "PYTHONSAFEPATH"}
        path = f"{self.directory / 'bin'}{os.pathsep}{captured.get('PATH', os.defpath)}"
        return {**variables, "PATH": path, "PRETEND_SPEED": f"{self._speed:g}", "PYTHONDONTWRITEBYTECODE": "1"}

    def jobs(self) -> tuple[JobSpec, ...]:
        return specs(drafts(), cwd=str(self.directory), environment="", group="lr-sweep")

    def prepare(self) -> int:
        """Write the evening before the demo. Return the number of its jobs."""
        simulated.card = simulated.Card("NVIDIA A100-SXM4-40GB", 40 << 30, 400.0)
        return prepare(self.session, str(self.directory), time.time())

    def fix(self) -> None:
        """Create the missing module, so that the vit jobs succeed."""
        (self.directory / FORGOTTEN).write_text('NAME = "RandAugment"\n')


def drafts() -> list[Draft]:
    return [
        Draft(f"python train.py --net {net} --lr {rate} --bs {batch}", params={"net": net, "lr": rate, "bs": batch})
        for net, rate, batch in _parameters()
    ]


def _parameters() -> Iterator[tuple[str, str, str]]:
    yield from OPENING
    yield from product(("vit",), RATES, BATCHES)
    for rate, batch, net in product(RATES, BATCHES, ("rn18", "mlp", "unet", "rn50")):
        if (net, rate, batch) not in OPENING:
            yield net, rate, batch


def run_demo(stage: Stage, theme: str | None) -> int:
    """Show the demo until the user leaves it. Return the exit status."""
    environment = stage.environment(captured())
    os.chdir(stage.directory)  # jobs added with a key run here
    # The user's hooks are not for fake jobs, and the list of their sessions must not contain this one.
    os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = str(stage.directory)

    def hold(on_change: Callable[[], None]) -> OwnedSession:
        # No daemon: when the demo exits, the broom ends the jobs.
        return OwnedSession(Paths(stage.session), OwnerKind.APP, daemon=False, on_change=on_change)

    def on_ready(main: MainScreen) -> None:
        guide(main, Tour(stage.fix, first_job), lambda: main.host.leave(Way.DETACH))
        begin_jobs(main, stage, environment)

    first_job = stage.prepare()
    bridge = Bridge(hold)
    bridge.take()
    where = Where("demo", host_name())
    app = GputuiApp(bridge, Setup(where=where, environment=environment, first=on_ready, theme=theme, colours=colours()))
    try:
        app.run()
    finally:
        bridge.close()
    return app.return_code or 0


def begin_jobs(main: MainScreen, stage: Stage, environment: dict[str, str]) -> None:
    given_slots = slots(Simulated(GPUS), Hardware())
    settings = {"cpu_jobs": cpu_jobs(), "pause_after": 3, "grace": GRACE}
    begin = Begin(given_slots.slots, given=True, change_slots=True, settings=settings)
    for request in (begin, Load(stage.jobs(), environment, "demo")):
        main.bridge.do(request, lambda answer: None, main.say)
