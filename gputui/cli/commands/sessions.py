"""`gputui sessions`: list this user's sessions on this machine and on others that share the home directory."""

from __future__ import annotations

import os

import msgspec

from gputui.cli.output import Column, OutputFormat, format_counts, print_answer, table
from gputui.cli.parser import Options, Parser
from gputui.core.job import EngineName, StateName
from gputui.session.control.connection import ask_owner
from gputui.session.messages import OwnerShown, SchedulerShown, StatusQuestion
from gputui.session.registry import PRIVATE, remembered
from gputui.session.saved_state import ExitStatus, load_exit_status
from gputui.views.status import StatusWord

COLUMNS = (
    Column("host"), Column("runs on"), Column("scheduler"), Column("process"), Column("jobs", least=10),
    Column("session", least=20),
)  # fmt: skip


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "List your sessions. Those without a scheduler are shown as they were left.",
        usage="sessions [--json]",
        examples="gputui sessions\ngputui ls --session DIR",
    )
    parser.add_common("json")
    return parser


def work(options: Options) -> int:
    sessions = [load_session(host, root) for host, root in remembered()]
    return print_answer(lambda: KnownSessions(sessions), lambda fmt: render(sessions, fmt))


def render(sessions: list[KnownSession], fmt: OutputFormat) -> list[str]:
    if not sessions:
        return ["no sessions; start one with: gputui run FILE"]
    return table(COLUMNS, [session.cells() for session in sessions], fmt, [""] * len(sessions))


class KnownSession(msgspec.Struct, frozen=True):
    """One of the user's sessions. Fields that only an owner knows are None if no owner answered."""

    host: str
    session: str
    scheduler: SchedulerShown | None = None
    process: OwnerShown | None = None
    counts: dict[StateName, int] | None = None
    engine: EngineName | None = None
    cluster: str | None = None
    last: ExitStatus | None = None
    """How the last owner left the session, if it has no owner now."""

    def cells(self) -> list[str]:
        left = self.last
        counts = self.counts or (left.counts if left is not None else None)
        engine = self.engine or (left.engine if left is not None else None)
        word = "-"
        if self.scheduler is not None:
            word = self.scheduler.word
        elif left is not None:
            # Without an owner nothing starts jobs, so whatever else the session was doing, it is idle now.
            word = left.word if left.word in (StatusWord.DONE, StatusWord.PAUSED) else StatusWord.IDLE
        return [
            self.host,
            f"{engine} {self.cluster}" if self.cluster else engine or "-",
            word,
            f"{self.process.kind} {self.process.pid}" if self.process is not None else "-",
            format_counts(counts, engine or EngineName.LOCAL) if counts else "",
            self.session,
        ]


class KnownSessions(msgspec.Struct, frozen=True):
    sessions: list[KnownSession]


ANSWERS = {"sessions": KnownSessions}


def load_session(host: str, root: str) -> KnownSession:
    if host != os.uname().nodename:
        return KnownSession(host, root)
    private = os.path.join(root, PRIVATE)
    status = ask_owner(private, StatusQuestion())
    if status is None:
        return KnownSession(host, root, last=load_exit_status(private))
    cluster = status.cluster or None
    return KnownSession(host, root, status.scheduler, status.process, status.counts, status.engine, cluster)
