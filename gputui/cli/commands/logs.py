"""`gputui logs`: print a job's output, and with an option follow it across attempts."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from msgspec import Struct

from gputui.cli.command import find_session, suggest
from gputui.cli.follower import CHUNK, Follower, final_text
from gputui.cli.output import JSON, NOT_FOUND, Exit, print_json, refuse, say, writing_output
from gputui.cli.parser import Options, Parser, whole_number
from gputui.core.amounts import counted
from gputui.core.job import ENDS, predicate
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import Show, ShownAttempt, ShownJob
from gputui.views.format import cut

from .show import show

POLL_INTERVAL = 0.2
BLOCK = 1 << 16
"""Number of bytes to read at once when searching backward for the last lines."""
DEFAULT_WIDTH = 80
"""Width in columns that is assumed if the terminal does not report its size."""


class LogAnswer(Struct, frozen=True):
    """The output of one attempt."""

    id: int
    attempt: int
    file: str
    text: str


ANSWERS = {"logs": LogAnswer}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Print a job's output. On a terminal, control sequences are removed; otherwise every byte is kept.",
        usage="logs JOB [-f] [--err] [-n N] [--attempt A]",
        examples="gputui logs 12\ngputui logs 12 -f -n 20\ngputui logs baseline --err | less\n"
        "gputui logs 12 --attempt 1",
    )
    parser.add_job()
    parser.switch("-f", "--follow", help="follow until the job has finally ended, including retries")
    parser.switch("--err", help="standard error instead of standard output")
    parser.add_argument("-n", "--lines", type=whole_number, metavar="N", help="only the last N lines")
    parser.add_argument("--attempt", type=whole_number, metavar="A", help="an earlier attempt")
    parser.add_common("json", "session")
    return parser


def work(options: Options) -> int:
    if options.follow and options.attempt is not None:
        refuse("-f follows the latest attempt; omit --attempt")
    client = find_session(options)
    shown = show(client, options.job)
    if options.follow and JSON.on:
        refuse("use either -f or --json; to wait for the job: gputui wait")
    if options.follow:
        return FollowedLog(client, shown, options).run()
    path, attempt = _find_file(shown, options)
    try:
        log = Log(path, options.lines)
    except OSError as error:
        whose = f"attempt {attempt} of #{shown.id}"
        raise Exit(1, f"cannot read the output of {whose}: {path}: {error.strerror}") from None
    if JSON.on:
        text = b"".join(iter(log.read, b"")).decode("utf-8", "replace")
        print_json(LogAnswer(shown.id, attempt, path, text))
        return 0
    log.copy()
    log.close()
    _hint_at_stderr(shown, attempt, options)
    return 0


def _hint_at_stderr(shown: ShownJob, number: int, options: Options) -> None:
    """Mention the standard error log if the job wrote only to it."""
    past = (attempt for attempt in shown.attempts if attempt.number == number)
    files = shown if number == shown.attempt else next(past, None)
    if options.err or files is None or not files.out or not files.err:
        return
    lines = _count_lines(files.err)
    if lines and not _count_lines(files.out):
        older = f" --attempt {number}" if number != shown.attempt else ""
        err = suggest(options, f"gputui logs {shown.id}{older} --err")
        amount = counted(lines, "line", "lines")
        say(f"#{shown.id} wrote nothing to OUT, {amount} to ERR: {err}")


def _count_lines(path: str) -> int:
    """Count the lines of a file, including an unfinished last line."""
    count, last = 0, b"\n"
    with suppress(OSError), open(path, "rb") as file:
        while piece := file.read(CHUNK):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")


def _find_file(shown: ShownJob, options: Options) -> tuple[str, int]:
    """Return the selected log file and the attempt that wrote it."""
    if options.attempt is not None and options.attempt != shown.attempt:
        wanted = [attempt for attempt in shown.attempts if attempt.number == options.attempt]
        if not wanted:
            raise Exit(NOT_FOUND, f"#{shown.id} has no attempt {options.attempt}; the latest is {shown.attempt}")
        return _stream(wanted[0], options), options.attempt
    if shown.out is None:
        why = f": {shown.why}" if shown.why else ""
        raise Exit(1, f"no output from #{shown.id} yet: it {predicate(shown.state)}{why}")
    return _stream(shown, options), shown.attempt


def _stream(files: ShownJob | ShownAttempt, options: Options) -> str:
    if options.err and files.err is None:
        raise Exit(1, f"this job writes OUT and ERR to one file: {files.out}; omit --err")
    return str(files.err if options.err else files.out)


class FollowedLog:
    """Prints the logs of a job's attempts, one after the other, until the job has finally ended."""

    def __init__(self, client: Client, shown: ShownJob, options: Options) -> None:
        self._client = client
        self._shown = shown
        self._options = options
        self._lines = options.lines
        self._log: Log | None = None
        self._attempt = 0

    def run(self) -> int:
        try:
            while True:
                # Check the state before reading. Otherwise output written just before the end would be missed.
                ended = self._shown.state in ENDS
                self._open_newest()
                if self._log is not None:
                    self._log.copy()
                if ended:
                    _hint_at_stderr(self._shown, self._shown.attempt, self._options)
                    return 0
                time.sleep(POLL_INTERVAL)
                self._shown = self._client.ask(Show(self._shown.id))
        except KeyboardInterrupt:
            return 0
        finally:
            self._close()

    def _open_newest(self) -> None:
        """Open the newest attempt's log.

        First print the logs of attempts that started and ended since the last call.
        """
        past = self._shown.attempts if self._log is not None else []
        for attempt in past:
            if attempt.number > self._attempt and attempt.out is not None:
                self._open(attempt, attempt.number)
        if self._shown.out is not None:
            self._open(self._shown, self._shown.attempt)

    def _open(self, files: ShownJob | ShownAttempt, number: int) -> None:
        try:
            log = Log(_stream(files, self._options), self._lines)
        except OSError:
            return  # it does not exist yet
        if self._log is not None and os.path.samestat(os.fstat(log.fd), os.fstat(self._log.fd)):
            log.close()
            return
        if self._log is not None:
            self._log.copy()
            self._close()
            say(f"attempt {number}")
        log.copy()
        self._log, self._attempt, self._lines = log, number, None

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


class Log(Follower):
    """Copies a log to standard output.

    A file or pipe gets the bytes unchanged. A terminal gets them without control sequences, and including an unfinished
    last line.
    """

    def __init__(self, path: str, last_lines: int | None = None) -> None:
        super().__init__(path)
        self._terminal = sys.stdout.isatty()
        self._rest_shown = False
        if last_lines is not None:
            os.lseek(self.fd, start_of_last(self.fd, last_lines), os.SEEK_SET)

    def copy(self) -> None:
        while piece := self.read():
            if self._terminal:
                self._show(self.lines(piece))
                continue
            with writing_output():
                sys.stdout.flush()
                view = memoryview(piece)
                while view:
                    view = view[os.write(sys.stdout.fileno(), view) :]

    def _show(self, lines: list[str]) -> None:
        if self._rest_shown:
            sys.stdout.write("\r\x1b[K")
        sys.stdout.write("".join(f"{plain(line)}\n" for line in lines))
        if self.rest:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
            sys.stdout.write(cut(plain(final_text(self.rest)), columns - 1))
        self._rest_shown = bool(self.rest)
        sys.stdout.flush()

    def close(self) -> None:
        if self.rest:
            self._show(self.lines(b"", last=True))
        super().close()


def start_of_last(fd: int, lines: int) -> int:
    """Return the offset at which the last `lines` lines begin, found by reading backward."""
    end = os.fstat(fd).st_size
    if lines == 0:
        return end
    at = end
    needed = lines + (1 if end and os.pread(fd, 1, end - 1) == b"\n" else 0)
    while at > 0:
        size = min(BLOCK, at)
        at -= size
        block = os.pread(fd, size, at)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            needed -= 1
            if needed == 0:
                return at + place + 1
    return 0
