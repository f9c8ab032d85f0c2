"""Leases between real users: what is held is seen, what is forged or squatted harms nobody."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.users import as_user

from gputui.gpus.leases import FOLDER_VARIABLE, MOST_AT_ONCE, MOST_OF_A_USER, Leases, shared_folder

GPU = "GPU-11112222-3333"
ALICE, BOB = 54_321, 54_322


@pytest.fixture
def folder() -> Iterator[Path]:
    """Like /run/lock: everybody may make files, nobody may remove another's. (tmp_path is closed to others.)"""
    path = Path(tempfile.mkdtemp(prefix="leases-"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


def test_a_lease_is_seen_by_another_user_and_by_another_session(folder: Path) -> None:
    fd = Leases("mine", str(folder)).take([GPU])
    assert fd is not None
    (other,) = Leases("other", str(folder)).others(GPU)
    assert (other.uid, other.session) == (os.getuid(), "mine")
    assert time.monotonic() - other.since < 60
    assert Leases("mine", str(folder)).others(GPU) == []
    seen = as_user(ALICE, lambda: [lease.uid for lease in Leases("hers", str(folder)).others(GPU)])
    assert seen == f"[{os.getuid()}]"
    os.close(fd)
    assert Leases("other", str(folder)).others(GPU) == []


def test_a_lease_lasts_as_long_as_the_wrapper_even_if_the_owner_goes(folder: Path) -> None:
    fd = Leases("mine", str(folder)).take([GPU])
    assert fd is not None
    wrapper = subprocess.Popen(["sh", "-c", "read line; exit 0"], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)
    assert len(Leases("other", str(folder)).others(GPU)) == 1
    wrapper.communicate(b"end\n")
    assert Leases("other", str(folder)).others(GPU) == []


def test_one_lease_covers_as_many_cards_as_a_job_takes(folder: Path) -> None:
    cards = [f"GPU-{number}" for number in range(16)]
    fd = Leases("mine", str(folder)).take(cards)
    assert fd is not None
    for card in cards:
        (lease,) = Leases("other", str(folder)).others(card)
        assert (lease.device, lease.session) == (card, "mine")
    os.close(fd)
    assert not any(Leases("other", str(folder)).others(card) for card in cards)
    again = Leases("mine", str(folder)).take(cards)
    assert again is not None
    os.close(again)
    assert len(list(folder.iterdir())) == len(cards)


def test_a_lease_on_no_card_is_none(folder: Path) -> None:
    assert Leases("mine", str(folder)).take([]) is None
    assert list(folder.iterdir()) == []


def test_leases_of_other_devices_do_not_matter(folder: Path) -> None:
    fd = Leases("mine", str(folder)).take(["GPU-else"])
    assert fd is not None
    assert Leases("other", str(folder)).others(GPU) == []
    os.close(fd)


def test_files_that_nobody_holds_are_swept(folder: Path) -> None:
    for _ in range(5):
        fd = Leases("mine", str(folder)).take([GPU])
        assert fd is not None
        os.close(fd)
    assert len(list(folder.iterdir())) == 1


def test_an_old_lease_may_be_overridden(folder: Path) -> None:
    fd = Leases("mine", str(folder)).take([GPU])
    (lease,) = Leases("other", str(folder)).others(GPU)
    assert not lease.may_be_overridden(lease.since + 59)
    assert lease.may_be_overridden(lease.since + 61)
    assert fd is not None
    os.close(fd)


def test_an_owner_cannot_keep_a_lease_young(folder: Path) -> None:
    """Its file's times are its owner's to change, so they do not count."""
    fd = Leases("mine", str(folder)).take([GPU])
    assert fd is not None
    looking = Leases("other", str(folder))
    (lease,) = looking.others(GPU)
    (path,) = folder.iterdir()
    for name in (GPU, "GPU-else"):
        os.utime(path)
        path.chmod(0o640)
        os.link(path, folder / f"gputui-lease.{name}.{os.getuid()}.mine.more")
        path.chmod(0o644)
    assert min(again.since for again in looking.others(GPU)) == lease.since
    os.close(fd)


def test_thousands_of_planted_names_cost_next_to_nothing_and_hide_no_lease(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plant() -> None:
        for number in range(1500):
            for uid in (ALICE, BOB):
                (folder / f"gputui-lease.{GPU}.{uid}.x.{number}").touch()

    as_user(ALICE, plant)
    opened: list[str] = []
    really_open = os.open

    def counted(path: Any, *rest: Any, **further: Any) -> int:
        opened.append(path)
        return really_open(path, *rest, **further)

    monkeypatch.setattr(os, "open", counted)
    mine, looking = Leases("mine", str(folder)), Leases("other", str(folder))
    for _ in range(40):
        looking.others(GPU)
        assert len(opened) <= MOST_AT_ONCE, "one look is bounded"
        opened.clear()
    fd = mine.take([GPU])
    assert fd is not None
    assert [lease.session for lease in looking.others(GPU)] == ["mine"]
    assert len(opened) <= 3 * MOST_OF_A_USER, "what turned out to be forged is not opened again"
    os.close(fd)


def test_the_gate_lets_one_user_choose_at_a_time(folder: Path) -> None:
    def try_gate() -> bool:
        with Leases("hers", str(folder)).gate([GPU], patience=0.05) as passed:
            return passed

    with Leases("mine", str(folder)).gate([GPU, "GPU-b"]) as passed:
        assert passed
        assert as_user(ALICE, try_gate) == "False"
    assert as_user(ALICE, try_gate) == "True"
    assert as_user(BOB, try_gate) == "True"


def test_a_gate_made_by_another_user_under_a_strict_umask_works_for_all(folder: Path) -> None:
    def make() -> bool:
        os.umask(0o077)
        with Leases("hers", str(folder)).gate([GPU]) as passed:
            return passed

    assert as_user(ALICE, make) == "True"
    assert as_user(BOB, make) == "True"


def test_a_squatted_gate_costs_coordination_but_no_time(folder: Path) -> None:
    path = folder / f"gputui-gate.{GPU}"

    def squat() -> None:
        path.touch(mode=0o600)

    def knock() -> bool:
        with Leases("his", str(folder)).gate([GPU]) as passed:
            return passed

    as_user(ALICE, squat)
    began = time.monotonic()
    assert as_user(BOB, knock) == "False"
    assert time.monotonic() - began < 20, "the file was not waited for"


@pytest.mark.parametrize("trap", ["symlink", "fifo", "directory"])
def test_links_and_fifos_are_not_followed(folder: Path, trap: str) -> None:
    victim = folder / "victim"
    victim.write_text("untouched")
    for name in (f"gputui-gate.{GPU}", f"gputui-lease.{GPU}.{os.getuid()}.s.0"):
        makers: dict[str, Callable[[Path], Any]] = {
            "symlink": lambda path: path.symlink_to(victim),
            "fifo": os.mkfifo,
            "directory": Path.mkdir,
        }
        makers[trap](folder / name)
    with Leases("mine", str(folder)).gate([GPU]) as passed:
        assert not passed
    assert Leases("mine", str(folder)).others(GPU) == []
    fd = Leases("mine", str(folder)).take([GPU])
    assert fd is not None
    os.close(fd)
    assert victim.read_text() == "untouched"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_nobody_can_forge_a_lease_of_another_user(folder: Path) -> None:
    def forge() -> bool:
        import fcntl

        name = folder / f"gputui-lease.{GPU}.{BOB}.session.0"
        fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o644)
        fcntl.flock(fd, fcntl.LOCK_SH)
        return not Leases("mine", str(folder)).others(GPU)

    assert as_user(ALICE, forge) == "True"


def test_another_user_cannot_hold_us_up_by_locking_the_gate(folder: Path) -> None:
    with Leases("mine", str(folder)).gate([GPU]):
        began = time.monotonic()
        with Leases("other", str(folder)).gate([GPU], patience=0.1) as passed:
            assert not passed
        assert time.monotonic() - began < 20, "the lock was not waited for"


def test_no_file_is_opened_both_ways(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fs.protected_regular refuses O_CREAT on a file that is there and another's, so it never comes without O_EXCL."""
    real, flags = os.open, list[int]()

    def spy(path: str, flag: int, mode: int = 0o777) -> int:
        flags.append(flag)
        return real(path, flag, mode)

    monkeypatch.setattr(os, "open", spy)
    for _ in range(2):
        with Leases("mine", str(folder)).gate([GPU]):
            fd = Leases("mine", str(folder)).take([GPU])
            assert fd is not None
            os.close(fd)
    assert all(flag & os.O_EXCL for flag in flags if flag & os.O_CREAT)
    assert all(flag & os.O_NOFOLLOW for flag in flags)


def test_a_folder_that_is_not_there_is_no_error() -> None:
    nowhere = Leases("mine", "/no/such/folder")
    assert nowhere.others(GPU) == []
    assert nowhere.take([GPU]) is None
    with nowhere.gate([GPU]) as passed:
        assert not passed


def test_names_cannot_leave_the_folder(folder: Path) -> None:
    fd = Leases("../../evil", str(folder)).take(["../../GPU"])
    assert fd is not None
    os.close(fd)
    assert all(path.parent == folder and "/" not in path.name for path in folder.iterdir())


def test_the_default_folder_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    about = os.stat(shared_folder())
    assert about.st_mode & stat.S_ISVTX
    assert sys.platform == "linux"
