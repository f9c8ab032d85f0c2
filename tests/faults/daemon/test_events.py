"""`gputui events` and `gputui wait`: each event is reported once, whichever owner dies in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.sessions import GPUTUI, Done, Home, Session, kill
from support.sources import valid
from support.waiting import until


def command(home: Session, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GPUTUI, words[0], "--session", str(home.root), *words[1:]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def is_connected(pid: int) -> bool:
    """Return whether the process has an open socket."""
    files = (Path(f"/proc/{pid}/fd") / fd for fd in os.listdir(f"/proc/{pid}/fd"))
    with suppress(FileNotFoundError):  # a file that was closed meanwhile
        return any(os.readlink(file).startswith("socket:") for file in files)
    return False


def parsed(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [valid("events", line) for line in done.stdout.splitlines()]


def events(home: Session, *words: str) -> list[dict[str, Any]]:
    return parsed(home.call("events", *words))


def started(home: Home, *commands: str) -> None:
    home.begin(*commands)
    home.resume()
    home.waiter()


def test_every_event_is_reported_once_although_owners_are_killed(home: Home, tmp_path: Path) -> None:
    jobs = [home.told(number, f"until test -e {tmp_path}/{number}; do sleep 0.01; done") for number in range(6)]
    started(home, *jobs)
    reader = command(home, "events", "--follow")
    assert reader.stdout is not None
    lines = [reader.stdout.readline()]
    for number in range(6):
        until(lambda number=number: home.runs()[str(number)], "it runs")  # type: ignore[misc]
        if number % 2:
            victim = home.owner()
            home.waiter()
            kill(victim)
        (tmp_path / str(number)).touch()
        while json.loads(lines[-1]).get("job") != number or '"ended"' not in lines[-1]:
            lines.append(reader.stdout.readline())
    reader.send_signal(signal.SIGINT)
    reader.communicate()
    home.gone("the queue is done")
    followed = [json.loads(line) for line in lines]
    kept = events(home)
    assert followed == kept[: len(followed)]
    of_jobs = Counter((event["event"], event["job"]) for event in kept if "job" in event)
    expected = [("added", 0), *((kind, job) for job in range(6) for kind in ("started", "ended"))]
    assert of_jobs == dict.fromkeys(expected, 1)
    middle = kept[len(kept) // 2]["cursor"]
    assert events(home, "--since", middle) == kept[len(kept) // 2 + 1 :]
    assert events(home, "--since", kept[-1]["cursor"]) == []


def test_pauses_probes_and_slots_are_reported(home: Home) -> None:
    fails = "echo \"KeyError: 'depth'\" >&2; exit 1"
    home.run("--pause-after", "2", "--probe", "0", home.write(*[fails] * 3, "true"), gpus="0")
    home.command({"type": "pause", "kind": "user"})
    home.command({"type": "resume"})
    found = [event for event in events(home) if event["event"] not in ("added", "started", "ended")]
    assert {event["event"] for event in found} == {"slots", "paused", "probe", "resumed", "alert"}
    [slots] = [event for event in found if event["event"] == "slots"]
    assert slots["slots"] == [["0"]]
    pauses = [event for event in found if event["event"] == "paused"]
    assert (pauses[0]["kind"], pauses[0]["jobs"]) == ("crashes", [0, 1])
    assert "KeyError: 'depth'" in pauses[0]["message"]
    assert next(event["job"] for event in found if event["event"] == "probe") == 2
    assert (pauses[-1]["kind"], found[-1]["event"]) == ("user", "resumed")


def test_a_reader_whose_pipe_is_closed_ends(home: Home) -> None:
    started(home, "sleep 600")
    reader = command(home, "events", "--follow")
    assert reader.stdout is not None
    assert reader.stdout.readline()
    reader.stdout.close()
    reader.stdout = None
    home.command({"type": "kill", "job": 0, "now": True})
    _, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (1, "")


def test_cursors_of_other_sessions_are_refused(home: Home, tmp_path: Path) -> None:
    home.begin("true")
    other = Home(tmp_path, "other")
    other.begin("true")
    cursor = events(other)[-1]["cursor"]
    for since in (cursor, "nonsense", "", cursor.partition("-")[0] + "-x"):
        for words in (["events"], ["wait", "--next"]):
            done = home.call(*words, "--since", since)
            assert done.returncode == 1
            assert f"invalid cursor {since!r}: use one that gputui add, wait or events printed" in done.stderr
    newest = events(home)[-1]["cursor"]
    future = f"{newest.partition('-')[0]}-{int(newest.partition('-')[2]) + 1}"
    assert events(home, "--since", newest) == []
    for words in (["events"], ["wait", "--next"]):
        done = home.call(*words, "--since", future)
        assert done.returncode == 1
        assert f"invalid cursor {future!r}: after the newest event" in done.stderr
    error = json.loads(home.call("events", "--json", "--since", "nonsense").stderr)
    assert (error["error"], error["message"][:14]) == ("refused", "invalid cursor")


def test_events_lost_with_a_damaged_store_are_a_gap(home: Home) -> None:
    home.begin("true")
    before = events(home)
    backup = home.database.read_bytes()
    (home.private / "session.db.backup").write_bytes(backup)
    home.add("true")
    home.command({"type": "hold", "job": 1}, {"type": "pause"})
    lost = events(home)[-1]["cursor"]
    home.gone("the daemon has left")
    home.database.write_bytes(b"\xa5" * 8192)
    (home.private / "session.db-wal").unlink(missing_ok=True)
    (home.private / "session.db.backup").write_bytes(backup)
    assert [event["event"] for event in events(home, "--since", lost)][:2] == ["gap", "gap"]
    after = events(home, "--since", before[-1]["cursor"])
    assert after[0]["event"] == "gap"
    assert "restored" in after[0]["message"]
    assert events(home, "--since", after[0]["cursor"]) == after[1:]


# wait


def waited(home: Home, *words: str, status: int = 0) -> dict[str, Any]:
    done = home.call("wait", "--json", *words)
    assert done.returncode == status, done
    answer: dict[str, Any] = valid("wait", done.stdout)
    return answer


def test_waiting_for_the_next_end_misses_none_although_owners_are_killed(home: Home, tmp_path: Path) -> None:
    count = 8
    gates = [tmp_path / f"gate{number}" for number in range(count)]
    started(home, *(home.told(number, f"until test -e {gate}; do sleep 0.01; done; exit {number % 2}")
                    for number, gate in enumerate(gates)))  # fmt: skip
    home.command({"type": "settings", "pause_after": 0})
    cursor, ended = events(home)[0]["cursor"], list[int]()
    for number, gate in enumerate(gates):
        gate.touch()
        if number % 3 == 1:
            victim = home.owner()
            home.waiter()
            kill(victim)
        if number % 2:
            answer = waited(home, "--next", "--since", cursor, "--timeout", "60", status=1)
            ended += [job["id"] for job in answer["ended"]]
            cursor = answer["cursor"]
    while len(ended) < count:
        answer = json.loads(home.call("wait", "--json", "--next", "--since", cursor).stdout)
        ended += [job["id"] for job in answer["ended"]]
        cursor = answer["cursor"]
    assert sorted(ended) == list(range(count))
    assert home.call("wait", "--next", "--since", cursor).returncode == 3


def test_the_next_end_is_not_missed_if_the_last_job_ends_while_nobody_schedules(home: Home) -> None:
    started(home, home.told("a", home.waits))
    until(home.runs, "it runs")
    waiting = command(home, "wait", "--next", "--json", "--timeout", "60", "--since", events(home)[-1]["cursor"])
    until(lambda: is_connected(waiting.pid), "it waits")
    for pid in (home.waiter(), home.owner()):
        os.kill(pid, signal.SIGKILL)
    wchan = Path(f"/proc/{waiting.pid}/wchan")
    until(lambda: "nanosleep" in wchan.read_text(), "it looks again later")
    home.gate.touch()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert [job["id"] for job in valid("wait", out)["ended"]] == [0]


def test_the_next_end_may_be_of_a_job_that_was_added_later(home: Home) -> None:
    started(home, "exec sleep 600")
    waiting = command(home, "wait", "--next", "--json")
    until(lambda: is_connected(waiting.pid), "it waits")
    home.add("sleep 1; exit 3")
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (1, "")
    assert [job["id"] for job in valid("wait", out)["ended"]] == [1]


def test_the_answer_says_how_jobs_ended_and_what_is_still_running(home: Home) -> None:
    fails = "echo loss=0.5; for i in $(seq 30); do echo line $i >&2; done; echo \"KeyError: 'depth'\" >&2; exit 1"
    started(home, fails, "echo loss=0.25", "exec sleep 600")
    answer = waited(home, "0", "1", status=1)
    assert (answer["schema"], answer["timed_out"], answer["running"], answer["waiting"]) == (1, False, [2], 0)
    failed, succeeded = answer["ended"]
    assert (failed["state"], failed["exit_code"], failed["signal"]) == ("failed", 1, None)
    assert (failed["kind"], failed["message"]) == ("exception", "KeyError: 'depth'")
    assert failed["result"] == {"name": "loss", "last": 0.5, "best": 0.5}
    assert failed["lines"] == [*(f"line {number}" for number in range(12, 31)), "KeyError: 'depth'"]
    assert (succeeded["state"], succeeded["lines"]) == ("succeeded", ["loss=0.25"])
    assert succeeded["gpu_hours"] == pytest.approx(succeeded["seconds"] / 3600)
    group = failed["group"]
    assert [job["id"] for job in waited(home, "--group", group, "--any", status=1)["ended"]] == [0, 1]
    assert home.call("wait", "--group", "none").returncode == 3


def test_a_wait_that_times_out_has_a_status_of_its_own(home: Home) -> None:
    started(home, "true", "exec sleep 600")
    answer = waited(home, "--timeout", "0.2", status=4)
    assert (answer["timed_out"], answer["running"], [job["id"] for job in answer["ended"]]) == (True, [1], [0])
    done = home.call("wait", "1", "--timeout", "0.2")
    assert (done.returncode, done.stderr) == (4, "gputui: timed out; 1 running, 0 waiting\n")
    for words in (["--timeout", "soon"], ["--since", "x"], ["--any", "--next"]):
        assert home.call("wait", *words).returncode == 2
    assert "'soon' is not a duration; write 90, 90s, 5m" in home.call("wait", "--timeout", "soon").stderr


def test_a_wait_returns_when_the_owner_is_killed_and_the_next_one_sees_the_end(home: Home) -> None:
    started(home, home.told("a", f"{home.waits}; exit 3"))
    until(home.runs, "it runs")
    waiting = command(home, "wait")
    owner = home.owner()
    home.waiter()
    kill(owner)
    home.gate.touch()
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 1, err
    assert "0 of 1 succeeded; 1 failed" in err


@pytest.mark.parametrize("given", [["--gpus", "99"], ["--budget", "1s", "--project", "sweep"]])
def test_a_wait_for_jobs_that_can_never_start_says_why_and_gives_no_advice_that_is_refused(
    home: Home, given: list[str]
) -> None:
    home.begin()
    home.command({"type": "resume"})
    if "--budget" in given:
        home.call("add", *given, "--", "sleep 1.2")
        assert home.call("wait").returncode == 0
    home.call("add", *given, "--", "true")
    job = json.loads(home.call("ls", "--json").stdout)["jobs"][-1]["id"]
    words = ("group sweep has used its budget", "of 0.000278 GPU-hours") if "--budget" in given else ("needs 99 GPUs",)
    for owned in (True, False):
        if not owned:
            home.gone("nothing is left to do")
        for options in ([], ["--next"]):
            answer = waited(home, *options, "--timeout", "60", status=1)
            assert (answer["cannot_start"]["jobs"], answer["paused"], answer["timed_out"]) == ([job], None, False)
            assert all(word in answer["cannot_start"]["reason"] for word in words), answer
        done = home.call("wait", str(job))
        assert done.returncode == 1
        assert done.stderr.startswith("gputui: 1 job cannot start: ")
        assert "resume" not in done.stderr
    assert "resume" not in home.call("ls").stdout


def test_a_wait_with_json_ends_when_a_pause_begins_and_says_which(home: Home, tmp_path: Path) -> None:
    fails = "echo \"KeyError: 'depth'\" >&2; exit 1"
    home.begin(f"{home.waits}; {fails}", *[f"{home.waits}; {fails}"] * 3)
    home.command({"type": "settings", "pause_after": 2, "probe": 600.0})
    home.resume()
    waiting = command(home, "wait", "--json")
    until(lambda: is_connected(waiting.pid), "it waits")
    home.gate.touch()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 1, err
    paused = valid("wait", out)["paused"]
    assert "KeyError: 'depth'" in paused["message"], paused
    assert paused["jobs"]
    assert paused["probe"] is not None
    assert paused["probe_at"] is not None
    assert waited(home, "--next", "--timeout", "60", status=1)["paused"] == paused
    assert home.call("wait", "--timeout", "0.2").returncode == 4, "without --json it keeps waiting"


def test_a_wait_with_json_does_not_end_while_a_job_of_the_paused_scheduler_runs(home: Home) -> None:
    home.begin("true")
    assert waited(home, "--next", status=1)["paused"]["probe_at"] is None
    home.resume()
    until(lambda: home.call("wait").returncode == 0, "the first job has ended")
    home.add(home.told("a", home.waits), "true --gpus 2")
    until(home.runs, "it runs")
    waiting = command(home, "wait", "--json")
    home.command({"type": "pause", "kind": "user"})
    home.add("true")
    assert waited(home, "1", "--timeout", "0.2", status=4)["paused"] is None
    home.gate.touch()
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode in (0, 1), err
    assert valid("wait", out)["timed_out"] is False
