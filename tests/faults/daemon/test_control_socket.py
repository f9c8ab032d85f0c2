"""Whatever arrives at the control socket, the scheduler answers the next request and keeps scheduling."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from support.sessions import Home, stop
from support.waiting import until
from support.wires import answered, framed, reply, request, wire

from gputui.session import lock as locks
from gputui.session.control.server import MAX_CONNECTIONS
from gputui.session.messages import HEADER, LARGEST_FRAME
from gputui.session.session_dir import Paths

STATUS = request({"type": "status"})
STATUS_ASK = b'"ask":{"type":"status"}}'
GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n" * 50,
    b"\xff" * 5000,
    HEADER.pack(LARGEST_FRAME + 1),
    HEADER.pack(2**32 - 1) + b"x",
)
MEANINGLESS = (
    b"",
    b"nonsense",
    b"null",
    b"[]",
    b"{}",
    b'{"v":1}',
    b"\xff\xfe",
    b'{"v":NaN,"uuid":"a",' + STATUS_ASK,
    b'{"v":99,"uuid":"a",' + STATUS_ASK,
    b'{"v":1,"uuid":"\xff",' + STATUS_ASK,
    b'{"v":1,"uuid":"\\ud800",' + STATUS_ASK,
    b'{"v":1,"uuid":"a","ask":{"type":"nothing"}}',
    b'{"v":1,"uuid":"a","ask":{"type":"show","job":"x"}}',
    b'{"v":1,"uuid":"a","ask":{"type":"show","job":1e999}}',
    b'{"v":1,"uuid":"a","ask":{"type":"commands","events":[{"type":"hold"}]}}',
    b'{"v":1,"uuid":"a","ask":{"type":"commands","events":[{"type":"priority","job":0,"priority":NaN}]}}',
    b'{"v":1,"uuid":"a","ask":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"v":1,"uuid":"a","more":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"," + STATUS_ASK,
)


@pytest.fixture
def owned(home: Home) -> Iterator[Home]:
    """A session with a busy daemon; afterwards the same daemon answers and schedules."""
    home.begin("sleep 600")
    home.resume()
    daemon = home.owner()
    assert stat.S_IMODE(home.private.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.private / "control.sock").stat().st_mode) == 0o600
    yield home
    assert home.ask("status")["process"]["pid"] == daemon
    home.add(home.told("after"))
    until(lambda: home.runs()["after"] == 1, "the daemon still schedules")
    assert "Traceback" not in (home.private / "scheduler.log").read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_another_user_is_refused_even_if_the_directory_is_open(owned: Home) -> None:
    owned.private.chmod(0o755)
    (owned.private / "control.sock").chmod(0o666)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _listen_as_nobody(owned.private, writer)
    os.close(writer)
    os.waitpid(child, 0)
    owned.private.chmod(0o700)
    with open(reader, "rb") as heard:
        assert b"this session belongs to another user" in heard.read()


def _listen_as_nobody(directory: Path, writer: int) -> None:
    """Runs in a child process. The path is relative, so that nothing above the directory matters."""
    with suppress(OSError):
        os.chdir(directory)
        os.setgid(65534)
        os.setuid(65534)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(30.0)
        made.connect("control.sock")
        os.write(writer, made.recv(4096))
    os._exit(0)


def test_a_run_gives_its_lock_away_only_when_forced_and_never_unlocked(home: Home) -> None:
    run = home.start(home.write(home.told("a", "sleep 600")), gpus="0")
    until(home.runs, "the job runs")
    assert "the session is open in gputui run" in answered(home.private, request({"type": "hand_over"}))["message"]
    with wire(home.private) as made:
        made.sendall(request({"type": "hand_over", "force": True}))
        _, (lock,), _, _ = socket.recv_fds(made, 1 << 16, 1)
    _, err = run.communicate()
    assert "another gputui took over the session" in err
    assert os.path.samestat(os.fstat(lock), (home.private / "lock").stat())
    assert locks.is_held(Paths(str(home.root)))
    os.close(lock)


def test_a_path_longer_than_a_socket_address_works(home: Home) -> None:
    long = Home(home.directory, "long" * 30 + "/" + "path" * 30)
    try:
        long.begin()
        long.command({"type": "resume"})
        long.add(long.told("a"))
        assert long.ask("status")["process"]["kind"] == "daemon"
        long.gone()
        assert long.runs() == {"a": 1}
    finally:
        long.end()


def test_garbage_is_refused_and_disconnected(owned: Home) -> None:
    for garbage in GARBAGE:
        with wire(owned.private) as made:
            made.sendall(garbage)
            assert reply(made)["kind"] == "bad_request", garbage
            with pytest.raises((EOFError, ConnectionError)):
                reply(made)


def test_an_invalid_request_is_refused(owned: Home) -> None:
    for body in MEANINGLESS:
        with wire(owned.private) as made:
            made.sendall(framed(body))
            assert reply(made)["kind"] == "bad_request", body[:80]
            made.sendall(STATUS)
            assert reply(made)["ok"]


def test_an_unknown_job_is_refused(owned: Home) -> None:
    for number, job in enumerate((-1, 77, 2**31, 2**63, 2**70)):
        hold = {"type": "commands", "events": [{"type": "hold", "job": job}]}
        assert not answered(owned.private, request({"type": "show", "job": job}))["ok"], job
        assert answered(owned.private, request(hold, uuid=f"{number}"))["value"][0]["refused"]
        assert answered(owned.private, request({"type": "follow", "jobs": [job]}))["value"]["jobs"] == []


def test_half_a_request_delays_nobody(owned: Home) -> None:
    with wire(owned.private) as silent, wire(owned.private) as half:
        silent.sendall(STATUS[:2])
        half.sendall(STATUS[:-3])
        assert answered(owned.private, STATUS)["ok"]
        half.sendall(STATUS[-3:])
        assert reply(half)["ok"]


def test_a_client_that_does_not_read_its_large_reply_delays_nobody(owned: Home) -> None:
    owned.command({"type": "pause"})
    owned.ask("load", **owned.load_of(*(f"echo {'x' * 400} {number}" for number in range(3000))))
    listing = request({"type": "listing"})
    with wire(owned.private) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(listing * 3)
        assert len(owned.ask("listing")["jobs"]) == 3001
        assert answered(owned.private, STATUS)["ok"]
        assert len(reply(lazy)["value"]["jobs"]) == 3001
    owned.command(*({"type": "remove", "job": number} for number in range(1, 3001)))
    owned.command({"type": "resume"})


def test_two_hundred_connections_at_once_are_all_answered(owned: Home) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(wire(owned.private)) for _ in range(MAX_CONNECTIONS * 3 // 2)]
        for each in made[-MAX_CONNECTIONS:]:
            each.sendall(STATUS)
        assert all(reply(each)["ok"] for each in made[-MAX_CONNECTIONS:])
        assert owned.ask("status")["process"], "a client gets through although others are connected"


def test_requests_sent_together_are_answered_in_order(owned: Home) -> None:
    with wire(owned.private) as made:
        made.sendall(STATUS + request({"type": "slots"}) + STATUS)
        assert ["slots" in reply(made)["value"] for _ in range(3)] == [False, True, False]


def test_clients_that_leave_before_the_answer_do_no_harm(owned: Home) -> None:
    for _ in range(20):
        with wire(owned.private) as made:
            made.sendall(request({"type": "listing"}))


def test_a_request_whose_sender_has_gone_is_not_carried_out(owned: Home) -> None:
    owner = owned.owner()
    stop(owner)
    with wire(owned.private) as made:
        made.sendall(request({"type": "load", **owned.load_of(owned.told("given up"))}))
    os.kill(owner, signal.SIGCONT)
    owned.add(owned.told("later"))
    until(lambda: owned.runs()["later"], "the later one runs")
    assert owned.runs() == {"later": 1}


# Jobs that no source of ours would send


def load(home: Home, **fields: Any) -> dict[str, Any]:
    asked = home.load_of("true")
    asked["specs"][0].update(fields)
    return {"type": "load", **asked}


WITH_NUL: tuple[dict[str, Any], ...] = (
    {"command": "a\0b"}, {"cwd": "/a\0b"}, {"outfile": "a\0b"}, {"shell": "/bin/\0sh"}, {"name": "a\0b"},
    {"group": "\0"}, {"variables": {"A": "\0"}}, {"variables": {"\0": "a"}}, {"request": {"devices": ["\0"]}},
)  # fmt: skip
IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"variables": {"A=B": "1"}}, {"variables": {"": "1"}}, {"cwd": "nowhere"}, {"cwd": ""}, {"command": ""},
    {"command": "x" * 3_000_000}, {"outfile": "/nowhere/out"}, {"shell": "/nowhere/sh"}, {"retries": 2**70},
    {"timeout": 1e308}, {"timeout": 1e-300}, {"not_before": -1e300}, {"not_before": 1e300}, {"name": "n" * 100_000},
    {"request": {"gpus": 2**62}}, {"request": {"gpus": 1, "memory": 2**70}}, {"occurrence": 2**70},
)  # fmt: skip


def test_a_nul_byte_is_refused(owned: Home) -> None:
    for number, fields in enumerate(WITH_NUL):
        answer = answered(owned.private, request(load(owned, **fields), uuid=f"{number}"))
        assert (answer["ok"], answer["message"]) == (False, "commands, paths and names cannot contain NUL"), fields


def test_an_impossible_job_ends_alone(owned: Home) -> None:
    owner = owned.owner()
    for number, fields in enumerate(IMPOSSIBLE):
        answer = answered(owned.private, request(load(owned, **fields), uuid=f"{number}"))
        assert answer["ok"] or answer["kind"] == "refused", answer
        assert owned.ask("status")["process"]["pid"] == owner, fields


def test_a_range_far_beyond_the_last_job_is_answered_at_once(owned: Home) -> None:
    answer = answered(owned.private, request({"type": "pick", "ids": [[0, 10**15], [5, 10**15], [-9, -1]]}))
    assert [job["id"] for job in answer["value"]["jobs"]] == [0]
    assert answer["value"]["missing"] == [f"#5-{10**15}", "#-9--1"]
