"""`gputui logs`: what a job printed, now or as it comes, across its attempts."""

from __future__ import annotations

import time
from contextlib import suppress

from gputui.cli.command import again, carry_out, print_json, session
from gputui.cli.output import Exit, refuse, say
from gputui.cli.parser import Options, Parser, whole
from gputui.cli.tail import CHUNK, Log, sink
from gputui.core.amounts import counted
from gputui.core.job import ENDS, predicate
from gputui.session.client import Client
from gputui.session.messages import Show, ShownAttempt, ShownJob

from .show import show

LOOK_EVERY = 0.2


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Prints what a job wrote. On a terminal, control sequences are left out; in a pipe every byte is kept.",
        usage="logs JOB [-f] [--err] [-n N] [--attempt A]",
        examples="gputui logs 12\ngputui logs 12 -f -n 20\ngputui logs baseline --err | less\n"
        "gputui logs 12 --attempt 1",
    )
    verb_parser.add_job()
    verb_parser.switch("-f", "--follow", help="keep printing until the job has ended, including its retries")
    verb_parser.switch("--err", help="standard error instead of standard output")
    verb_parser.add_argument("-n", "--lines", type=whole, metavar="N", help="only the last N lines")
    verb_parser.add_argument("--attempt", type=whole, metavar="A", help="an earlier attempt")
    verb_parser.add_common("json", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.follow and (options.json or options.attempt is not None):
        refuse("-f follows the newest attempt as it comes: without --json and --attempt")
    client = session(options)
    shown = show(client, options.job)
    if options.follow:
        return FollowedLog(client, shown, options).until_it_ended()
    path, attempt = file_of(shown, options)
    if options.json:
        return as_json(shown, path, attempt, options)
    log = opened(path, options.lines, f"attempt {attempt} of #{shown.id}")
    log.copy()
    log.close()
    say_if_silent(shown, attempt, options)
    return 0


def say_if_silent(shown: ShownJob, number: int, options: Options) -> None:
    """Nothing on standard output, but something on the other: where it is."""
    past = (attempt for attempt in shown.attempts if attempt.number == number)
    files = shown if number == shown.attempt else next(past, None)
    if options.err or files is None or not files.out or not files.err:
        return
    lines = _lines_in(files.err)
    if lines and not _lines_in(files.out):
        older = f" --attempt {number}" if number != shown.attempt else ""
        err = again(options, f"gputui logs {shown.id}{older} --err")
        amount = counted(lines, "line", "lines")
        say(f"#{shown.id} wrote nothing on OUT; {amount} on ERR: {err}")


def _lines_in(path: str) -> int:
    """The last one need not be whole."""
    count, last = 0, b"\n"
    with suppress(OSError), open(path, "rb") as file:
        while piece := file.read(CHUNK):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")


def file_of(shown: ShownJob, options: Options) -> tuple[str, int]:
    """The file that is wanted and the attempt that wrote it."""
    if options.attempt is not None and options.attempt != shown.attempt:
        wanted = [attempt for attempt in shown.attempts if attempt.number == options.attempt]
        if not wanted:
            raise Exit(1, f"#{shown.id} has no attempt {options.attempt}; its newest is {shown.attempt}")
        return stream(wanted[0], options), options.attempt
    if shown.out is None:
        why = f": {shown.why}" if shown.why else ""
        raise Exit(1, f"#{shown.id} has written nothing yet: it {predicate(shown.state)}{why}")
    return stream(shown, options), shown.attempt


def stream(files: ShownJob | ShownAttempt, options: Options) -> str:
    if options.err and files.err is None:
        raise Exit(1, f"both streams of this job are in one file: {files.out}; leave out --err")
    return str(files.err if options.err else files.out)


def opened(path: str, lines: int | None, whose: str) -> Log:
    try:
        return Log(path, sink(), lines)
    except OSError as error:
        raise Exit(1, f"the output of {whose} cannot be read: {path}: {error.strerror}") from None


def as_json(shown: ShownJob, path: str, attempt: int, options: Options) -> int:
    from gputui.cli.tail import start_of_last

    try:
        with open(path, "rb") as file:
            if options.lines is not None:
                file.seek(start_of_last(file.fileno(), options.lines))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        raise Exit(1, f"{path} cannot be read: {error.strerror}") from None
    which = "err" if options.err else "out"
    print_json({"job": shown.id, "attempt": attempt, "stream": which, "path": path, "text": text})
    return 0


class FollowedLog:
    """Reads one attempt to its end, then the next, until the job has ended for good."""

    def __init__(self, client: Client, shown: ShownJob, options: Options) -> None:
        self._client = client
        self._shown = shown
        self._options = options
        self._lines = options.lines
        self._log: Log | None = None
        self._attempt = 0

    def until_it_ended(self) -> int:
        try:
            while True:
                # What was written before its end was seen must not be missed: first look, then read.
                over = self._shown.state in ENDS
                self._turn_to_newest()
                if self._log is not None:
                    self._log.copy()
                if over:
                    say_if_silent(self._shown, self._shown.attempt, self._options)
                    return 0
                time.sleep(LOOK_EVERY)
                self._shown = self._client.ask(Show(self._shown.id))
        except KeyboardInterrupt:
            return 0
        finally:
            self._leave()

    def _turn_to_newest(self) -> None:
        """Through all attempts since the one that was read, for a short one may have come and gone."""
        past = self._shown.attempts if self._log is not None else []
        for attempt in past:
            if attempt.number > self._attempt and attempt.out is not None:
                self._turn_to(attempt, attempt.number)
        if self._shown.out is not None:
            self._turn_to(self._shown, self._shown.attempt)

    def _turn_to(self, files: ShownJob | ShownAttempt, number: int) -> None:
        try:
            log = Log(stream(files, self._options), sink(), self._lines)
        except OSError:
            return  # about to be made
        if self._log is not None and log.same_file(self._log):
            log.close()
            return
        if self._log is not None:
            self._log.copy()
            self._leave()
            say(f"attempt {number}")
        log.copy()
        self._log, self._attempt, self._lines = log, number, None

    def _leave(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
