"""`gputui` without a verb: version, help, and the screen."""

from __future__ import annotations

from gputui import __version__

from .output import USAGE, say

HELP = """\
usage: gputui [JOBS …] [options]        the screen: queue, GPUs, logs
       gputui COMMAND [options]

Runs shell commands on GPUs, one per lane at a time, and never loses one.

  gputui jobs.txt                     run a file with one command per line on all GPUs
  gputui --gpus 0,1 jobs.txt          the same on these GPUs
  gputui run jobs.txt                 the same without a screen
  gputui add -- python train.py       add one more, from any shell
  gputui ls                           what is running, what is waiting, and why
  gputui demo                         try it on simulated GPUs, on any machine

Screen:
  app         the screen; the word can be left out. app --help lists its options

Work:
  run         run jobs without a screen until they are done
  add         add a job that runs in this folder with this environment
  sweep       print or add a command for each combination of parameters
  reload      read the job files again and apply what changed
  rerun       run ended jobs again: rerun 12, rerun --failed
  wait        wait until jobs have ended; the exit status says how

Look:
  ls          the queue, the scheduler's state, and why each job waits
  show        one job: settings, attempts, files, story
  logs        what a job printed; -f follows it
  results     the numbers that jobs printed, best first; --csv
  summary     counts, times, best jobs, effect of each parameter, failures by kind
  report      the same as one HTML page with curves, a timeline and a table
  gpus        the GPUs and lanes; gpus +6,7 and gpus -6,7 change them
  sessions    your sessions
  hosts       GPUs and sessions of several machines; gputui --host lab7 COMMAND … works on one of them
  config      the settings, and where each comes from
  doctor      check this machine; each finding says what to do

Jobs (ids, ranges such as 3-9, names, --failed, --all):
  hold        keep waiting jobs from starting     release   let them start
  suspend     stop running jobs where they are    continue  let them run on
  kill        end jobs, gracefully or --now       requeue   end them and queue them again
  priority    higher starts first: priority 50 12 move      change the order: move 12 --top
  edit        change a waiting job's settings     rm        (or remove) take off the list; files stay
  notify      tell me when jobs end; --test tries it

Scheduler:
  pause       start no more jobs                  resume    start jobs again
  drain       start no more jobs and wait for the running ones
  stop        end everything, keep the queue, and verify that nothing is left running
  keep        run a session's jobs in the background, without a screen

  completion  for your shell: completion bash, zsh or fish

gputui COMMAND --help says more; gputui help words explains lane, keeper, held, lost and other terms.
"""


MEANT = {
    "list": "ls", "status": "ls", "ps": "ls", "queue": "ls", "jobs": "ls", "log": "logs", "tail": "logs",
    "cancel": "kill", "delete": "rm", "del": "rm", "restart": "rerun", "retry": "rerun", "submit": "add",
    "enqueue": "add", "start": "resume", "quit": "stop", "metrics": "results", "attach": "app",
}  # fmt: skip
"""What other tools call it."""


def main(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help", "help"):
        return _help(words[1:])
    if words and words[0] in ("-V", "--version"):
        print(f"gputui {__version__}")
        return 0
    mistaken = _mistaken_verb(words)
    if mistaken is not None:
        say(mistaken)
        return USAGE
    from .app import main as app

    return app("app", words)


def _help(words: list[str]) -> int:
    """All of it, the words, or one verb's."""
    from .verbs import ALIASES, VERBS, run

    if not words:
        print(HELP, end="")
    elif words[0] == "words":
        from .output import GLOSSARY

        print(GLOSSARY, end="")
    elif (verb := ALIASES.get(words[0], words[0])) in VERBS:
        return run(verb, ["--help"])
    else:
        say(f"there is no command {words[0]!r}: gputui help lists them")
        return USAGE
    return 0


def _mistaken_verb(words: list[str]) -> str | None:
    """A first word that is neither a verb nor a file is reported before anything else."""
    import os

    from .parser import nearest
    from .verbs import VERBS

    if not words or words[0].startswith("-") or os.path.lexists(words[0]):
        return None
    near = MEANT.get(words[0]) or nearest(words[0], VERBS) or _nearest_file(words[0])
    advice = f"did you mean gputui {near}?" if near else "gputui help lists the commands"
    return f"{words[0]!r} is neither a command nor a file: {advice}"


def _nearest_file(written: str) -> str | None:
    import os
    import shlex

    from .parser import nearest

    folder, name = os.path.split(written)
    try:
        near = nearest(name, os.listdir(folder or "."))
    except OSError:
        return None
    return shlex.quote(os.path.join(folder, near)) if near else None
