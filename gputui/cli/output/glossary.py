"""The words that a newcomer cannot guess, for `gputui help words`."""

from __future__ import annotations

__all__ = ["GLOSSARY"]

GLOSSARY = """\
The words that gputui uses in a sense of its own:

  session     a folder with one queue and all that its jobs wrote (gputui_run)
  attempt     one run of a job; a rerun is a new attempt, and nothing of the old one is overwritten
  lane        what runs one job at a time: a GPU, a group of GPUs, a share of the processors, a place in Slurm
  owner       the one process that runs a session's jobs: the screen, run, or a keeper
  keeper      waits in the background and becomes the owner when the owner goes; so nothing depends on your terminal
  stranger    somebody else's process on a GPU, or your own that this session did not start: such a GPU is left alone
  probe       after a pause for crashes, the one job that is tried alone to see whether it works again

What stops, and what does not:

  paused      the scheduler starts nothing more; what runs goes on           pause, resume     p
  held        one job is kept from starting; the others go on                hold, release     h
  suspended   a running job stands still; its GPU memory stays taken         suspend, continue S
  draining    no more starts, until what runs has ended: of the session (drain), or of one GPU (d on the card)
  requeued    a running job is stopped and waits again at its place          requeue           B
  killed      a job was ended by you and stays ended                         kill              K

How jobs end:

  succeeded   exit status 0
  failed      another exit status                    crashed    a signal ended it
  timed out   its time limit did                     lost       nobody saw how it ended; it is never rerun by itself
  refused     it could not be started                skipped    a job that it waits for did not succeed
"""
