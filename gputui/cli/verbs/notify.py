"""`gputui notify`: be told when jobs end, and a test of how one would be told."""

from __future__ import annotations

import subprocess

from gputui.cli.command import carry_out, confirm, picked, report, seen, session
from gputui.cli.output import out, refuse
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.core.events import Notify
from gputui.core.job import ACTIVE, WAITING
from gputui.session.config import load, user_file
from gputui.session.messages import Commands

PATIENCE = 30
TEST = "gputui: this is a test; pauses after crashes, the end of all and marked jobs are told like this"


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Tells you when jobs end: the screen rings and shows a notification where the terminal can, and the command "
        'notify = "…" of your own config.toml gets the message on its standard input. Pauses after crashes and the end '
        "of all jobs are always told so; bell = false silences the screen.",
        usage="notify JOBS … [--off] | notify --test",
        examples="gputui notify 12\ngputui notify 12 --off\ngputui notify --test",
    )
    verb_parser.add_jobs()
    verb_parser.switch("--off", help="do not notify about these any more")
    verb_parser.switch("--test", help="ring, notify and run the command now")
    verb_parser.add_common(*SELECTION)
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    if options.test:
        if options.words:
            refuse("--test needs no jobs")
        return _test()
    client = session(options)
    jobs = picked(client, options, options.words, (*WAITING, *ACTIVE))
    confirm(client, options, jobs, "notify")
    events = tuple(Notify(job=job.id, seen=seen(job), wanted=not options.off) for job in jobs)
    outcomes = client.ask(Commands(events, None))
    return report(outcomes, jobs, "its end is told no more" if options.off else "you are told when it ends")


def _test() -> int:
    config = load()
    if config.get("bell")[0]:
        from gputui.tui.terminal.app import notification
        from gputui.tui.terminal.tty import write_now

        rang = write_now(notification(TEST))
        out("the bell and a notification were sent to this terminal" if rang else "there is no terminal to ring")
    else:
        out(f"bell = false ({config.get('bell')[1]}): the screen stays silent")
    return _run(config.get("notify")[0])


def _run(command: str | None) -> int:
    if not command:
        out(f'no command is told: notify = "…" in {user_file()} sets one')
        return 0
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=f"{TEST}\n", text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        out(f"notify = {command!r} did not end within {PATIENCE} s and was killed")
        return 1
    failed = f" and failed: exit {done.returncode}" if done.returncode else ""
    out(f"notify = {command!r} was given the message{failed}")
    return 1 if done.returncode else 0
