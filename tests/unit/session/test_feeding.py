"""Followed files: a line that was read is saved, or read again by the next owner."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from support.sessions import owned
from support.waiting import until

from gputui.core.events import Pause, PauseKind, Resume
from gputui.session.loading import SourceKind, SourceRecord
from gputui.session.messages import Commands
from gputui.session.owner.owner import Owner
from gputui.session.owner.requests import Forget, Load
from gputui.sources.follow import end_of


def follow(owner: Owner, path: Path) -> None:
    position, mark = end_of(str(path))
    source = SourceRecord(kind=SourceKind.FOLLOWED, path=str(path), cwd="/", position=position, mark=mark)
    owner.do(Load((), dict(os.environ), "test", sources=(source,))).result(60)


def commands(owner: Owner) -> list[str]:
    return [job.spec.command for job in owner.snapshot.jobs]


def block(owner: Owner, until_set: threading.Event) -> None:
    """Block its thread until the event is set; return when it is blocked."""
    is_blocked = threading.Event()

    def wait() -> None:
        is_blocked.set()
        until_set.wait(60)

    owner.loop.call_soon_threadsafe(wait)
    assert is_blocked.wait(60)


def test_an_owner_that_leaves_saves_a_line_already_read_from_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    go = threading.Event()
    with owned(tmp_path / "s") as owner:
        follow(owner, fifo)
        writer = os.open(fifo, os.O_WRONLY)
        block(owner, go)
        owner.leave()
        os.write(writer, b"echo a\n")
        until(lambda: owner.inbox, "the line was read and waits for its turn")
        go.set()
        owner.wait()
    with owned(tmp_path / "s") as owner:
        assert commands(owner) == ["echo a"]
        assert [source.rest for source in owner.sources.values()] == [b""]
        os.close(writer)


def test_stopping_and_resuming_reads_every_line_once(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.touch()
    with owned(tmp_path / "s") as owner:
        follow(owner, queue)
        for number in range(5):
            with open(queue, "a") as file:
                file.write(f"echo {number}\n")
            owner.do(Commands((Pause(PauseKind.STOPPED),))).result(60)
            owner.do(Commands((Resume(),))).result(60)
        until(lambda: len(commands(owner)) == 5, "every line was read")
        assert commands(owner) == [f"echo {number}" for number in range(5)]


def test_a_removed_source_is_not_read_further(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.touch()
    with owned(tmp_path / "s") as owner:
        follow(owner, queue)
        assert owner.has_work()
        assert owner.do(Forget((str(queue),))).result(60) == [str(queue)]
        assert not owner.has_work()
        until(
            lambda: not [one for one in threading.enumerate() if one.name == "gputui-followed"], "its thread has ended"
        )
        queue.write_text("echo a\n")
        assert commands(owner) == []
