"""Real terminals: ptys, tmux, what the bytes mean on a screen, and terminals that close."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyte
from rich.cells import cell_len

from .waiting import until

# ---- What a terminal makes of the bytes it gets ----


Picture = tuple[tuple[Any, ...], ...]
"""One tuple of cells for each row; a cell is its text and its looks."""

# What pyte would print as text, and the switch between the two screens, which it does not have.
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[a-z]|\x1b\[\?[0-9;]*\$p|\x18")
_SWITCH = re.compile(rb"(\x1b\[\?1049[hl])")
_UNFINISHED = re.compile(rb"\x1b(\[[0-?]*[ -/]*)?\Z")


def _joined(row: list[str]) -> Iterator[str]:
    """Yield the characters of a row without the second cells of wide ones."""
    for before, cell in zip(["", *row], row, strict=False):
        if cell or cell_len(before) < 2:
            yield cell or " "


class Emulator:
    def __init__(self, columns: int, rows: int) -> None:
        self._screens = {alternate: pyte.Screen(columns, rows) for alternate in (False, True)}
        self._streams = {alternate: pyte.ByteStream(screen) for alternate, screen in self._screens.items()}
        self._rest = b""
        self.alternate = False
        """Whether the program has the whole screen."""

    @property
    def screen(self) -> pyte.Screen:
        return self._screens[self.alternate]

    @property
    def text(self) -> str:
        """The rows as text. Unlike `pyte.Screen.display`, this allows half of a wide character to be overwritten."""
        screen = self.screen
        cells = ([screen.buffer[y][x].data for x in range(screen.columns)] for y in range(screen.lines))
        return "\n".join("".join(_joined(row)).rstrip() for row in cells)

    @property
    def picture(self) -> Picture:
        screen = self.screen
        return tuple(tuple(_as_seen(screen.buffer[y][x]) for x in range(screen.columns)) for y in range(screen.lines))

    @property
    def cursor_hidden(self) -> bool:
        return bool(self.screen.cursor.hidden)

    def resize(self, columns: int, rows: int) -> None:
        for screen in self._screens.values():
            screen.resize(rows, columns)

    def feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        unfinished = _UNFINISHED.search(data)
        cut = unfinished.start() if unfinished else len(data)
        data, self._rest = data[:cut], data[cut:]
        for part in _SWITCH.split(_UNKNOWN.sub(b"", data)):
            if _SWITCH.fullmatch(part):
                self._switch(part.endswith(b"h"))
            else:
                self._streams[self.alternate].feed(part)

    def _switch(self, alternate: bool) -> None:
        hidden = self.screen.cursor.hidden
        self.alternate = alternate
        self.screen.cursor.hidden = hidden
        if alternate:
            self.screen.erase_in_display(2)


def _as_seen(cell: Any) -> tuple[Any, ...]:
    """The colour of a blank is not seen, nor are its bold and italics."""
    if cell.data == " " and not (cell.underscore or cell.reverse or cell.strikethrough):
        return (" ", cell.bg)
    return tuple(cell)


# ---- A real terminal for a program under test ----


CTRL_C, CTRL_L, CTRL_Z = "\x03", "\x0c", "\x1a"
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "PS1": "$ "}
UNWANTED = ("NO_COLOR", "COLUMNS", "LINES", "TERM_PROGRAM")

_BECOME_LEADER = 'trap "" $0; : <>"$tty_of_test"; exec "$@"'
_SYNC_QUERY, _SYNC_ANSWER = b"\x1b[?2026$p", b"\x1b[?2026;2$y"

Redirect = int | Any | None


class RecordedTerminal:
    """The program is the leader of its own session, as after a login; `ignoring` names signals it starts ignoring."""

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        stdin: Redirect = None,
        stdout: Redirect = None,
        stderr: Redirect = None,
        ignoring: str = "",
    ) -> None:
        self._master, self.slave = pty.openpty()
        os.set_blocking(self._master, False)
        self.emulator = Emulator(*size)
        self._text: str | None = None
        """The screen's, until something changes it."""
        self.recorded = bytearray()
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._stalled = False
        self.resize(*size)
        self.modes_before = termios.tcgetattr(self.slave)
        name = os.ttyname(self.slave)
        self.process = subprocess.Popen(
            ["setsid", "sh", "-c", _BECOME_LEADER, ignoring or "URG", *map(str, words)],
            stdin=self.slave if stdin is None else stdin,
            stdout=self.slave if stdout is None else stdout,
            stderr=self.slave if stderr is None else stderr,
            env=environment(env or {}) | {"tty_of_test": name},
            cwd=cwd,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # What the user does

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._text = None
            self.emulator.resize(columns, rows)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def stall(self) -> None:
        """From now on nothing is taken off the terminal."""
        with self._lock:
            self._stalled = True

    def go_on(self) -> None:
        with self._lock:
            self._stalled = False

    def hang_up(self) -> None:
        """The connection is gone: the kernel hangs up on the program."""
        if not self._closed.is_set():
            self._closed.set()
            self._reader.join()
            os.close(self._master)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    # What the user sees

    @property
    def text(self) -> str:
        with self._lock:
            if self._text is None:
                self._text = self.emulator.text
            return self._text

    @property
    def written(self) -> str:
        """Everything that was ever written to it."""
        return self.since(0).decode("utf-8", "replace")

    @property
    def picture(self) -> Picture:
        """Every cell with its looks, for comparisons."""
        with self._lock:
            return self.emulator.picture

    @property
    def count(self) -> int:
        """Bytes that the program has written so far, as far as they were read."""
        with self._lock:
            return len(self.recorded)

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def since(self, count: int) -> bytes:
        with self._lock:
            return bytes(self.recorded[count:])

    def shows(self, wanted: str) -> None:
        with suppress(AssertionError):  # the screen itself tells more
            until(lambda: wanted in self.text or self._ended(), f"the screen shows {wanted!r}")
        assert wanted in self.text, f"wanted {wanted!r}, but the screen shows:\n{self.text}"

    def settles(self, quiet: float = 0.15) -> int:
        """Waits until the program has slept and written nothing for a while; returns the bytes up to here."""
        seen, since = self.count, time.monotonic()

        def calm() -> bool:
            nonlocal seen, since
            if self.count != seen or self._works():
                seen, since = self.count, time.monotonic()
            return time.monotonic() - since > quiet

        until(calm, "the program writes nothing any more")
        return seen

    def status(self, seconds: float = 60.0) -> int:
        """How it ended, once it has."""
        status = self.process.wait(seconds)
        if not self._closed.is_set():
            self.settles(0.05)
        return status

    def end(self) -> None:
        """Also of whatever else runs in the session of this terminal."""
        for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
            with suppress(ProcessLookupError):
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.hang_up()
        os.close(self.slave)

    def _works(self) -> bool:
        """Whether it would go on if the machine let it, or has written what nobody has read yet."""
        with suppress(OSError):
            state = Path(f"/proc/{self.process.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
            return state == b"R" or (not self._stalled and bool(select.select([self._master], [], [], 0)[0]))
        return False

    def _ended(self) -> bool:
        if self.process.poll() is None:
            return False
        self.settles(0.05)
        return True

    def _read(self) -> None:
        while not self._closed.is_set():
            if self._stalled:
                time.sleep(0.01)
            elif select.select([self._master], [], [], 0.05)[0]:
                self._take()

    def _take(self) -> None:
        with self._lock, suppress(OSError):
            if self._stalled:
                return
            chunk = os.read(self._master, 1 << 16)
            asked_before = bytes(self.recorded[-len(_SYNC_QUERY) :]) + chunk
            self.recorded += chunk
            self._text = None
            self.emulator.feed(chunk)
            if _SYNC_QUERY in asked_before[1:]:
                os.write(self._master, _SYNC_ANSWER)


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """This process's, as on an ordinary terminal; a change to None takes a name away."""
    merged = {**os.environ, **dict.fromkeys(UNWANTED), **ENVIRONMENT, **changes}
    return {name: value for name, value in merged.items() if value is not None}


@contextmanager
def recorded(words: Sequence[str | Path], **settings: Any) -> Iterator[RecordedTerminal]:
    terminal = RecordedTerminal(words, **settings)
    try:
        yield terminal
    finally:
        terminal.end()


# ---- A program in a real tmux ----


SIZE = ("120", "40")
NAP = 0.05
"""Seconds between two looks: each is a process of its own."""


class Tmux:
    """A server of its own with one pane, which keeps what its program said last."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self._name = f"gputui-test-{uuid.uuid4().hex}"  # the server of an earlier test may not be gone yet
        self._directory = directory
        outside = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        self._environment = {**outside, **env}
        self._tmux(
            "-f", os.devnull, "new-session", "-d", "-x", SIZE[0], "-y", SIZE[1], "-c", str(directory), "sleep 600"
        )
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def run(self, words: Sequence[str]) -> None:
        """Instead of whatever the pane runs or ran."""
        self._tmux("respawn-pane", "-k", "-c", str(self._directory), shlex.join(words))

    def press(self, *keys: str) -> None:
        """Keys by tmux's names, such as `Enter` and `C-c`."""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def shows(self, wanted: str) -> None:
        self._until(lambda: wanted in self.text, f"the pane shows {wanted!r}")

    def hides(self, unwanted: str) -> None:
        self._until(lambda: unwanted not in self.text, f"the pane shows {unwanted!r} no more")

    @property
    def copied(self) -> str:
        """What tmux's newest buffer has; empty: there is none."""
        command = ["tmux", "-L", self._name, "show-buffer"]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False).stdout

    def leaves(self) -> None:
        """The pane's program ends by itself."""
        self._until(lambda: self._tmux("display-message", "-p", "#{pane_dead}").strip() == "1", "the program has left")

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            time.sleep(NAP)
            return condition()

        try:
            until(looked, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{self.text}") from None

    def end(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._name, *words]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def in_tmux(directory: Path, env: Mapping[str, str]) -> Iterator[Tmux]:
    tmux = Tmux(directory, env)
    try:
        yield tmux
    finally:
        tmux.end()


# ---- The small app of `terminal_host` on a terminal of its own, with the history that it writes ----


HOST = (sys.executable, str(Path(__file__).parent / "terminal_host.py"))


class Hosted:
    def __init__(self, terminal: RecordedTerminal, log: Path) -> None:
        self.terminal, self.log = terminal, log

    @property
    def history(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def pid(self) -> int:
        self.tells("mounted")
        return int(next(line for line in self.history if line.startswith("mounted")).split()[1])

    def times(self, what: str) -> int:
        return sum(line.startswith(what) for line in self.history)

    def tells(self, what: str, times: int = 1) -> None:
        until(
            lambda: self.times(what) >= times, f"the app has told {what!r} {times} times; it told {self.history[-5:]}"
        )

    def ready(self) -> Hosted:
        self.terminal.shows("hello there")
        self.tells("mounted")
        return self


@contextmanager
def hosted(directory: Path, *parts: str, words: tuple[str, ...] = HOST, **settings: Any) -> Iterator[Hosted]:
    log = directory / f"history-{os.urandom(4).hex()}"
    env = {"GPUTUI_HOST_LOG": str(log), **settings.pop("env", {})}
    with recorded([*words, *parts], env=env, **settings) as terminal:
        yield Hosted(terminal, log)
