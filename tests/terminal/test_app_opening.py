"""The app opens a session: its jobs do not wait for its screen."""

from __future__ import annotations

from pathlib import Path

from support.apps import at_home
from support.waiting import until

NO_TEXTUAL_UNTIL = """
import os, sys, time

def hook(event, arguments):  # before the import takes any lock, which the owner's thread may need
    while event == "import" and arguments[0] == "textual" and not os.path.exists({gate!r}):
        time.sleep(0.01)

sys.addaudithook(hook)
"""


def test_jobs_run_before_there_is_a_screen(tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(NO_TEXTUAL_UNTIL.format(gate=str(tmp_path / "gate")))
    with at_home(tmp_path) as home:
        jobs = home.write(home.told("first"), home.told("second"))
        with home.opened(jobs, env={"PYTHONPATH": str(tmp_path / "late")}) as terminal:
            until(lambda: home.runs() == {"first": 1, "second": 1}, "both jobs ran")
            assert "2 Queue" not in terminal.text
            (tmp_path / "gate").touch()
            terminal.shows("2 in jobs.txt: 2 new.")
            terminal.shows("2 Queue")
