"""The flags by which the app and `run` say what they want of a session."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gputui.gpus.lanes import looks_like_gpus, parse_gpus
from gputui.sources.kinds import PARSERS
from gputui.sources.values import duration, probe_wait, time_limit

from .parser import Parser, checked, whole

# ---- How GPUs and times stand on a command line ----


def gathered(words: Sequence[str]) -> list[str]:
    """Joins `--gpus 0 1 2` to one word: those that follow belong to it only while they look like GPUs."""
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


seconds = checked(duration)
probe = checked(probe_wait)
gpus = checked(parse_gpus)
time = checked(time_limit)


# ---- The flags by which an app and a `run` alike say what they want of a session ----


FORMATS = [str(kind) for kind in PARSERS]


def add_session_flags(parser: Parser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOBS", help="files of jobs (.txt .toml .yaml .esy .py), or -")
    parser.add_argument(
        "--job-file", metavar="FILE", help="a list of commands, as in gpu-hog; the session's folder is then hog_run"
    )
    parser.add_argument("--job-yielder", metavar="FILE", help="a Python file whose yielder() gives the jobs")
    parser.add_argument(
        "--follow", action="append", default=[], metavar="FILE", help="run what is appended to this file"
    )
    parser.add_argument("--format", choices=FORMATS, help="how to read JOBS and standard input, whatever their names")
    parser.add_argument("--project", metavar="NAME", help="the group of these jobs; {project} in --job-dir")
    parser.add_argument("--task", metavar="CLASS", help="for a config of GPUTaskScheduler: my_task.MyTask")
    parser.add_argument(
        "--gpus", "--gpu", type=gpus, metavar="LIST", help="0,1 · 0-3 · 0,0,1 · [0,1],[2,3] · cpu:4 · slurm:8"
    )
    parser.add_argument("--set", action="store_true", help=argparse.SUPPRESS)  # before, --gpus alone did not
    parser.add_argument("--output-dir", metavar="DIR", help="the session's folder (default: gputui_run)")
    parser.add_argument("--prefix", help="start of the names of the jobs' folders (default: job_)")
    parser.add_argument(
        "--job-dir", metavar="PATTERN", help="names of the jobs' folders, such as {project}/{name}/{id}"
    )
    parser.add_argument(
        "--pause-after", type=whole, metavar="N", help="pause when N jobs in a row crash alike (default: 3)"
    )
    parser.add_argument(
        "--probe",
        type=probe,
        metavar="TIME",
        help="while paused after crashes, try one job after this time: 90, 5m, off",
    )
    parser.add_argument("--retries", type=whole, default=None, metavar="N", help="run failed jobs again, up to N times")
    parser.add_argument(
        "--timeout", type=seconds, default=None, metavar="TIME", help="end jobs after this time: 90, 5m, 2h …"
    )
    parser.add_argument("--grace", type=seconds, metavar="TIME", help="time between SIGTERM and SIGKILL (default: 30)")
    parser.add_argument("--shell", default=None, metavar="SHELL", help="run commands in this shell instead of bash")
    parser.add_argument("--login-shell", action="store_true", help="run commands in a login shell (-l)")
    parser.add_argument("--force-rerun", action="store_true", help="run everything in JOBS again")
    parser.add_argument("--new", action="store_true", help="start a new session; the old folder is renamed and kept")
    parser.add_argument("--adopt", action="store_true", help="continue a session whose machine or container is gone")
    parser.add_argument("-y", "--yes", action="store_true", help="answer yes: --adopt, take over, change the lanes")
    parser.add_argument("--gpu-file", metavar="FILE", help="read the list of GPUs from this file, also when it changes")
    parser.add_argument("--keep-free", type=whole, metavar="K", help="leave K GPUs to others")
    parser.add_argument("--at-most", type=whole, metavar="M", help="use at most M GPUs at once")
    parser.add_argument("--ignore-strangers", action="store_true", help="also use GPUs with strangers on them")
    parser.add_argument("--ignore", metavar="WHO", help="users, programs or pids that do not count as strangers")
    parser.add_argument(
        "--partition", metavar="NAME", help="Slurm partition, for --gpus slurm:N; the next five are for Slurm too"
    )
    parser.add_argument("--account", metavar="NAME", help="Slurm account to charge")
    parser.add_argument("--qos", metavar="NAME", help="Slurm's quality of service")
    parser.add_argument("--time", type=time, metavar="TIME", help="time limit of a job: 90m, 2h, 1-12:00:00")
    parser.add_argument("--constraint", metavar="FEATURES", help="only use nodes with these features")
    parser.add_argument(
        "--sbatch-opt", action="append", metavar="OPTION", help="any other option for sbatch: --mem=16G"
    )
    parser.add_argument(
        "--no-keeper", action="store_true", help="start no keeper, which would take over if this program is killed"
    )


# ---- The flags of the app ----


EXAMPLES = """\
examples:
  gputui jobs.txt                       one command per line; the queue, every GPU and the logs on one screen
  gputui --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  producer | gputui -                   commands as they come
  gputui                                the session here; without one, a live GPU monitor
  gputui --read-only                    a second screen that only looks, while another gputui has the session

Leave with q: jobs go on, and gputui opens the screen again. ? shows the keys.
All commands: gputui help
"""


def app_parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb, "GPU job queue on one screen.", usage="[JOBS …] [options]", epilog=EXAMPLES, allow_abbrev=True
    )
    verb_parser.add_argument("--session", metavar="DIR", help="open this session")
    looks = "only look: no key changes anything, also while another gputui has the session open"
    verb_parser.add_argument("--read-only", action="store_true", help=looks)
    verb_parser.add_argument("--theme", choices=("dark", "light", "ansi", "ansi-light"), help="colours (default: dark)")
    verb_parser.add_argument("--ascii", action="store_true", help="draw with ASCII characters only")
    verb_parser.add_argument("--no-diff", action="store_true", help="send whole frames, not only what changed")
    add_session_flags(verb_parser)
    return verb_parser
