"""The commands, with one module for each command or for several similar ones.

Each module has `parser(command)` and `work(options)`, which returns the exit status. A command parses its arguments,
sends requests to the session's owner and prints the answers. It never opens a store itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes long to import

if TYPE_CHECKING:
    from gputui.cli.parser import Parser

COMMANDS = {
    "TUI": {"app": "the default command; see app --help for --gpus, --session, --read-only, --theme …"},
    "Run jobs": {
        "run": "run jobs without the TUI and exit when they are done",
        "add": "add a job with the current directory and environment",
        "sweep": "print or add a command for each combination of parameters",
        "reload": "reread the job files and apply the changes",
        "exec": "run a command in this terminal as a job, when a GPU is free",
        "shell": "the same for your shell",
        "rerun": "run ended jobs again: rerun --failed, rerun 12",
        "revoke": "make sure that no job with this key (add --key) ever runs",
        "wait": "wait for jobs to end; the exit status tells whether all succeeded",
    },
    "Inspect": {
        "ls": "list jobs, the scheduler's state and why jobs wait",
        "show": "show one job: settings, attempts, files, history",
        "diff": "compare two jobs: code, parameters, settings, environment",
        "logs": "print a job's output; -f to follow",
        "events": "print what happened as JSON lines; --follow to continue",
        "results": "show metrics, best first: results --metric val_acc --top 10, --csv",
        "summary": "summarize the session: best jobs, parameter effects, failures",
        "report": "write the summary as an HTML page with curves, timeline and job table",
        "gpus": "show or change the GPUs in use: gpus +6,7, gpus -6,7",
        "sessions": "list your sessions",
        "hosts": "show GPUs and sessions on several hosts; gputui --host lab7 COMMAND … runs on one",
        "config": "show settings and where each comes from",
        "doctor": "check this machine and suggest fixes",
    },
    "Jobs (ids, ranges such as 3-9, names, --failed, --all)": {
        "hold": "keep waiting jobs from starting",
        "release": "let held jobs start",
        "suspend": "freeze running jobs",
        "continue": "continue suspended jobs",
        "kill": "stop jobs gracefully, or --now",
        "requeue": "stop and put back in the queue",
        "priority": "set priorities: priority 50 12",
        "move": "reorder the queue: move 12 --top",
        "edit": "edit a waiting job",
        "rm": "remove from the list; files stay",
        "notify": "notify when jobs end; --test to try it",
    },
    "Scheduler": {
        "pause": "start no more jobs",
        "resume": "start jobs again",
        "drain": "start no more jobs and wait for running ones",
        "stop": "stop everything, keep the queue, check that nothing is left",
        "daemon": "run a session's queue in the background",
    },
    "Other": {
        "demo": "try gputui with simulated GPUs",
        "mcp": "serve a session to coding agents over MCP",
        "completion": "print shell completion for bash, zsh or fish",
    },
}
"""All commands with their descriptions, by section of the help."""
SHARED = {
    "app": "app",
    "run": "run.run",
    "doctor": "doctor.doctor",
    "shell": "commands.exec",
    "summary": "commands.results",
    "wait": "commands.events",
    **dict.fromkeys(("pause", "resume", "drain"), "commands.scheduler"),
    **dict.fromkeys(
        ("hold", "release", "suspend", "continue", "kill", "requeue", "rerun", "rm"), "commands.job_commands"
    ),
    **dict.fromkeys(("priority", "move"), "commands.job_commands"),
}
"""Modules of the commands that are not in `commands/COMMAND.py`."""
SUBCOMMANDS = {
    subcommand: SHARED.get(subcommand, f"commands.{subcommand}")
    for section in COMMANDS.values()
    for subcommand in section
}
"""Module of each command, relative to `gputui.cli`."""
ALIASES = {"remove": "rm"}


def run(subcommand: str, words: list[str]) -> int:
    """Run a command and return its exit status. Only this command's module is loaded."""
    _import_msgspec()
    from gputui.cli.command import run_command

    def work() -> int:
        options = parser_of(subcommand).parse_args(words)
        return int(_module(SUBCOMMANDS[subcommand]).work(options))

    return run_command(work, [subcommand, *words])


def parser_of(subcommand: str) -> Parser:
    """Return a command's parser. For app and run, the modules that only an owner needs are not loaded."""
    module = _module("session_flags" if subcommand in ("app", "run") else SUBCOMMANDS[subcommand])
    parser: Parser = module.parser(subcommand)
    return parser


def _module(name: str):  # type: ignore[no-untyped-def]  # modules have different types
    # importlib is not imported at start-up, for speed
    return __import__(f"gputui.cli.{name}", fromlist=["work"])


def reads_stdin(words: list[str]) -> bool:
    """Return whether a command line reads standard input.

    It does if it contains `-`, or if it is `run` or the app without other jobs.
    """
    subcommand, rest = (words[0], words[1:]) if words and words[0] in SUBCOMMANDS else ("app", words)
    if subcommand not in ("add", "app", "run") or {"-h", "--help"} & set(words):
        return False
    from gputui.cli.output import Exit

    try:
        options = parser_of(subcommand).parse_args(rest)
    except Exit:
        return False  # the error is reported when the command is run
    if subcommand == "add":
        return bool(options.words == ["-"])
    others = (options.job_file, options.job_yielder, options.follow, options.task_bundle)
    return "-" in (*options.jobs, options.job_file) or not (options.jobs or any(others))


def _import_msgspec() -> None:
    """Import msgspec without typing_extensions.

    Importing typing_extensions is slow, and msgspec does not need it since Python 3.11.
    """
    loaded = sys.modules.get("typing_extensions")
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        import msgspec as msgspec
    finally:
        del sys.modules["typing_extensions"]
        if loaded is not None:
            sys.modules["typing_extensions"] = loaded
