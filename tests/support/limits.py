"""Machines that give a program few processes or little memory, where this one lets us set that up."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .sessions import all_pids
from .waiting import until

_CGROUPS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_JOIN = 'echo $$ >"$0" && exec "$@"'


class Limit:
    """`words` go before those of the program; `lift` gives it all it wants from now on."""

    def __init__(self, words: Sequence[str], group: Path | None = None) -> None:
        self.words = tuple(words)
        self._group = group

    def lift(self) -> None:
        if self._group is not None:
            (self._group / "pids.max").write_text("max")

    def close_in(self) -> None:
        """No more than there are now."""
        if self._group is None:
            pytest.skip("only a control group can be closed around what runs")
        (self._group / "pids.max").write_text((self._group / "pids.current").read_text())


@contextmanager
def few_processes(most: int) -> Iterator[Limit]:
    """So many processes and threads, counted together; skips the test where they cannot be limited."""
    group = _made_group()
    if group is None:
        yield _by_user(most)
        return
    (group / "pids.max").write_text(str(most))
    try:
        yield Limit(("/bin/sh", "-c", _JOIN, str(group / "cgroup.procs")), group)
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), "nobody is left in the group")
        group.rmdir()


def _made_group() -> Path | None:
    for place in _CGROUPS:
        group = place / f"gputui-test-{uuid.uuid4().hex[:8]}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "pids.max").exists():
            return group
        group.rmdir()
    return None


def _by_user(most: int) -> Limit:
    """The kernel counts all of a user's; root's it does not count."""
    if os.geteuid() == 0:
        pytest.skip("no control group for processes can be made here, and root has no other limit")
    mine = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in all_pids() if _is_mine(pid))
    return Limit(("bash", "-c", f'ulimit -S -u {mine + most} && exec "$@"', "bash"))


def _is_mine(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/task").st_uid == os.geteuid()
    except OSError:
        return False


def little_memory(kilobytes: int) -> Limit:
    """Of addresses: threads need many, and a thread that cannot be made is what fails first."""
    return Limit(("bash", "-c", f'ulimit -S -v {kilobytes} && exec "$@"', "bash"))
