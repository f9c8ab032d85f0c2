"""The parsers of the app and of `run`."""

from __future__ import annotations

import argparse
from typing import Any

from gputui.gpus.slots import looks_like_gpus, parse_gpus
from gputui.session.config import SESSION_OPTIONS
from gputui.sources.kinds import PARSERS
from gputui.sources.values import duration

from .parser import Parser, argument_type, whole_number


def join_gpus(words: list[str]) -> list[str]:
    """Join `--gpus 0 1 2` into one word. All following words that look like GPUs are included."""
    joined: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word not in ("--gpus", "--gpu") or not rest:
            joined.append(word)
            continue
        gpus = [rest.pop(0)]
        while rest and looks_like_gpus(rest[0]):
            gpus.append(rest.pop(0))
        joined.append("--gpus=" + " ".join(gpus))
    return joined


THEMES = ("dark", "light", "ansi", "ansi-light")
APP_HELP = """\
examples:
  gputui jobs.txt                       one command per line; queue, GPUs and logs in one view
  gputui --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  producer | gputui -                   read commands as they arrive
  gputui                                open the session here; if none, a live GPU monitor
  gputui --read-only                    watch a session that another gputui has open

Press q to quit: jobs keep running, and gputui reopens the session. ? lists the keys.
All commands: gputui help
"""
RUN_HELP = """\
examples:
  gputui run --gpus 0,1 jobs.txt            one command per line; run it again to continue
  gputui run --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  gputui run --gpus [0,1],[2,3] jobs.txt    two GPUs per job
  gputui run --gpus cpu:4 < jobs.txt        four at a time, without a GPU
  gputui run --dry-run jobs.txt             show which jobs would run, where and when
  tail -f queue | gputui run --gpus 0 1     run commands as they arrive
  gputui run --follow queue                 the same, but remembers how far it has read
  gputui run --job_yielder gen.py           run the jobs that gen.py's yielder() yields, on demand

When several jobs fail with the same error, the rest run one at a time until one succeeds. With --pause-after N
the run stops there instead; with --probe 5m it waits before each.
Loading a file again keeps finished jobs and reruns failed ones. Exit status: 0 all succeeded, 1 some did not,
2 usage error, 130 and 143 interrupted.
"""


def parser(subcommand: str) -> Parser:
    """Return the parser of `app` or `run`."""
    if subcommand == "app":
        text, usage, more = "Open the TUI: queue, GPUs and logs.", "[JOBS …] [options]", APP_HELP
    else:
        text, usage, more = "Run jobs without the TUI.", "run [options] [JOBS …]", RUN_HELP
    parser = Parser(subcommand, text, usage=usage, epilog=more, allow_abbrev=True, prepare=join_gpus)
    if subcommand == "app":
        parser.add_argument("--session", metavar="DIR", help="open this session")
        parser.switch("--read-only", help="watch only: keys change nothing; works beside another gputui")
        parser.add_argument("--theme", choices=THEMES, help="color theme (dark)")
        parser.switch("--ascii", help="use ASCII characters only")
        parser.switch("--no-diff", help="redraw everything, not only what changed")
    _add_job_sources(parser)
    _add_session_flags(parser)
    if subcommand == "run":
        parser.add_argument("--tally", help=argparse.SUPPRESS)  # a file for the counts of jobs, see gputui.tasks
        parser.switch("--fail-fast", help="stop at the first failure (--pause-after 1)")
        parser.switch("--rerun-lost", help="also rerun lost jobs")
        parser.switch("--wait-when-paused", help="keep waiting while paused")
        parser.switch("--stream", help="print job output, prefixed with the job number")
        parser.switch("-v", "--verbose", help="one line per event, even on a terminal")
        parser.switch("--dry-run", help="show which jobs would run, when and where; change nothing")
        parser.switch("--json", help="JSON output at the end; fields are only ever added")
    return parser


def _add_job_sources(parser: Parser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOBS", help="job files (.txt .toml .yaml .esy .py), or -")
    parser.add_argument("--job-file", metavar="FILE", help="gpu-hog mode: commands; output in hog_run")
    parser.add_argument("--job-yielder", metavar="FILE", help="Python file whose yielder() yields jobs")
    parser.add_argument("--follow", action="append", default=[], metavar="FILE", help="run lines appended to a file")
    parser.add_argument(
        "--format", choices=list(map(str, PARSERS)), help="format of JOBS and stdin, whatever their names"
    )
    parser.add_argument("--project", metavar="NAME", help="group name for these jobs; {project} in --job-dir")
    parser.add_argument("--task", metavar="CLASS", help="for GPUTaskScheduler configs: my_task.MyTask")
    parser.add_argument("--task-bundle", help=argparse.SUPPRESS)  # a file with the tasks of a script, see gputui.tasks
    parser.add_argument("--retries", type=whole_number, metavar="N", help="retry a failed job up to N times")
    parser.add_argument(
        "--timeout",
        type=argument_type(duration),
        metavar="TIME",
        help="stop a job after this time: 90 (seconds), 5m, 2h …",
    )
    parser.add_argument("--shell", metavar="SHELL", help="run commands in this shell instead of bash")
    parser.switch("--login-shell", help="use a login shell (-l)")
    parser.switch("--snapshot", help="run in a snapshot of the git work tree as it is now")
    parser.switch("--force-rerun", help="rerun everything in JOBS")


def _add_session_flags(parser: Parser) -> None:
    parser.add_argument(
        "--gpus",
        "--gpu",
        type=argument_type(parse_gpus),
        metavar="LIST",
        help="0,1 · 0-3 · 0,0,1 · [0,1],[2,3] · cpu:4 · slurm:8",
    )
    parser.add_argument("--output-dir", metavar="DIR", help="session directory (gputui_run)")
    parser.add_argument("--prefix", help="prefix of the job directories (job_)")
    parser.add_argument("--job-dir", metavar="PATTERN", help="pattern of the job directories: {project}/{name}/{id}")
    parser.switch("--new", help="start a new session; the old directory is kept")
    parser.switch("--adopt", help="continue a session whose machine or container is gone")
    parser.switch("-y", "--yes", help="answer yes: --adopt, take over, change the slots")
    for option in SESSION_OPTIONS:
        form: dict[str, Any] = {"type": argument_type(option.read), "metavar": option.metavar}
        if not option.metavar:
            form = {"action": "store_true"}
        elif option.name == "ignore_processes":
            form["type"] = lambda written: tuple(written.split(","))
        elif option.name == "sbatch_opt":  # each is one option, even if it contains commas
            form |= {"type": str, "action": "append"}
        parser.add_argument(option.flag, dest=option.field, help=option.help, **form)
    parser.switch("--no-daemon", help="do not start a daemon that takes over on exit")
