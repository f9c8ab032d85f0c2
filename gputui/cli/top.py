"""`gputui` without a command: print the version or the help, or open the TUI."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes long to import

if TYPE_CHECKING:
    from collections.abc import Iterable

INTRODUCTION = """\
usage: gputui [JOBS …] [options]        open the TUI: queue, GPUs, logs
       gputui COMMAND [options]

Run a queue of shell commands on your GPUs. No job is lost, none runs twice.

  gputui jobs.txt                     run a file with one command per line on all GPUs
  gputui --gpus 0,1 jobs.txt          use only GPUs 0 and 1
  gputui run jobs.txt                 the same without the TUI
  gputui add -- python train.py       add a job, from any shell
  gputui ls                           list jobs and why they wait
  gputui demo                         try it with simulated GPUs
"""
EXIT_STATUS = """\
Exit status: 0 success; 1 refused, or jobs failed; 2 usage error; 3 no such session or job; 4 timed out;
  5 the session cannot be used or its scheduler does not answer; 130 interrupted.
With --json, an answer is one object on standard output, and an error is one on standard error:
  {"schema": 1, "error": "not-found", "message": "no job #9 in …", "hint": "gputui ls"}
  error: refused, usage, no-session, not-found, timed-out, unreachable or interrupted"""
SEE_ALSO = """\
See gputui COMMAND --help for details, gputui help terms for terms such as slot, held and lost, and gputui help agents
for a page that you can give to a coding agent."""
HALF = 36
"""Maximum width of a description that shares its line with another description."""

GLOSSARY = """\
Terms:

  session     a directory with one queue and everything its jobs wrote (default: gputui_run)
  job         one command in the queue
  attempt     one run of a job; a rerun is a new attempt and overwrites nothing
  group       the jobs of one file, sweep or --project; repeated errors pause only that group
  slot        runs one job at a time: a GPU, a set of GPUs, a CPU share or a place in Slurm's queue
  scheduler   the process that starts the jobs of a session: the TUI, gputui run or a daemon
  daemon      background process that takes over when the TUI or terminal goes away
  external    process on a GPU that this session did not start; gputui leaves that GPU alone
  error       what a failed job died of; jobs with the same error are grouped
  probe       one job run alone after repeated errors; if it works, the others start again

What stops, and how to undo it:

  paused      no new jobs start; running jobs continue                   pause, resume     p
  draining    paused as soon as the running jobs have ended              drain, resume     (d: one GPU)
  held        one waiting job may not start                              hold, release     h
  suspended   a running job is frozen; it keeps its GPU memory           suspend, continue S
  requeued    a running job is stopped and put back in the queue         requeue           B
  killed      a job is stopped for good                                  kill              K

How jobs end:

  succeeded   exit status 0; shown as ok
  failed      any other exit status or a signal; as a filter also timed out, lost and refused
  timed out   stopped at its time limit
  lost        nobody recorded how it ended (for example a reboot); never rerun automatically
  refused     could not be started
  skipped     a job it depends on did not succeed
"""

AGENTS = """\
gputui for scripts and coding agents

gputui runs commands on this machine's GPUs, by default one per GPU, and they keep running when your
program ends. Its queue is a session, by default ./gputui_run. Numbers that jobs print
(val_loss=0.41) are their results. Never start training beside gputui, and never poll: these five
calls are enough.

1. Add a job. The same key is always the same job, so a call that may have failed can be repeated.

     gputui add --json --key lr0.1 -- python train.py --lr 0.1
       {"schema": 1, "jobs": [{"id": 0, "name": "job_0", "key": "lr0.1", "created": true,
        "state": "queued"}], "cursor": "9b5a08dd-17"}
     gputui sweep --json --add --key night 'python train.py --lr {lr}' -p lr 0.1 0.01

2. Wait until a job ends. The answer contains the jobs that ended since the cursor, each with its
   state, exit code, error, main result and last lines of output; which jobs are running, how many
   are waiting; and the cursor for the next call.

     gputui wait --json --next --timeout 1h --since CURSOR

   Status 1 with "cannot_start" means that none of the waiting jobs can ever start: "reason". With
   "paused", a pause keeps all of them from starting: "message", "group". Continue with gputui
   resume, or call wait again at "probe_at", when one job is tried. A script that was restarted gets
   a cursor by adding a job again with the same key.

3. Compare the results, best first.

     gputui results --json --top 5

4. Look at one job: why it waits, its settings, attempts and files; and its output.

     gputui show --json 0
     gputui logs --json -n 50 0        (--err: standard error)

5. Act. --dry-run shows what would happen. With --json nothing is asked: -y confirms commands on
   several jobs.

     gputui rerun --json --failed -y --dry-run
     gputui kill --json 0

If several jobs fail with the same error, gputui pauses their group: "paused" in gputui wait --json
and gputui ls --json names the error. Fix the cause, then rerun the failed jobs, of which one runs
first; or continue without: gputui resume. gputui run --pause-after 0 never pauses. A job that is
lost may have run: rerun it only if that does no harm.

Exit status: 0 success; 1 refused, or jobs failed; 2 usage error; 3 no such session or job; 4 timed
out; 5 the session cannot be used; 130 interrupted. An error is one JSON object on standard error:
"error", "message", "hint". Shapes of all answers: gputui config --schema json. Fields are only ever
added.
"""

SYNONYMS = {
    "list": "ls", "status": "ls", "ps": "ls", "queue": "ls", "jobs": "ls", "log": "logs", "tail": "logs",
    "cancel": "kill", "delete": "rm", "del": "rm", "restart": "rerun", "retry": "rerun", "submit": "add",
    "enqueue": "add", "start": "resume", "quit": "stop", "metrics": "results", "attach": "app",
}  # fmt: skip
"""Command names used by other tools, and the gputui commands that they mean."""


def main(words: list[str]) -> int:
    from .commands import run

    if words and words[0] in ("-h", "--help", "help"):
        return _help(words[1:])
    if words and words[0] in ("-V", "--version"):
        from gputui import __version__

        print(f"gputui {__version__}")
        return 0
    if words and not words[0].startswith("-") and not os.path.lexists(words[0]):
        return _refuse_unknown(words, "neither a command nor a file", _nearest_file(words[0]))
    return run("app", words)


def _refuse_unknown(words: list[str], what: str, file: str | None = None, topics: Iterable[str] = ()) -> int:
    """Print an error about the first word, with the nearest command, file or topic of the help."""
    from gputui.sources.values import closest_match

    from .command import run_command
    from .commands import SUBCOMMANDS
    from .output import USAGE, Exit

    near = SYNONYMS.get(words[0]) or closest_match(words[0], SUBCOMMANDS) or file
    topic = closest_match(words[0], topics)
    hint = f"gputui help {topic}" if topic else f"gputui {near}" if near else "gputui help"
    advice = f"did you mean {hint}?" if near or topic else "see gputui help"

    def refuse() -> int:
        raise Exit(USAGE, f"{words[0]!r} is {what}: {advice}", hint=hint)

    return run_command(refuse, words)


def _help(words: list[str]) -> int:
    """Print the help on all commands, on the terms, or on one command."""
    from .commands import ALIASES, SUBCOMMANDS, run

    if not words:
        print(overview())
    elif words[0] in ("terms", "glossary"):
        print(GLOSSARY, end="")
    elif words[0] == "agents":
        print(AGENTS, end="")
    elif (subcommand := ALIASES.get(words[0], words[0])) in SUBCOMMANDS:
        return run(subcommand, ["--help"])
    else:
        return _refuse_unknown(words, "not a command", topics=("agents", "terms", "glossary"))
    return 0


def overview() -> str:
    """Return the help text that lists all commands."""
    from .commands import COMMANDS

    lines = [INTRODUCTION]
    for title, commands in COMMANDS.items():
        lines.append(f"{title}:")
        for subcommand, text in commands.items():
            row = f"  {subcommand:<10}  {text}"
            # Put two short descriptions on one line.
            if len(text) <= HALF and lines[-1].startswith("  ") and len(lines[-1]) <= 14 + HALF:
                lines[-1] = f"{lines[-1]:<{14 + HALF}}{row}"
            else:
                lines.append(row)
        lines.append("")
    return "\n".join([*lines, EXIT_STATUS, "", SEE_ALSO])


def _nearest_file(path: str) -> str | None:
    import shlex

    from gputui.sources.values import closest_match

    directory, name = os.path.split(path)
    try:
        near = closest_match(name, os.listdir(directory or "."))
    except OSError:
        return None
    return shlex.quote(os.path.join(directory, near)) if near else None
