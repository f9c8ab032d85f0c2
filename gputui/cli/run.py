"""`gputui run`: jobs without a screen, until none of them can start by itself."""

from __future__ import annotations

import os
import sys

from gputui.core.events import Refusal
from gputui.session.client import ClientError
from gputui.session.errors import SessionError
from gputui.sources.source import BadInput

from .options import Parser, gathered, gpus, seconds, whole
from .words import Exit, say

EXAMPLES = """\
examples:
  gputui run --gpus 0,1 jobs.txt            one command per line; run it again to go on where it stopped
  gputui run --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  gputui run --gpus [0,1],[2,3] jobs.txt    each job gets a pair
  gputui run --gpus cpu:4 < jobs.txt        four at a time without a GPU
  tail -f queue | gputui run --gpus 0 1     commands as they come
  gputui run --follow queue                 the same, remembered: who runs it next goes on where it was left
  gputui run --job_yielder gen.py           jobs that gen.py's yielder() gives, asked for as they are needed

Loading a file again keeps what is done and reruns what failed. Exit status: 0 all succeeded, 1 some did not,
2 wrong usage, 130 and 143 interrupted.
"""


def parser(prog: str) -> Parser:
    made = Parser(prog=prog, description="Run jobs without a screen.", epilog=EXAMPLES)
    made.add_argument("jobs", nargs="*", metavar="JOBS", help="files of jobs (.txt .toml .yaml .esy .py), or -")
    made.add_argument("--job-file", "--job_file", metavar="FILE", help="as gpu-hog: commands; the folder is hog_run")
    made.add_argument("--job-yielder", "--job_yielder", metavar="FILE", help="Python whose yielder() gives the jobs")
    made.add_argument("--follow", action="append", default=[], metavar="FILE", help="run what is appended to a file")
    made.add_argument("--project", metavar="NAME", help="the group of these jobs; {project} in --job-dir")
    made.add_argument("--task", metavar="CLASS", help="for a config of GPUTaskScheduler: my_task.MyTask")
    made.add_argument("--gpus", type=gpus, metavar="LIST", help="0,1 · 0-3 · 0,0,1 · [0,1],[2,3] · cpu:4 · all")
    made.add_argument("--set", action="store_true", help="give --gpus to a session that has other lanes")
    made.add_argument("--output-dir", "--output_dir", metavar="DIR", help="the session's folder (gputui_run)")
    made.add_argument("--prefix", help="name of the jobs' folders before the number (job_)")
    made.add_argument("--job-dir", "--job_dir", metavar="PATTERN", help="e.g. {project}/{name}/{id}")
    made.add_argument("--pause-after", type=whole, metavar="N", help="pause when N jobs in a row crash alike (3)")
    made.add_argument("--wait-when-paused", action="store_true", help="stay when the scheduler pauses")
    made.add_argument("--retries", type=whole, default=None, metavar="N", help="run a failed job again, up to N times")
    made.add_argument("--timeout", type=seconds, default=None, metavar="TIME", help="end a job after 90, 5m, 2h …")
    made.add_argument("--grace", type=seconds, metavar="TIME", help="between SIGTERM and SIGKILL (30)")
    made.add_argument("--shell", default=None, metavar="SHELL", help="instead of bash")
    made.add_argument("--login-shell", action="store_true", help="run commands under a login shell (-l)")
    made.add_argument("--force-rerun", action="store_true", help="run everything in JOBS again")
    made.add_argument("--rerun-lost", action="store_true", help="also rerun jobs whose end nobody saw")
    made.add_argument("--new", action="store_true", help="begin a fresh session; the old folder is kept beside it")
    made.add_argument("--gpu-file", "--gpu_file", metavar="FILE", help="a file with the list of GPUs, followed")
    made.add_argument("--keep-free", type=whole, metavar="K", help="leave K GPUs to others")
    made.add_argument("--at-most", type=whole, metavar="M", help="use at most M GPUs at once")
    made.add_argument("--ignore-strangers", action="store_true", help="use GPUs that others are on")
    made.add_argument("--ignore", metavar="WHO", help="users, programs or pids that do not count as strangers")
    made.add_argument("--no-keeper", action="store_true", help="nobody takes over when this program is killed")
    made.add_argument("--stream", action="store_true", help="copy the jobs' output, each line with the job's number")
    made.add_argument("-v", "--verbose", action="store_true", help="a line per event, also on a terminal")
    return made


def main(verb: str, words: list[str]) -> int:
    try:
        options = parser(f"gputui {verb}").parse_args(gathered(words))
        from .running import Running
        from .settled import settle

        settle(options)
        return Running(options).run()
    except Exit as leaving:
        if str(leaving):
            say(str(leaving))
        return leaving.status
    except (BadInput, SessionError, Refusal) as error:
        say(str(error))
        return 2
    except ClientError as error:
        say(str(error))
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
