"""`gputui notify`: send a notification when the selected jobs end, and test the notification."""

from __future__ import annotations

import subprocess

from gputui.cli.command import ChangedJobs, confirm, find_session, report_outcomes, seen, select_jobs
from gputui.cli.output import out, refuse
from gputui.cli.parser import SELECTION, Options, Parser
from gputui.core.events import Notify
from gputui.core.job import ACTIVE, WAITING
from gputui.session.config import load, user_file
from gputui.session.messages import Commands

PATIENCE = 30
TEST = (
    "gputui: test notification: you will get one like this when the queue pauses after errors, "
    "when all jobs have ended, or when a marked job ends"
)

ANSWERS = {"notify": ChangedJobs}


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        'Notify when jobs end: the terminal rings and shows a notification if it can, and the notify = "…" '
        "command in your config.toml gets the message on stdin. Pauses after errors and the end of all jobs "
        "always notify; bell = false silences the terminal.",
        usage="notify JOBS … [--off] | notify --test",
        examples="gputui notify 12\ngputui notify 12 --off\ngputui notify --test",
    )
    parser.add_jobs()
    parser.switch("--off", help="stop notifying")
    parser.switch("--test", help="ring, notify and run the command now")
    parser.add_common(*SELECTION)
    return parser


def work(options: Options) -> int:
    if options.test:
        if options.words:
            refuse("--test takes no jobs")
        return _test_notification()
    client = find_session(options)
    jobs = select_jobs(client, options, options.words, (*WAITING, *ACTIVE))
    confirm(client, options, jobs, "notify")
    events = tuple(Notify(job=job.id, seen=seen(job), wanted=not options.off) for job in jobs)
    outcomes = client.ask(Commands(events, None))
    return report_outcomes(outcomes, jobs, "notification off" if options.off else "will notify when it ends")


def _test_notification() -> int:
    config = load()
    if config.get("bell")[0]:
        from gputui.tui.terminal.app import notification
        from gputui.tui.terminal.tty import write_now

        rang = write_now(notification(TEST))
        out("bell and notification sent to this terminal" if rang else "no terminal to ring")
    else:
        out(f"bell = false ({config.get('bell')[1]}): the terminal stays silent")
    command = config.get("notify")[0]
    if not command:
        out(f'no notify command; set notify = "…" in {user_file()}')
        return 0
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=f"{TEST}\n", text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        out(f"notify command {command!r} did not finish within {PATIENCE} s and was killed")
        return 1
    if done.returncode:
        out(f"notify command {command!r} failed: exit code {done.returncode}")
        return 1
    out(f"sent a test message with the notify command {command!r}")
    return 0
