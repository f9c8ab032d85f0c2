"""`gputui notify`: marks jobs whose end the user wants to hear of, and tries how they would."""

from __future__ import annotations

from pathlib import Path

from support.sessions import Gputui
from support.wires import FakeOwner, job

from gputui.session.config import user_file


def user_config(text: str) -> None:
    path = Path(user_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_test_gives_the_message_to_the_users_command(gputui: Gputui, tmp_path: Path) -> None:
    user_config(f"bell = false\nnotify = 'cat > {tmp_path}/told'\n")
    done = gputui("notify", "--test")
    assert done.status == 0
    assert "bell = false" in done.out
    assert "you will get one like this when the queue pauses after errors" in (tmp_path / "told").read_text()


def test_a_failing_or_missing_notify_command_is_reported(gputui: Gputui) -> None:
    user_config("bell = false\nnotify = 'exit 3'\n")
    done = gputui("notify", "--test")
    assert (done.status, "failed: exit code 3" in done.out) == (1, True)
    user_config("bell = false\n")
    done = gputui("notify", "--test")
    assert (done.status, 'set notify = "…" in' in done.out) == (0, True)


def test_jobs_are_marked_and_unmarked(owner: FakeOwner, gputui: Gputui) -> None:
    owner.jobs = {4: job(4, "running")}
    assert gputui("notify", "4").status == 0
    assert gputui("notify", "4", "--off").status == 0
    assert [(event["job"], event.get("wanted", True)) for event in owner.events()] == [(4, True), (4, False)]
