"""Makes tests/support importable from every test, keeps tests side by side apart and the long ones behind `--long`."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.sessions import Home, Session
    from support.slurm import Cluster

sys.path.insert(0, str(Path(__file__).parent))
# No deadline: a busy machine is not a counterexample. Random examples only with --long, so that runs are repeatable.
settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("random", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")

LONGEST_ID = 60
"""Characters of a parameter that a test's name shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests that take minutes")


def pytest_configure(config: pytest.Config) -> None:
    """Each process that runs tests is a user of its own, on devices of its own, wherever and however it was started."""
    keep_bytecode()
    if config.getoption("--long"):
        settings.load_profile("random")
    for name in [name for name in os.environ if name.startswith("GPUTUI_")]:  # as inside of a job
        del os.environ[name]
    scratch = Path(tempfile.mkdtemp(prefix="gputui-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
    scratch.chmod(0o755)
    leases = scratch / "leases"
    leases.mkdir()
    leases.chmod(0o1777)  # like the directory that the users of a machine share: some tests are several users
    os.environ.update(
        GPUTUI_LEASES=str(leases),
        GPUTUI_DAEMON_QUIET="0.2",
        XDG_CONFIG_HOME=str(scratch / "config"),
        XDG_STATE_HOME=str(scratch / "state"),
    )
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # nohup and `&` have them ignored, by every child
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def keep_bytecode() -> None:
    """As it is for most users; else each of the thousand processes that tests start compiles the package anew."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long value is named by how it begins: names go from process to process with each thing told of a test."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{val[:LONGEST_ID]!a}..{len(val)}"
    return None


def pytest_collection_finish() -> None:
    """Collecting garbage costs less without the thousands of tests, which live until the end anyway."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.skip(reason="takes minutes: run it with --long"))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session that tests run; nothing of its jobs is left afterwards."""
    from support.sessions import Session

    session = Session(tmp_path)
    yield session
    session.sweep()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A session with daemons; none of its processes is left afterwards."""
    from support.sessions import Home, reap

    home = Home(tmp_path)
    yield home
    home.end()
    assert (home.members(), home.processes()) == ([], [])
    reap()


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """One for each process that runs tests and needs it: what a test kills there disturbs no other."""
    from support.slurm import lent

    with lent() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A real cluster of 3 nodes with 4 GPUs each, idle, which this test's processes find by SLURM_CONF."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    yield slurm_cluster
    slurm_cluster.clear()
