"""`gputui` without a verb: version, help, and where the screen will open."""

from __future__ import annotations

from gputui import __version__

from .words import USAGE, say

HELP = """\
usage: gputui VERB [options]

Runs shell commands over GPU lanes and never loses one.

  gputui run jobs.txt                 one command per line, on all GPUs
  gputui run --gpus 0,1 jobs.txt      on these
  gputui add -- python train.py       one more, from any shell
  gputui ls                           what runs, what waits, and why

Work:
  run         run jobs without a screen, until they are done
  add         add a job, with this folder and this environment
  sweep       a command for each combination of parameters, printed or added
  rerun       run ended jobs again: rerun --failed, rerun 12
  wait        wait until jobs have ended; the exit status says how

Look:
  ls          the jobs, the scheduler and why jobs wait
  show        one job: settings, attempts, files, story
  logs        what a job printed; -f goes on with it
  gpus        the lanes; gpus +6,7 and gpus -6,7 change them
  sessions    your sessions
  config      the settings and where each comes from
  doctor      what this machine gives, and what to do about it

Jobs (ids, ranges such as 3-9, names, --failed, --all):
  hold        keep waiting jobs from starting     release   let them start
  suspend     stop running jobs where they are    continue  let them go on
  kill        end jobs, with grace or --now       requeue   end them and queue them again
  priority    who is first: priority 50 12        move      move 12 --top
  edit        change a waiting job's settings     rm        take off the list; files stay

Scheduler:
  pause       start nothing more                  resume    start jobs again
  drain       start nothing more, wait for the jobs that run
  stop        end everything, keep the queue, verify that nothing is left
  keep        own a session without a screen and without a terminal

  completion  for your shell: completion bash, zsh or fish

gputui VERB --help tells more.
"""


def main(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"gputui {__version__}")
        return 0
    say(f"this version has no screen yet; {_advice(words[0])}")
    return USAGE


def _advice(word: str) -> str:
    from gputui.__main__ import VERBS

    from .syntax import nearest

    near = nearest(word, VERBS)
    if near:
        return f"there is no verb {word!r}: did you mean gputui {near}?"
    return f"without one: gputui run {word}"
