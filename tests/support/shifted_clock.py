"""A wall clock that tests can set, for every gputui process of one test; this machine's own clock stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

_SITE = """\
import os, time
_true_time = time.time
_path = os.environ.get("SHIFTED_CLOCK")
def _shifted():
    try:
        with open(_path) as file:
            return _true_time() + float(file.read() or 0)
    except (OSError, ValueError):
        return _true_time()
if _path:
    time.time = _shifted
"""


class ShiftedClock:
    """Processes started with `environment` ask `time.time()` for the true time and what was set here."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(_SITE)
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        self.environment = {"SHIFTED_CLOCK": str(self._file), "PYTHONPATH": path}
        self.set(0.0)

    def set(self, ahead: float) -> None:
        """So many seconds ahead of the true time; whole or not at all."""
        part = self._file.with_suffix(".part")
        part.write_text(str(ahead))
        part.replace(self._file)
