"""A hung job, while its scheduler dies and while it is suspended."""

from __future__ import annotations

from pathlib import Path

from support.sessions import Home, kill
from support.waiting import until

from gputui.session.lock import OwnerKind


def test_the_next_scheduler_knows_since_when_a_job_hangs(home: Home, tmp_path: Path) -> None:
    go = tmp_path / "go"
    silent = f"until test -e {go}; do sleep 1; done; echo here I am; sleep 600"
    run = home.start(home.write("#: hang_after=2s", silent), "--pause-after", "0", gpus="0")
    until(lambda: home.database.exists() and _since(home) is not None, "it is reported as hung")
    since = _since(home)
    owner = home.owner(OwnerKind.RUN)
    home.has_waiter(owner)
    kill(run.pid)
    run.communicate()
    home.owner(OwnerKind.DAEMON)
    assert _since(home) == since
    home.command({"type": "suspend", "job": 0})
    assert _since(home) is None, "a suspended job is not hung"
    home.command({"type": "continue", "job": 0})
    until(lambda: _since(home) is not None, "it still hangs")
    go.touch()
    until(lambda: _since(home) is None, "it prints again")


def _since(home: Home) -> float | None:
    shown = home.ask("listing")["jobs"]
    since: float | None = shown[0]["silent_since"] if shown else None
    return since
