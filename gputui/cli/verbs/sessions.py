"""`gputui sessions`: this user's sessions, on this machine and on those that share the home."""

from __future__ import annotations

import os
from typing import Any

from gputui.cli.calling import carry_out, print_json
from gputui.cli.output.states import told
from gputui.cli.output.table import Column, Paper, table
from gputui.cli.output.words import out
from gputui.cli.parsing.parser import Options, Parser
from gputui.session.control.client import ClientError, Connection, NoOwner
from gputui.session.registry import remembered

COLUMNS = (Column("host"), Column("scheduler"), Column("owner"), Column("jobs", least=10), Column("session", least=20))


def parser(verb: str) -> Parser:
    made = Parser(
        verb,
        "Lists your sessions. Those that nobody owns are only named, not opened.",
        usage="sessions [--json]",
        examples="gputui sessions\ngputui ls --session DIR",
    )
    made.add_common("json")
    return made


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    found = [looked_at(host, root) for host, root in remembered()]
    if options.json:
        print_json({"sessions": found})
        return 0
    if not found:
        out("no sessions; begin one with: gputui run FILE")
        return 0
    out("\n".join(table(COLUMNS, [row(one) for one in found], Paper(), [""] * len(found))))
    return 0


def looked_at(host: str, root: str) -> dict[str, Any]:
    status = _status(root) if host == os.uname().nodename else None
    facts = {key: status[key] if status else None for key in ("scheduler", "owner", "counts")}
    return {"host": host, "session": root, **facts}


def _status(root: str) -> dict[str, Any] | None:
    try:
        connection = Connection(os.path.join(root, ".gputui"))
        try:
            status: dict[str, Any] = connection.ask("status", {})
            return status
        finally:
            connection.close()
    except (NoOwner, ClientError, OSError):
        return None


def row(one: dict[str, Any]) -> list[str]:
    scheduler, owner = one["scheduler"], one["owner"]
    return [
        one["host"],
        (scheduler.get("standing") or scheduler["state"]) if scheduler else "-",
        f"{owner['kind']} {owner['pid']}" if owner else "-",
        told(one["counts"]) if one["counts"] else "",
        one["session"],
    ]
