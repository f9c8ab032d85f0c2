"""Ask several machines in parallel, and choose one of them for a job."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from gputui.core.amounts import counted, memory
from gputui.logs.plain import plain

from .machine import MachineStatus
from .ssh import FAILED, NOT_THERE, HostPlace, how_to_install, ssh_missing, ssh_words

PATIENCE = 5.0
"""Seconds to wait before a machine that has not answered is reported."""
LONGEST_PAUSE = 30.0
_LONGEST_ERROR = 300


class Answer(msgspec.Struct, frozen=True):
    """One machine's answer, or the reason why there is none."""

    place: HostPlace
    status: MachineStatus | None = None
    trouble: str = ""
    at: float = 0.0
    """Time of the answer."""


class HostShown(Struct, frozen=True):
    host: str
    trouble: str | None
    status: MachineStatus | None


class HostsAnswer(Struct, frozen=True):
    hosts: list[HostShown]


ANSWERS = {"hosts": HostsAnswer}
"""The answer of `gputui hosts --json`. It is defined here because the module of the command imports little."""


def hosts_answer(answers: Iterable[Answer]) -> HostsAnswer:
    return HostsAnswer([HostShown(answer.place.alias, answer.trouble or None, answer.status) for answer in answers])


class Survey:
    """Watches machines until `close` is called. `on_answer` is called in one thread per machine."""

    def __init__(
        self, places: Iterable[HostPlace], ssh: str, every: float, on_answer: Callable[[Answer], None]
    ) -> None:
        self._ssh = ssh
        self._every = every
        self._on_answer = on_answer
        self._closed = threading.Event()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for place in places:
            threading.Thread(target=self._watch, args=[place], name=f"gputui-{place.alias}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        for process in list(self._processes.values()):
            process.kill()

    def _watch(self, place: HostPlace) -> None:
        def on_line(line: str) -> None:
            self._on_answer(_parse(place, line))

        pause = 2.0
        while not self._closed.is_set():
            began = time.monotonic()
            trouble = _ask(place, self._ssh, ("--every", f"{self._every:g}"), self._processes, on_line)
            self._on_answer(Answer(place, trouble=trouble, at=time.time()))
            pause = 2.0 if time.monotonic() - began > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            self._closed.wait(pause)


def ask_all(places: Iterable[HostPlace], ssh: str, patience: float = PATIENCE) -> list[Answer]:
    """Return one answer for each place, in order. If a place takes longer than `patience` seconds, its
    answer says so.
    """
    answers = {place.alias: Answer(place, trouble=f"no answer within {patience:g} s") for place in places}
    processes: dict[str, subprocess.Popen[str]] = {}

    def ask(place: HostPlace) -> None:
        lines: list[str] = []
        trouble = _ask(place, ssh, (), processes, lines.append)
        answers[place.alias] = _parse(place, lines[0]) if lines else Answer(place, trouble=trouble)

    threads = [threading.Thread(target=ask, args=[answer.place], daemon=True) for answer in answers.values()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answers_in_time = list(answers.values())
    for process in list(processes.values()):
        if process.poll() is None:
            process.kill()
    return answers_in_time


def _ask(
    place: HostPlace,
    ssh: str,
    flags: tuple[str, ...],
    processes: dict[str, subprocess.Popen[str]],
    on_line: Callable[[str], None],
) -> str:
    """Run `gputui hosts --here` on a machine and wait until it ends. Return why it ended."""
    here = place._replace(directory="")
    words = ssh_words(here, ("hosts", "--here", "--json", *flags), ssh, terminal=False, ask=False)
    # A file, not a pipe: a shared connection keeps ssh's stderr open, so a pipe would never end.
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = processes[place.alias] = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors.fileno(),
                text=True,
                errors="replace",
                start_new_session=True,  # so that Ctrl-C reaches only us
            )
        except OSError as error:
            return ssh_missing(ssh, error)
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                on_line(line)
        status = process.wait()
        errors.seek(0)
        return _explain(place, status, errors.read())


def _parse(place: HostPlace, line: str) -> Answer:
    try:
        status = msgspec.json.decode(line, type=MachineStatus)
    except msgspec.DecodeError:
        return Answer(place, trouble=f"unexpected reply: {plain(line.strip())[:80]}", at=time.time())
    return Answer(place, status, at=time.time())


_ADVICE = (
    ("Permission denied", "log in once manually, or copy your key: ssh-copy-id {alias}"),
    ("Host key verification failed", "log in once manually and check its key: ssh {alias}"),
    ("Could not resolve hostname", "is it in ~/.ssh/config?"),
)


def _explain(place: HostPlace, status: int, errors: str) -> str:
    """Return the last line that ssh printed, with advice for known errors."""
    lines = [plain(line.strip()) for line in errors.splitlines() if line.strip()]
    last = lines[-1].removeprefix("gputui: ")[:_LONGEST_ERROR] if lines else ""
    if status == NOT_THERE:
        there = f"{place.gputui} not found" if place.gputui else "gputui not found there"
        return f'{there}: {how_to_install()}; or set its path: [host."{place.alias}"] gputui = "PATH"'
    advice = next((words for pattern, words in _ADVICE if pattern in errors), "")
    reason = last or (f"ssh failed ({status})" if status == FAILED else f"exited with {status} and no message")
    return f"{reason}; {advice.format(alias=place.alias)}" if advice else reason


# Choosing a machine for a job


class JobNeeds(Struct, frozen=True):
    """The number of GPUs that a job needs, and the free memory in bytes that they must have."""

    gpus: int = 1
    memory: int | None = None

    def __str__(self) -> str:
        cards = counted(self.gpus, "free GPU", "free GPUs")
        return cards if self.memory is None else f"{cards} with {memory(self.memory)}"

    def count_fitting(self, status: MachineStatus) -> int:
        needed = self.memory if self.memory is not None and status.gpus else 0
        return sum(card.free and (not needed or card.memory_free >= needed) for card in status.cards)


def choose_host(answers: Iterable[Answer], needs: JobNeeds) -> Answer | None:
    """Return the machine with the most suitable GPUs. Among equals, take the lowest load. A machine without GPUs is
    taken only if no machine has any.
    """
    answered = [(answer, answer.status) for answer in answers if answer.status is not None]
    with_gpus = [(answer, status) for answer, status in answered if status.gpus]
    ranked = [
        (count if needs.gpus else 0, -status.load, answer)
        for answer, status in with_gpus or answered
        if (count := needs.count_fitting(status)) >= needs.gpus
    ]
    return max(ranked, key=lambda row: row[:2])[2] if ranked else None
