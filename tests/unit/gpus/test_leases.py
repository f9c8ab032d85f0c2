"""Leases between users: they are seen, and cannot be forged or blocked."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.users import as_user

from gputui.gpus.leases import MOST_OF_A_USER, Leases

GPU = "GPU-11112222-3333"
ALICE, BOB = 54_321, 54_322


@pytest.fixture
def directory() -> Iterator[Path]:
    """Like /run/lock: everybody may make files, nobody may remove another's. (tmp_path is closed to others.)"""
    path = Path(tempfile.mkdtemp(prefix="leases-"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


def taken(directory: Path) -> int:
    """A descriptor that holds a lease."""
    fd = Leases("mine", str(directory)).take([GPU])
    assert fd is not None
    return fd


def test_a_lease_is_seen_by_another_user_and_by_another_session(directory: Path) -> None:
    before = time.monotonic()
    fd = taken(directory)
    (other,) = Leases("other", str(directory)).others(GPU)
    assert (other.uid, other.session) == (os.getuid(), "mine")
    assert before <= other.since <= time.monotonic()
    assert Leases("mine", str(directory)).others(GPU) == []
    seen = as_user(ALICE, lambda: [lease.uid for lease in Leases("hers", str(directory)).others(GPU)])
    assert seen == f"[{os.getuid()}]"
    os.close(fd)
    assert Leases("other", str(directory)).others(GPU) == []


def test_a_lease_lasts_as_long_as_the_wrapper_even_if_the_owner_goes(directory: Path) -> None:
    fd = taken(directory)
    wrapper = subprocess.Popen(["sh", "-c", "read line; exit 0"], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)
    assert len(Leases("other", str(directory)).others(GPU)) == 1
    wrapper.communicate(b"end\n")
    assert Leases("other", str(directory)).others(GPU) == []


def test_one_lease_covers_all_gpus_of_a_job(directory: Path) -> None:
    cards = [f"GPU-{number}" for number in range(16)]
    fd = Leases("mine", str(directory)).take(cards)
    assert fd is not None
    for card in cards:
        (lease,) = Leases("other", str(directory)).others(card)
        assert (lease.device, lease.session) == (card, "mine")
    os.close(fd)
    assert not any(Leases("other", str(directory)).others(card) for card in cards)
    again = Leases("mine", str(directory)).take(cards)
    assert again is not None
    os.close(again)
    assert len(list(directory.iterdir())) == len(cards)


def test_released_lease_files_are_removed(directory: Path) -> None:
    for _ in range(5):
        fd = taken(directory)
        os.close(fd)
    assert len(list(directory.iterdir())) == 1


def test_an_old_lease_may_be_overridden(directory: Path) -> None:
    fd = Leases("mine", str(directory)).take([GPU])
    (lease,) = Leases("other", str(directory)).others(GPU)
    assert not lease.may_be_overridden(lease.since + 59)
    assert lease.may_be_overridden(lease.since + 61)
    assert fd is not None
    os.close(fd)


def test_an_owner_cannot_keep_a_lease_young(directory: Path) -> None:
    """Its file's times are its owner's to change, so they do not count."""
    fd = taken(directory)
    looking = Leases("other", str(directory))
    (lease,) = looking.others(GPU)
    (path,) = directory.iterdir()
    for name in (GPU, "GPU-else"):
        os.utime(path)
        path.chmod(0o640)
        os.link(path, directory / f"gputui-lease.{name}.{os.getuid()}.mine.more")
        path.chmod(0o644)
    assert min(again.since for again in looking.others(GPU)) == lease.since
    os.close(fd)


def test_thousands_of_planted_names_cost_little_and_hide_no_lease(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plant() -> None:
        for number in range(1500):
            for uid in (ALICE, BOB):
                (directory / f"gputui-lease.{GPU}.{uid}.x.{number}").touch()

    as_user(ALICE, plant)
    opened: list[str] = []
    really_open = os.open

    def counted(path: Any, *rest: Any, **further: Any) -> int:
        opened.append(path)
        return really_open(path, *rest, **further)

    monkeypatch.setattr(os, "open", counted)
    fd = taken(directory)
    opened.clear()
    assert [lease.session for lease in Leases("other", str(directory)).others(GPU)] == ["mine"]
    assert len(opened) <= 1 + MOST_OF_A_USER
    os.close(fd)


def test_the_gate_lets_one_user_choose_at_a_time(directory: Path) -> None:
    def try_gate() -> bool:
        with Leases("hers", str(directory)).gate([GPU], patience=0.05) as passed:
            return passed

    with Leases("mine", str(directory)).gate([GPU, "GPU-b"]) as passed:
        assert passed
        assert as_user(ALICE, try_gate) == "False"
    assert as_user(ALICE, try_gate) == "True"
    assert as_user(BOB, try_gate) == "True"


def test_a_gate_made_by_another_user_under_a_strict_umask_works_for_all(directory: Path) -> None:
    def make() -> bool:
        os.umask(0o077)
        with Leases("hers", str(directory)).gate([GPU]) as passed:
            return passed

    assert as_user(ALICE, make) == "True"
    assert as_user(BOB, make) == "True"


def test_a_squatted_gate_costs_only_the_coordination(directory: Path) -> None:
    path = directory / f"gputui-gate.{GPU}"

    def squat() -> None:
        path.touch(mode=0o600)

    def knock() -> bool:
        with Leases("his", str(directory)).gate([GPU]) as passed:
            return passed

    as_user(ALICE, squat)
    assert as_user(BOB, knock) == "False"


@pytest.mark.parametrize("trap", ["symlink", "fifo", "directory"])
def test_links_and_fifos_are_not_followed(directory: Path, trap: str) -> None:
    victim = directory / "victim"
    victim.write_text("untouched")
    for name in (f"gputui-gate.{GPU}", f"gputui-lease.{GPU}.{os.getuid()}.s.0"):
        makers: dict[str, Callable[[Path], Any]] = {
            "symlink": lambda path: path.symlink_to(victim),
            "fifo": os.mkfifo,
            "directory": Path.mkdir,
        }
        makers[trap](directory / name)
    with Leases("mine", str(directory)).gate([GPU]) as passed:
        assert not passed
    assert Leases("mine", str(directory)).others(GPU) == []
    fd = taken(directory)
    os.close(fd)
    assert victim.read_text() == "untouched"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_a_lease_of_another_user_cannot_be_forged(directory: Path) -> None:
    def forge() -> bool:
        import fcntl

        name = directory / f"gputui-lease.{GPU}.{BOB}.session.0"
        fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o644)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return not Leases("mine", str(directory)).others(GPU)

    assert as_user(ALICE, forge) == "True"


def test_no_file_is_opened_both_ways(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fs.protected_regular refuses O_CREAT on a file that is there and another's, so it never comes without O_EXCL."""
    real, flags = os.open, list[int]()

    def spy(path: str, flag: int, mode: int = 0o777) -> int:
        flags.append(flag)
        return real(path, flag, mode)

    monkeypatch.setattr(os, "open", spy)
    for _ in range(2):
        with Leases("mine", str(directory)).gate([GPU]):
            fd = taken(directory)
            os.close(fd)
    assert all(flag & os.O_EXCL for flag in flags if flag & os.O_CREAT)
    assert all(flag & os.O_NOFOLLOW for flag in flags)


def test_a_directory_that_is_not_there_is_no_error() -> None:
    nowhere = Leases("mine", "/no/such/directory")
    assert nowhere.others(GPU) == []
    assert nowhere.take([GPU]) is None
    with nowhere.gate([GPU]) as passed:
        assert not passed


def test_names_cannot_leave_the_directory(directory: Path) -> None:
    fd = Leases("../../evil", str(directory)).take(["../../GPU"])
    assert fd is not None
    os.close(fd)
    assert all(path.parent == directory and "/" not in path.name for path in directory.iterdir())
