"""What the command line prints: one gate for all text, and the glossary."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from gputui.logs.plain import plain

# ---- What the command line prints ----


USAGE = 2
HOST = os.environ.pop("GPUTUI_HOST", "")
"""What the user calls this machine, if `--host` brought us here. Removed, because jobs inherit the environment."""


class Exit(Exception):
    """Ends the program with a status and, perhaps, a sentence."""

    def __init__(self, status: int, sentence: str = "") -> None:
        super().__init__(sentence)
        self.status = status


def say(sentence: str) -> None:
    """For people, beside whatever the program's output is."""
    try:
        print(f"gputui{f' on {HOST}' if HOST else ''}: {plain(sentence)}", file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def refuse(sentence: str) -> NoReturn:
    raise Exit(USAGE, sentence)


def out(line: str) -> None:
    """A line of output; a reader that has gone is no error of ours."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---- The words that a newcomer cannot guess, for `gputui help words` ----


GLOSSARY = """\
The words that gputui uses in a sense of its own:

  session     a folder with one queue and all that its jobs wrote (gputui_run)
  group       the jobs of one file, one sweep or one --project; crashes of one group pause that group alone
  attempt     one run of a job; a rerun is a new attempt, and nothing of the old one is overwritten
  lane        what runs one job at a time: a GPU, a group of GPUs, a share of the processors, a place in Slurm
  owner       the one process that runs a session's jobs: the screen, run, or a keeper
  keeper      waits in the background and becomes the owner when the owner goes; so nothing depends on your terminal
  stranger    somebody else's process on a GPU, or your own that this session did not start: such a GPU is left alone
  crash       the error with which a job failed by itself; jobs that failed with the same one crashed alike

What stops, and what does not:

  paused      the scheduler starts nothing more; what runs goes on           pause, resume     p
  held        one job is kept from starting; the others go on                hold, release     h
  suspended   a running job stands still; its GPU memory stays taken         suspend, continue S
  draining    nothing more starts, and what runs goes on to its end: in the session (drain), or on one GPU (d there)
  requeued    a running job is ended and waits again at its place            requeue           B
  killed      a job was ended by you and stays ended                         kill              K

How jobs end:

  succeeded   exit status 0; on the screen: ok
  failed      another exit status, or a signal (in --json: crashed); as a filter, every end below but skipped
  timed out   its time limit ended it                lost       nobody saw how it ended; it is never rerun by itself
  refused     it could not be started                skipped    a job that it waits for did not succeed
"""
