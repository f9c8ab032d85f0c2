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


# ---- Terms, for `gputui help words` ----


GLOSSARY = """\
Terms with a meaning of their own in gputui:

  session     a folder with one queue and everything its jobs wrote (gputui_run)
  group       the jobs of one file, one sweep or one --project; if a group's jobs crash alike, only that group pauses
  attempt     one run of a job; a rerun is a new attempt and overwrites nothing
  lane        runs one job at a time: a GPU, several GPUs, a share of the CPU, or a place in Slurm
  owner       the one process that runs a session's jobs: the screen, run, or a keeper
  keeper      waits in the background and becomes the owner when the owner ends, so your terminal does not matter
  stranger    a process on a GPU that this session did not start, yours or somebody else's; such a GPU is not used
  crash       the error with which a job failed; jobs that failed with the same error crashed alike

What stops, and what does not:

  paused      the scheduler starts no more jobs; running ones go on          pause, resume     p
  held        this job does not start until it is released                   hold, release     h
  suspended   a running job is stopped; it keeps its GPU memory              suspend, continue S
  draining    no more jobs start and running ones go on to their end: in the session (drain), or on one GPU (d there)
  requeued    a running job was ended and waits again in its old place       requeue           B
  killed      you ended the job; it does not run again by itself             kill              K

How jobs end:

  succeeded   exit status 0; on the screen: ok
  failed      another exit status, or a signal (in --json: crashed); as a filter, also all ends below except skipped
  timed out   it reached its time limit              lost       nobody saw how it ended; never rerun by itself
  refused     it could not be started                skipped    a job that it waits for did not succeed
"""
