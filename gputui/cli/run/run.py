"""`gputui run`: jobs without a screen, until none of them can start by itself."""

from __future__ import annotations

import argparse

from gputui.cli.command import carry_out_owning
from gputui.cli.parser import Parser
from gputui.cli.session_flags import add_session_flags, gathered

EXAMPLES = """\
examples:
  gputui run --gpus 0,1 jobs.txt            one command per line; run it again to continue
  gputui run --gpus 0,0,1 jobs.txt          two jobs at a time on GPU 0, one on GPU 1
  gputui run --gpus [0,1],[2,3] jobs.txt    each job gets a pair
  gputui run --gpus cpu:4 < jobs.txt        four at a time without a GPU
  tail -f queue | gputui run --gpus 0 1     commands as they come
  gputui run --follow queue                 the same from a file; the next run continues where this one stopped
  gputui run --job_yielder gen.py           jobs from yielder() in gen.py, taken as they are needed

When jobs crash alike, the rest run one at a time until one succeeds, so every line is run. With --pause-after N the
run ends there instead; with --probe 5m it waits before each try.
Loading a file again keeps what succeeded and reruns what failed. Exit status: 0 all succeeded, 1 some did not,
2 wrong usage, 130 or 143 interrupted.
"""


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb, "Runs jobs without a screen.", usage="run [options] [JOBS …]", epilog=EXAMPLES, allow_abbrev=True
    )
    add_session_flags(verb_parser)
    verb_parser.add_argument("--task-bundle", help=argparse.SUPPRESS)
    verb_parser.add_argument(
        "--tally", help=argparse.SUPPRESS
    )  # where the numbers of failed and unrun jobs are written
    verb_parser.add_argument(
        "--fail-fast", action="store_true", help="end at the first crash (same as --pause-after 1)"
    )
    verb_parser.add_argument("--rerun-lost", action="store_true", help="also rerun lost jobs")
    verb_parser.add_argument(
        "--wait-when-paused", action="store_true", help="keep running while the scheduler is paused"
    )
    verb_parser.add_argument(
        "--stream", action="store_true", help="print the jobs' output, each line after the job's number"
    )
    verb_parser.add_argument("-v", "--verbose", action="store_true", help="print a line per event, also on a terminal")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    return carry_out_owning(lambda: _work(verb, words))


def _work(verb: str, words: list[str]) -> int:
    options = parser(verb).parse_args(gathered(words))
    from .running import RunOfJobs
    from .session_options import settle_for_run

    settle_for_run(options)
    return RunOfJobs(options).run()
