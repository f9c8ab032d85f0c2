"""Whatever arrives at the control socket, the owner answers the next one and goes on scheduling."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.homes import Home, stop
from support.waiting import until
from support.wires import answered, framed, reply, request, wire

from gputui.session.control.server import MOST_CONNECTIONS
from gputui.session.messages import HEADER, LARGEST_FRAME

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
    """Owned by a keeper that has work; afterwards it is the same one, it answers, and it schedules."""
    home.begin("sleep 600")
    home.resume()
    keeper = home.owner()
    yield home
    assert home.ask("status")["owner"]["pid"] == keeper
    home.add(home.told("after"))
    until(lambda: home.runs()["after"] == 1, "the owner still schedules")
    assert "Traceback" not in (home.private / "scheduler.log").read_text()


def test_only_the_user_can_reach_it(owned: Home) -> None:
    assert stat.S_IMODE((owned.private / "control.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(owned.private.stat().st_mode) == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_another_user_is_refused_even_where_the_folder_lets_them_in(owned: Home) -> None:
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
        assert b"this session is another user's" in heard.read()


def _listen_as_nobody(folder: Path, writer: int) -> None:
    """In a child, which ends here; a relative path, so that nothing above the folder matters."""
    with suppress(OSError):
        os.chdir(folder)
        os.setgid(65534)
        os.setuid(65534)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(30.0)
        made.connect("control.sock")
        os.write(writer, made.recv(4096))
    os._exit(0)


def test_a_long_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30) / ("path" * 30)
    folder.mkdir(parents=True)
    home = Home(folder)
    try:
        home.begin()
        home.command({"type": "resume"})
        home.add(home.told("a"))
        assert len(str(home.root)) > 240
        assert home.ask("status")["owner"]["kind"] == "keeper"
        home.gone()
        assert home.runs() == {"a": 1}
    finally:
        home.end()


def test_what_is_no_request_is_put_out(owned: Home) -> None:
    for garbage in GARBAGE:
        with wire(owned.private) as made:
            made.sendall(garbage)
            assert reply(made)["kind"] == "bad_request", garbage
            with pytest.raises((EOFError, ConnectionError)):
                reply(made)


def test_a_request_that_means_nothing_is_told_so(owned: Home) -> None:
    for body in MEANINGLESS:
        with wire(owned.private) as made:
            made.sendall(framed(body))
            assert reply(made)["kind"] == "bad_request", body[:80]
            made.sendall(STATUS)
            assert reply(made)["ok"]


def test_a_job_that_is_not_there_is_refused(owned: Home) -> None:
    for number, job in enumerate((-1, 77, 2**31, 2**63, 2**70)):
        hold = {"type": "commands", "events": [{"type": "hold", "job": job}]}
        assert not answered(owned.private, request({"type": "show", "job": job}))["ok"], job
        assert answered(owned.private, request(hold, uuid=f"{number}"))["value"][0]["refused"]
        assert answered(owned.private, request({"type": "follow", "jobs": [job]}))["value"]["jobs"] == []


def test_half_a_request_and_silence_holds_up_nobody(owned: Home) -> None:
    with wire(owned.private) as silent, wire(owned.private) as half:
        silent.sendall(STATUS[:2])
        half.sendall(STATUS[:-3])
        assert answered(owned.private, STATUS)["ok"]
        half.sendall(STATUS[-3:])
        assert reply(half)["ok"]


def test_a_request_in_single_bytes_is_answered(owned: Home) -> None:
    with wire(owned.private) as made:
        for byte in STATUS:
            made.send(bytes([byte]))
        assert reply(made)["ok"]


def test_a_client_that_does_not_read_its_large_reply_holds_up_nobody(owned: Home) -> None:
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
        made = [stack.enter_context(wire(owned.private)) for _ in range(MOST_CONNECTIONS * 3 // 2)]
        for each in made[-MOST_CONNECTIONS:]:
            each.sendall(STATUS)
        assert all(reply(each)["ok"] for each in made[-MOST_CONNECTIONS:])
        assert owned.ask("status")["owner"], "a client comes through though others sit there"


def test_requests_sent_at_once_are_answered_in_their_order(owned: Home) -> None:
    with wire(owned.private) as made:
        made.sendall(STATUS + request({"type": "lanes"}) + STATUS)
        assert ["lanes" in reply(made)["value"] for _ in range(3)] == [False, True, False]


def test_a_client_that_leaves_before_its_answer_harms_nobody(owned: Home) -> None:
    for _ in range(20):
        with wire(owned.private) as made:
            made.sendall(request({"type": "listing"}))


def test_a_request_whose_sender_gave_up_before_it_was_read_comes_to_nothing(owned: Home) -> None:
    owner = owned.owner()
    stop(owner)
    with wire(owned.private) as made:
        made.sendall(request({"type": "load", **owned.load_of(owned.told("given up"))}))
    os.kill(owner, signal.SIGCONT)
    owned.add(owned.told("later"))
    until(lambda: owned.runs()["later"], "the later one runs")
    assert owned.runs() == {"later": 1}
