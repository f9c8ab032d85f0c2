"""`gputui exec` and `gputui shell`: run a command in this terminal as a job of the session, when a GPU is free."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Any

from msgspec.structs import replace

from gputui.cli.command import seen
from gputui.cli.output import INTERRUPTED, TIMED_OUT, Exit, refuse, say
from gputui.cli.parser import Options, Parser, argument_type
from gputui.core.events import Kill
from gputui.core.job import (
    ACTIVE,
    INTERACTIVE_PRIORITY,
    WAITING,
    EngineName,
    JobId,
    JobSpec,
    OnOom,
    StateName,
    Terminal,
)
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.config import load
from gputui.session.environment import captured
from gputui.session.messages import Commands, JobRow, PickJobs, RowListing, StatusQuestion
from gputui.session.owner.requests import Load
from gputui.sources import values
from gputui.sources.settings import SETTINGS, JobSettings
from gputui.sources.source import Draft, specs

from . import add

FLAGS = ("gpus", "memory", "priority", "name")
LOOK_EVERY = 0.5
"""Seconds between two requests for the state of a waiting job."""
ENDED_EVERY = 0.05
"""Seconds before the first request for the state of a job whose terminal has closed. Each further wait is twice as
long.
"""


def parser(subcommand: str) -> Parser:
    shell = subcommand == "shell"
    parser = Parser(
        subcommand,
        f"Run {'your shell' if shell else 'a command'} in this terminal as a job of the session. It starts before "
        "other waiting jobs, does not stop running ones, and is given GPUs like any other job. Without --keep it ends "
        "with this terminal. The exit status is the command's.",
        usage="shell [options]" if shell else "exec [options] -- COMMAND …",
        examples="gputui shell --gpus 1 --memory 20G"
        if shell
        else "gputui exec -- python\n"
        "gputui exec --gpus 2 --wait 1h -- torchrun debug.py\ngputui exec --keep -- python train.py",
    )
    if not shell:
        parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command to run")
    for name in FLAGS:
        setting = SETTINGS[name]
        parser.add_argument(
            f"--{name}", dest=setting.field, type=argument_type(setting.read), metavar=setting.metavar,
            help=setting.help.replace("%", "%%"),
        )  # fmt: skip
    parser.add_argument(
        "--wait", type=argument_type(values.duration), metavar="TIME", help="give up if it has not started by then"
    )
    parser.switch("--keep", help="keep it running after this terminal closes")
    parser.add_common("session")
    return parser


def work(options: Options) -> int:
    if "GPUTUI_RUN" in os.environ:
        refuse(f"gputui {options.subcommand} cannot run inside a job: run the command itself, or use gputui add")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        refuse(f"gputui {options.subcommand} needs a terminal; without one: gputui add -- COMMAND")
    config = load()
    flags = {SETTINGS[name].field: getattr(options, SETTINGS[name].field) for name in FLAGS}
    chosen = JobSettings(**flags, snapshot=False)  # an interactive job works on the files themselves
    settings = replace(chosen, priority=INTERACTIVE_PRIORITY) if chosen.priority is None else chosen
    (spec,) = specs(
        [Draft(_command(options))], cwd=os.getcwd(), environment="", group="",
        defaults=settings.over(config.job_settings()),
    )  # fmt: skip
    client = add.open_session(options, config)
    if client.ask(StatusQuestion()).engine is not EngineName.LOCAL:
        refuse(f"gputui {options.subcommand} cannot reach jobs on Slurm: use srun --pty --gres=gpu:1 COMMAND")
    return Interactive(client, spec, keep=options.keep).run(options.wait)


def _command(options: Options) -> str:
    if options.subcommand == "shell":
        return f"exec {quote(os.environ.get('SHELL') or '/bin/sh')}"
    if not options.words or options.words == ["-"]:
        refuse("no command: use gputui exec -- COMMAND …, or gputui shell")
    options.script = None
    return add.command(options)


class Interactive:
    """An interactive job, from its addition to its end."""

    def __init__(self, client: Client, spec: JobSpec, *, keep: bool) -> None:
        self._client = client
        where = os.ttyname(0).removeprefix("/dev/")
        terminal = Terminal(f"{os.getpid()}.{os.urandom(4).hex()}", where, keep)
        # The user decides when it ends: it is never retried, and silence does not mean that it hangs.
        self._spec = replace(
            spec, terminal=terminal, retries=0, on_oom=OnOom.FAIL, hang_after=0.0, hold=False, checkpoint=False
        )
        self._job: JobId = -1
        self._line = ""

    def run(self, patience: float | None) -> int:
        from gputui.session.terminal import listening

        assert self._spec.terminal is not None
        with listening(self._client.private, self._spec.terminal.socket) as listener, _leaving_on_hang_up():
            loaded = self._client.ask(Load((self._spec,), captured(), "", by_spec=True), work=True)
            (self._job,) = loaded.jobs
            if loaded.warning:
                say(f"warning: {plain(loaded.warning)}")
            deadline = time.monotonic() + patience if patience is not None else float("inf")
            try:
                return self._follow(listener, deadline)
            except KeyboardInterrupt:
                if not self._withdraw():
                    raise
                raise Exit(INTERRUPTED, f"#{self._job} was removed from the queue") from None
            finally:
                self._show("")

    def _follow(self, listener: socket.socket, deadline: float) -> int:
        """Show the job's terminal whenever the job connects. When the job has ended, return its exit status."""
        from gputui.session.terminal import show

        poll = select.poll()
        poll.register(listener, select.POLLIN)
        pause = 0.0
        while True:
            if poll.poll(1000 * pause):
                self._show("")
                job, _ = listener.accept()
                with job:
                    show(job)
                pause = ENDED_EVERY
            row = self._row()
            if row is None:
                raise Exit(1, f"#{self._job} was removed from the queue")
            if row.state not in (*WAITING, *ACTIVE):
                return self._status(row)
            waits = row.state in WAITING
            self._show(f"#{row.id} waiting: {row.why or row.state}" if waits else "")
            if waits and time.monotonic() > deadline and self._withdraw():
                raise Exit(TIMED_OUT, f"#{self._job} did not start in time and was removed from the queue")
            pause = LOOK_EVERY if waits else min(LOOK_EVERY, 2 * pause or LOOK_EVERY)

    def _row(self) -> JobRow | None:
        return next(iter(self._client.ask(RowListing([self._job])).jobs), None)

    def _withdraw(self) -> bool:
        """Take the job out of the queue. Return False if it has started."""
        jobs = self._client.ask(PickJobs([(self._job, self._job)])).jobs
        waiting = [job for job in jobs if job.state in WAITING]
        events: list[Any] = [Kill(job=job.id, seen=seen(job)) for job in waiting]
        return bool(events) and self._client.ask(Commands(tuple(events)))[0].refused is None

    def _status(self, row: JobRow) -> int:
        """Return the exit status, and say why if the command has none."""
        if row.state is StateName.SUCCEEDED:
            return 0
        code = row.exit_code if row.exit_code is not None else 128 + row.signal if row.signal is not None else None
        if row.state is not StateName.FAILED or code is None:
            say(f"#{row.id} {row.state}{f': {plain(row.end)}' if row.end else ''}")
        return 1 if code is None else code

    def _show(self, line: str) -> None:
        """Replace the status line of the waiting job."""
        if line != self._line:
            width = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r\x1b[K{plain(line)[: width - 1]}")
            sys.stderr.flush()
            self._line = line


@contextmanager
def _leaving_on_hang_up() -> Iterator[None]:
    """Treat SIGHUP and SIGTERM like Ctrl-C while the job waits, so that it does not start after its user has left."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
