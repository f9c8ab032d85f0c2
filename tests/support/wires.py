"""The control socket byte by byte, and an owner that is only a socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from gputui.session.messages import HEADER, VERSION, ListedJob

# ---- Talking to an owner's control socket byte by byte, as no client of ours would ----


@contextmanager
def wire(private: Path, patience: float = 30.0) -> Iterator[socket.socket]:
    """A bare connection."""
    directory = os.open(private, os.O_RDONLY)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(patience)
        made.connect(f"/proc/self/fd/{directory}/control.sock")
        yield made
    finally:
        made.close()
        os.close(directory)


def request(ask: Any, uuid: str = "0", version: int = VERSION) -> bytes:
    return framed(json.dumps({"v": version, "uuid": uuid, "ask": ask}).encode())


def framed(body: bytes) -> bytes:
    return HEADER.pack(len(body)) + body


def reply(made: socket.socket) -> dict[str, Any]:
    (length,) = HEADER.unpack(exactly(made, HEADER.size))
    answer: dict[str, Any] = json.loads(exactly(made, length))
    return answer


def exactly(made: socket.socket, size: int) -> bytes:
    """EOFError: it was put out."""
    received = b""
    while len(received) < size:
        chunk = made.recv(size - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return received


def answered(private: Path, sent: bytes) -> dict[str, Any]:
    """The reply to these very bytes."""
    with wire(private) as made:
        made.sendall(sent)
        return reply(made)


# ---- An owner that is only a socket ----


ADDED = {"id": 7, "name": "job_7", "key": None, "created": True}


class FakeOwner:
    """Answers by the table `answers`: a value, or a function of the request's fields."""

    def __init__(self, root: Path, jobs: list[dict[str, Any]] | None = None) -> None:
        self.root = root
        self.jobs = {job["id"]: job for job in jobs or []}
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {
            "pick": self.pick,
            "listing": self.listing,
            "status": self.status,
            "show": lambda fields: self.jobs[fields["job"]],
            "commands": lambda fields: [{"job": event.get("job"), "refused": None} for event in fields["events"]],
            "load": lambda fields: {"jobs": [7], "new": 1, "sentence": "1 new", "by_spec": [ADDED]},
            "slots": {"slots": []},
            "leave": None,
            "events": {"events": [], "cursor": "log-0", "owned": True},
        }
        self.scheduler: dict[str, Any] = {"state": "running", "cause": None}
        self.owner: dict[str, Any] | None = {"pid": os.getpid(), "kind": "daemon", "since": 0.0, "version": "1"}
        private = root / ".gputui"
        private.mkdir(parents=True, mode=0o700)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        directory = os.open(private, os.O_RDONLY)
        self._socket.bind(f"/proc/self/fd/{directory}/control.sock")  # a path of any length
        os.close(directory)
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def events(self) -> list[dict[str, Any]]:
        return [event for ask in self.asked if ask["type"] == "commands" for event in ask["events"]]

    def asks(self, kind: str) -> list[dict[str, Any]]:
        return [ask for ask in self.asked if ask["type"] == kind]

    # What it says

    def pick(self, fields: dict[str, Any]) -> Any:
        meant: dict[int, dict[str, Any]] = {}
        missing: list[str] = []
        for low, high in fields.get("ids", []):
            found = {id: job for id, job in self.jobs.items() if low <= id <= high}
            meant |= found
            missing += [] if found else [f"#{low}"]
        for name in fields.get("names", []):
            found = {id: job for id, job in self.jobs.items() if job["name"] == name}
            meant |= found
            missing += [] if found else [name]
        if fields.get("all"):
            meant |= self.jobs
        if fields.get("succeeded"):
            meant |= {id: job for id, job in self.jobs.items() if job["state"] == "succeeded"}
        if fields.get("failed"):
            meant |= {id: self.jobs[id] for id in (self.scheduler["cause"] or {}).get("jobs", [])}
        brief = ("id", "name", "state", "attempt", "priority")
        return {"jobs": [{key: meant[id][key] for key in brief} for id in sorted(meant)], "missing": missing}

    def listing(self, fields: dict[str, Any]) -> Any:
        jobs = [job for id, job in self.jobs.items() if fields.get("jobs") is None or id in fields["jobs"]]
        jobs = [job for job in jobs if fields.get("states") is None or job["state"] in fields["states"]]
        return {"session": str(self.root), **self.head(), "jobs": jobs}

    def status(self, fields: dict[str, Any]) -> Any:
        active = [id for id, job in self.jobs.items() if job["state"] in ("starting", "running", "stopping")]
        waiting = sum(job["state"] in ("queued", "held", "blocked", "delayed") for job in self.jobs.values())
        return {**self.head(), "active": active, "waiting": waiting, "eta": None, "trouble": None}

    def head(self) -> dict[str, Any]:
        counts: dict[str, int] = {}
        for job in self.jobs.values():
            counts[job["state"]] = counts.get(job["state"], 0) + 1
        return {"scheduler": self.scheduler, "process": self.owner, "counts": counts}

    # How it says it

    def _serve(self) -> None:
        while True:
            try:
                made, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(made,), daemon=True).start()

    def _talk(self, made: socket.socket) -> None:
        with made, made.makefile("rb") as stream:
            while head := stream.read(HEADER.size):
                message = json.loads(stream.read(HEADER.unpack(head)[0]))
                assert message["v"] == 1
                assert message["uuid"]
                made.sendall(framed(json.dumps(self._reply(message["ask"])).encode()))

    def _reply(self, ask: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(ask)
        answer: Any | Callable[[dict[str, Any]], Any] = self.answers[ask["type"]]
        try:
            return {"v": 1, "ok": True, "value": answer(ask) if callable(answer) else answer}
        except PermissionError as refusal:
            return {"v": 1, "ok": False, "kind": "refused", "message": str(refusal)}


def job(id: int, state: str = "queued", **changes: Any) -> dict[str, Any]:
    """A job as `show` gives it, which has all that `ls` has."""
    ended = state in ("succeeded", "failed", "killed", "timed_out", "lost")
    begun = ended or state in ("starting", "running", "suspended", "stopping")
    made = {
        "id": id,
        "name": f"job_{id}",
        "group": "",
        "params": {},
        "command": f"python train.py {id}",
        "cwd": "/tmp",
        "state": state,
        "exit_code": {"succeeded": 0, "failed": 1}.get(state),
        "signal": None,
        "attempt": 1 if begun else 0,
        "priority": 30,
        "gpus": ["0"] if begun else [],
        "pid": None,
        "added": 1000.0,
        "started": 1000.0 if begun else None,
        "ended": 1060.0 if ended else None,
        "out": None,
        "err": None,
        "why": None,
        "end": None,
        "spec": {"command": f"python train.py {id}", "cwd": "/tmp", "environment": "digest"},
        "environment": None,
        "attempts": [],
        "history": [{"time": 1000.0, "text": "added"}],
    }
    return made | changes


def listed(job: dict[str, Any]) -> ListedJob:
    """As a client takes it in."""
    return msgspec.convert(job, ListedJob)
