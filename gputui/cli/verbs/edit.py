"""`gputui edit`: a waiting job's settings as a small TOML text in the user's editor."""

from __future__ import annotations

import os

from gputui.cli.command import agreed, carry_out, on_terminal, seen, session
from gputui.cli.output import Exit, say
from gputui.cli.parser import Options, Parser
from gputui.core.events import Edit, SetPriority, UserCommand
from gputui.core.job import WAITING, predicate
from gputui.logs.plain import plain
from gputui.session.client import Client
from gputui.session.messages import Commands, ShownJob

from .show import show


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Opens a waiting job's settings in $VISUAL or $EDITOR. If they are wrong, gputui says why and keeps the text.",
        usage="edit JOB",
        examples="gputui edit 12\nEDITOR=nano gputui edit baseline",
    )
    verb_parser.add_job()
    verb_parser.add_common("yes", "session")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    client = session(options)
    shown = show(client, options.job)
    if shown.state not in WAITING:
        raise Exit(1, f"#{shown.id} {predicate(shown.state)}: only a waiting job can be edited")
    from gputui.cli.job_text import text_of

    before = text_of(shown)
    path = _written(shown.id, before)
    while True:
        _edit(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            after = file.read()
        if after == before:
            os.unlink(path)
            raise Exit(1, "nothing was changed")
        trouble = changed(client, shown, after, path)
        if trouble is None:
            os.unlink(path)
            say(f"#{shown.id} was changed")
            return 0
        say(trouble)
        if options.yes or not on_terminal() or not agreed("edit again?", otherwise=True):
            raise Exit(1, f"nothing was changed; your text is kept in {path}")


def changed(client: Client, shown: ShownJob, text: str, path: str) -> str | None:
    """Has the new settings taken over; else the sentence why not."""
    from gputui.cli.job_text import BadText, spec_in

    try:
        spec = spec_in(text, shown.spec, path)
    except BadText as error:
        return str(error)
    events: list[UserCommand] = [Edit(job=shown.id, seen=seen(shown), spec=spec)]
    if spec.priority != shown.priority:
        # The spec holds the priority it was added with, which may be just the one wanted now.
        events.append(SetPriority(job=shown.id, priority=spec.priority))
    outcomes = client.ask(Commands(tuple(events)))
    for outcome in outcomes:
        if outcome.warning:
            say(f"warning: {plain(outcome.warning)}")
    return next((outcome.refused for outcome in outcomes if outcome.refused is not None), None)


def _written(job: int, text: str) -> str:
    """A file that only this user can read: a job's variables may hold secrets."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(folder, f"gputui-{job}-{os.urandom(4).hex()}.toml")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def _edit(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # As the shell reads it: an editor may be several words.
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f'{editor} "$@"', editor, path], os.environ)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        os.unlink(path)
        raise Exit(1, f"{editor} ended with {status}; nothing was changed")
