"""`gputui sessions`: this user's sessions, on this machine and on those that share the home."""

from __future__ import annotations

import os

import msgspec

from gputui.cli.command import carry_out, print_json
from gputui.cli.output import out
from gputui.cli.parser import Options, Parser
from gputui.cli.tables import Column, Paper, table, told
from gputui.core.job import EngineName, StateName
from gputui.session.control.connection import ClientError, Connection, NoOwner
from gputui.session.messages import OwnerShown, SchedulerShown, SessionStatus, StatusQuestion
from gputui.session.registry import remembered
from gputui.session.saved_state import LastLook, last_look
from gputui.views.status import Word

COLUMNS = (
    Column("host"), Column("runs on"), Column("scheduler"), Column("owner"), Column("jobs", least=10),
    Column("session", least=20),
)  # fmt: skip


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Lists your sessions. Those without an owner are not opened, but shown as they were left.",
        usage="sessions [--json]",
        examples="gputui sessions\ngputui ls --session DIR",
    )
    verb_parser.add_common("json")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    sessions = [looked_at(host, root) for host, root in remembered()]
    if options.json:
        print_json({"sessions": sessions})
        return 0
    if not sessions:
        out("no sessions; begin one with: gputui run FILE")
        return 0
    out("\n".join(table(COLUMNS, [row(session) for session in sessions], Paper(), [""] * len(sessions))))
    return 0


class KnownSession(msgspec.Struct, frozen=True):
    """One of the user's sessions; what only an owner could say is None where none answered."""

    host: str
    session: str
    scheduler: SchedulerShown | None = None
    owner: OwnerShown | None = None
    counts: dict[StateName, int] | None = None
    engine: EngineName | None = None
    cluster: str | None = None
    left: LastLook | None = None
    """How its last owner left it, where nobody owns it."""

    @property
    def place(self) -> str:
        """Where its jobs run."""
        if self.engine is None:
            return "-" if self.left is None else str(self.left.engine)
        return f"{self.engine} {self.cluster}" if self.cluster else self.engine


def looked_at(host: str, root: str) -> KnownSession:
    here = host == os.uname().nodename
    status = _status(root) if here else None
    if status is None:
        left = last_look(os.path.join(root, ".gputui")) if here else None
        return KnownSession(host, root, left=left)
    cluster = status.cluster or None
    return KnownSession(host, root, status.scheduler, status.owner, status.counts, status.engine, cluster)


def _status(root: str) -> SessionStatus | None:
    try:
        connection = Connection(os.path.join(root, ".gputui"))
        try:
            return connection.ask(StatusQuestion())
        finally:
            connection.close()
    except (NoOwner, ClientError, OSError):
        return None


def row(session: KnownSession) -> list[str]:
    counts = session.counts or (session.left.counts if session.left is not None else None)
    engine = session.engine or (session.left.engine if session.left is not None else EngineName.LOCAL)
    return [
        session.host,
        session.place,
        _word(session),
        f"{session.owner.kind} {session.owner.pid}" if session.owner is not None else "-",
        told(counts, engine) if counts else "",
        session.session,
    ]


def _word(session: KnownSession) -> str:
    """Where nobody is there to start jobs, what was left waiting is idle."""
    if session.scheduler is not None:
        return session.scheduler.word
    if session.left is None:
        return "-"
    return session.left.word if session.left.word in (Word.DONE, Word.PAUSED) else Word.IDLE
