"""`gputui reload` on a real session: it shows changes and applies them only with consent."""

from __future__ import annotations

import os
import subprocess

from support.sessions import GPUTUI, Home


def reload(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    arguments = [*GPUTUI, "reload", "--session", str(home.root), *words]
    return subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/", timeout=60)


def commands(home: Home) -> dict[str, str]:
    return {job["command"]: job["state"] for job in home.ask("listing")["jobs"]}


def test_changes_are_shown_and_applied_with_consent(home: Home) -> None:
    file = home.write("echo done", "false")
    assert home.run(file, "--no-daemon").returncode == 1
    home.command({"type": "pause", "kind": "user"})
    file.write_text("echo late\nfalse\necho done\necho later\n")
    shown = reload(home)
    assert shown.stdout == "+ echo late\n+ echo later\n= 1 succeeded, 1 failed (kept)\n"
    assert "nothing was changed" in shown.stderr
    assert commands(home) == {"echo done": "succeeded", "false": "failed"}
    assert "2 added, 0 updated, 0 removed" in reload(home, "-y").stderr
    file.write_text("#: priority=70\necho later\n")
    applied = reload(home, "-y")
    assert "~ #3 echo later: priority 30 → 70\n- #2 echo late: gone, queued, will be removed\n" in applied.stdout
    assert commands(home) == {"echo done": "succeeded", "false": "failed", "echo later": "queued"}
    assert home.ask("show", job=3)["priority"] == 70
    home.end()


def test_an_invalid_file_or_a_fifo_in_its_place_changes_nothing(home: Home) -> None:
    file = home.write("echo a")
    assert home.run(file, "--no-daemon").returncode == 0
    file.write_text("echo b\n#: gpsu=1\necho c\n")
    refused = reload(home, "-y")
    assert refused.returncode == 2
    assert "line 2: 'gpsu' is not a setting" in refused.stderr
    assert list(commands(home)) == ["echo a"]
    file.unlink()
    os.mkfifo(file)
    refused = reload(home, "-y")
    assert refused.returncode == 2
    assert "restore it, or run: gputui reload --forget" in refused.stderr
    assert reload(home, "--forget", str(file)).returncode == 0
    assert "not loaded from a file" in reload(home).stderr


def test_a_redirected_file_can_be_reloaded_too(home: Home) -> None:
    file = home.write("echo a")
    with open(file) as given:
        assert home.run("--no-daemon", stdin=given.fileno()).returncode == 0
    assert reload(home, "--list").stdout == f"file      {file}\n"
    file.write_text("echo a\necho b\n")
    assert reload(home).stdout == "+ echo b\n= 1 succeeded (kept)\n"
