"""`gputui` without a verb: version, help, and the screen."""

from __future__ import annotations

from gputui import __version__

from .output import USAGE, say

HELP = """\
usage: gputui [JOBS …] [options]        the screen: queue, GPUs, logs
       gputui VERB [options]

Runs shell commands over GPU lanes and never loses one.

  gputui jobs.txt                     one command per line, on all GPUs
  gputui --gpus 0,1 jobs.txt          on these
  gputui run jobs.txt                 the same without a screen
  gputui add -- python train.py       one more, from any shell
  gputui ls                           what runs, what waits, and why
  gputui demo                         all of it on simulated GPUs, on any machine

Screen:
  app         the word may be left out; app --help tells its flags: --gpus, --session, --read-only, --theme …

Work:
  run         run jobs without a screen, until they are done
  add         add a job, with this folder and this environment
  sweep       a command for each combination of parameters, printed or added
  reload      read the job files again: new, changed, gone, done
  rerun       run ended jobs again: rerun --failed, rerun 12
  wait        wait until jobs have ended; the exit status says how

Look:
  ls          the jobs, the scheduler and why jobs wait
  show        one job: settings, attempts, files, story
  logs        what a job printed; -f goes on with it
  results     what jobs printed, best first: results --metric val_acc --top 10, --csv
  summary     what came of it all: the best, what each parameter did, failures by kind
  report      the same as one page of HTML, with curves, a timeline and a table to sort
  gpus        the lanes; gpus +6,7 and gpus -6,7 change them
  sessions    your sessions
  hosts       the GPUs and sessions of several machines; gputui --host lab7 VERB … works on one of them
  config      the settings and where each comes from
  doctor      what this machine gives, and what to do about it

Jobs (ids, ranges such as 3-9, names, --failed, --all):
  hold        keep waiting jobs from starting     release   let them start
  suspend     stop running jobs where they are    continue  let them go on
  kill        end jobs, with grace or --now       requeue   end them and queue them again
  priority    who is first: priority 50 12        move      move 12 --top
  edit        change a waiting job's settings     rm        (or remove) take off the list; files stay
  notify      tell me when jobs end; --test tries how

Scheduler:
  pause       start nothing more                  resume    start jobs again
  drain       start nothing more, wait for the jobs that run
  stop        end everything, keep the queue, verify that nothing is left
  keep        own a session without a screen and without a terminal

  completion  for your shell: completion bash, zsh or fish

gputui VERB --help tells more; gputui help words explains lane, keeper, held, lost and the like.
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
        say(f"there is no verb {words[0]!r}: gputui help lists them")
        return USAGE
    return 0


def _mistaken_verb(words: list[str]) -> str | None:
    """A first word that is no verb and no file is what is wrong, whatever else may be."""
    import os

    from .parser import nearest
    from .verbs import VERBS

    if not words or words[0].startswith("-") or os.path.lexists(words[0]):
        return None
    near = MEANT.get(words[0]) or nearest(words[0], VERBS)
    advice = f"did you mean gputui {near}?" if near else "gputui help lists the verbs"
    return f"there is no verb and no file {words[0]!r}: {advice}"
