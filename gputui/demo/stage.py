"""What the demo plays with: its folder, its forty jobs, and the file that is missing until it is put there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

from gputui.core.job import JobSpec
from gputui.sources.source import Draft, specs

FORGOTTEN = "augment_v2.py"
"""What the vit jobs import; its absence is their crash."""
RATES = ("0.3", "0.1", "0.03", "0.01")
BATCHES = ("64", "256")
OPENING = (
    ("mlp", "0.3", "256"),
    ("rn50", "0.3", "64"),
    ("unet", "0.3", "64"),
    ("rn50", "0.1", "64"),
    ("mlp", "0.3", "64"),
)
"""So that one GPU comes free for the vit jobs soon, and none of the others ends while they crash."""


class Stage:
    """A folder that holds all that the demo makes: the script, the session, and a home for settings."""

    def __init__(self, folder: str, speed: float = 1.0) -> None:
        self.folder = Path(folder)
        self.session = str(self.folder / "gputui_run")
        self._speed = speed

    def set_up(self) -> None:
        shutil.copy(Path(__file__).with_name("train.py"), self.folder)
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)

    def environment(self, captured: Mapping[str, str]) -> dict[str, str]:
        """The user's, with a `python` that is surely there and finds what lies beside the script."""
        variables = {name: value for name, value in captured.items() if name != "PYTHONSAFEPATH"}
        path = f"{self.folder / 'bin'}{os.pathsep}{captured.get('PATH', os.defpath)}"
        return {**variables, "PATH": path, "PRETEND_SPEED": f"{self._speed:g}", "PYTHONDONTWRITEBYTECODE": "1"}

    def jobs(self) -> tuple[JobSpec, ...]:
        return specs(drafts(), cwd=str(self.folder), environment="", group="lr-sweep")

    def mend(self) -> None:
        """Puts the forgotten file where the jobs look for it."""
        (self.folder / FORGOTTEN).write_text('NAME = "RandAugment"\n')


def drafts() -> list[Draft]:
    return [_draft(line, *chosen) for line, chosen in enumerate(_order(), start=1)]


def _draft(line: int, net: str, rate: str, batch: str) -> Draft:
    command = f"python train.py --net {net} --lr {rate} --bs {batch}"
    return Draft(command, line, params={"net": net, "lr": rate, "bs": batch})


def _order() -> Iterator[tuple[str, str, str]]:
    yield from OPENING
    yield from product(("vit",), RATES, BATCHES)
    for rate, batch, net in product(RATES, BATCHES, ("rn18", "mlp", "unet", "rn50")):
        if (net, rate, batch) not in OPENING:
            yield net, rate, batch
