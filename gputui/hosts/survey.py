"""Asking several machines side by side, and choosing one for a job."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO

import msgspec
from msgspec import Struct

from gputui.core.amounts import counted, memory
from gputui.logs.plain import plain

from .machine import CardLook, MachineLook
from .ssh import FAILED, NOT_THERE, HostPlace, how_to_install, ssh_words

# ---- Asking several machines side by side ----


PATIENCE = 5.0
"""Seconds after which a machine that has said nothing is shown as slow."""
LONGEST_PAUSE = 30.0
_LONGEST_COMPLAINT = 300


class Answer(msgspec.Struct, frozen=True):
    """What is known of one machine now: what it said, or why it says nothing."""

    place: HostPlace
    look: MachineLook | None = None
    trouble: str = ""
    """Empty while all is well, or while it has not been asked for long."""
    at: float = 0.0
    """When it said so."""


class Survey:
    """Watches machines until `close`; `on_answer` is called in the threads that ask."""

    def __init__(
        self, places: Iterable[HostPlace], ssh: str, every: float, on_answer: Callable[[Answer], None]
    ) -> None:
        self._ssh = ssh
        self._every = every
        self._on_answer = on_answer
        self._closed = threading.Event()
        self._asked: dict[str, subprocess.Popen[str]] = {}
        for place in places:
            threading.Thread(target=self._watch, args=[place], name=f"gputui-{place.alias}", daemon=True).start()

    def close(self) -> None:
        """Lets go at once: a machine that does not answer keeps nobody."""
        self._closed.set()
        for process in list(self._asked.values()):
            process.kill()

    def _watch(self, place: HostPlace) -> None:
        pause = 2.0
        while not self._closed.is_set():
            began = time.monotonic()
            self._on_answer(Answer(place, trouble=self._listen(place), at=time.time()))
            pause = 2.0 if time.monotonic() - began > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            self._closed.wait(pause)

    def _listen(self, place: HostPlace) -> str:
        """A line for each look, until that ends; why it did."""
        words = _question(place, self._ssh, ("--every", f"{self._every:g}"))
        with tempfile.TemporaryFile("w+", errors="replace") as complaints:
            try:
                process = _begun(words, complaints.fileno())
            except OSError as error:
                return _no_ssh(self._ssh, error)
            self._asked[place.alias] = process
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self._on_answer(_read(place, line))
            return _why(place, process.wait(), _all_of(complaints))


def ask_all(places: Iterable[HostPlace], ssh: str, patience: float = PATIENCE) -> list[Answer]:
    """One answer of each, in the order asked; whoever has not answered by then is told as slow."""
    answers = {place.alias: Answer(place, trouble=f"no answer within {patience:g} s") for place in places}
    processes: dict[str, subprocess.Popen[str]] = {}

    def ask(place: HostPlace) -> None:
        answers[place.alias] = _asked_once(place, ssh, processes)

    threads = [threading.Thread(target=ask, args=[answer.place], daemon=True) for answer in answers.values()]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    answers_in_time = list(answers.values())
    for process in list(processes.values()):
        if process.poll() is None:
            process.kill()
    return answers_in_time


def _asked_once(place: HostPlace, ssh: str, processes: dict[str, subprocess.Popen[str]]) -> Answer:
    # A connection that lasts keeps ssh's stderr open: a pipe would never end.
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        try:
            process = processes[place.alias] = _begun(_question(place, ssh), complaints.fileno())
        except OSError as error:
            return Answer(place, trouble=_no_ssh(ssh, error))
        assert process.stdout is not None
        with process.stdout as lines:
            line = lines.readline()
        status = process.wait()
        return _read(place, line) if line else Answer(place, trouble=_why(place, status, _all_of(complaints)))


def _all_of(complaints: IO[str]) -> str:
    complaints.seek(0)
    return complaints.read()


def _question(place: HostPlace, ssh: str, more: tuple[str, ...] = ()) -> list[str]:
    return ssh_words(place._replace(folder=""), ("hosts", "--here", "--json", *more), ssh, terminal=False, ask=False)


def _begun(words: list[str], complaints: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C is for the screen
    )


def _read(place: HostPlace, line: str) -> Answer:
    try:
        look = msgspec.json.decode(line, type=MachineLook)
    except msgspec.DecodeError:
        return Answer(place, trouble=f"it does not answer as gputui does: {plain(line.strip())[:80]}", at=time.time())
    return Answer(place, look, at=time.time())


def _no_ssh(ssh: str, error: OSError) -> str:
    return f"{ssh.partition(' ')[0]} cannot be started: {error.strerror}; install an ssh client, or set GPUTUI_SSH"


_ADVICE = (
    ("Permission denied", "log in by hand once, or give it your key: ssh-copy-id {alias}"),
    ("Host key verification failed", "log in by hand once and compare its key: ssh {alias}"),
    ("Could not resolve hostname", "is it in ~/.ssh/config?"),
    ("there is no verb and no file 'hosts'", "gputui there is older than 0.2.0: upgrade it"),
)


def _why(place: HostPlace, status: int, complaints: str) -> str:
    """ssh's own last words, and what helps."""
    said = [plain(line.strip()) for line in complaints.splitlines() if line.strip()]
    last = said[-1].removeprefix("gputui: ")[:_LONGEST_COMPLAINT] if said else ""
    if status == NOT_THERE:
        there = f"{place.gputui} is not there" if place.gputui else "gputui is not found there"
        return f'{there}: {how_to_install()}; or set where it is: [host."{place.alias}"] gputui = "PATH"'
    advice = next((words for sign, words in _ADVICE if sign in complaints), "")
    what = last or (f"ssh failed ({status})" if status == FAILED else f"it ended with {status} and said nothing")
    return f"{what}; {advice.format(alias=place.alias)}" if advice else what


# ---- Which machine gets a job that may run on any of them ----


class RoomWanted(Struct, frozen=True):
    """What the job asks for."""

    gpus: int = 1
    memory: int | None = None

    @property
    def told(self) -> str:
        cards = counted(self.gpus, "free GPU", "free GPUs")
        return cards if self.memory is None else f"{cards} with {memory(self.memory)}"


def chosen_host(answers: Iterable[Answer], wanted: RoomWanted) -> Answer | None:
    """The one with most cards to spare, then the least loaded. Processors count only where no machine has a GPU."""
    answered = [answer for answer in answers if answer.look is not None]
    with_gpus = [answer for answer in answered if answer.look is not None and answer.look.gpus]
    fitting = [answer for answer in (with_gpus or answered) if _room(answer, wanted) >= wanted.gpus]
    return max(fitting, key=lambda answer: _rank(answer, wanted), default=None)


def _rank(answer: Answer, wanted: RoomWanted) -> tuple[int, float]:
    assert answer.look is not None
    return (_room(answer, wanted) if wanted.gpus else 0, -answer.look.load)


def _room(answer: Answer, wanted: RoomWanted) -> int:
    return sum(_fits(card, answer.look, wanted) for card in answer.look.cards) if answer.look is not None else 0


def _fits(card: CardLook, look: MachineLook | None, wanted: RoomWanted) -> bool:
    if not card.free or look is None:
        return False
    return wanted.memory is None or not look.gpus or card.memory_free >= wanted.memory
