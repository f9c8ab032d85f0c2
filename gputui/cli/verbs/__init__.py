"""The commands: one module each under its own name; siblings share one.

What may enter: a module with `main(verb, words) -> status`, named in the table below.
A command reads words, sends requests to the session's owner, and prints; it never opens a store itself.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes long to import

if TYPE_CHECKING:
    from gputui.cli.parser import Parser

VERBS = {  # each verb, and the module that knows it
    "app": "app",
    "run": "run.run",
    "add": "verbs.add",
    "sweep": "verbs.sweep",
    "reload": "verbs.reload",
    "ls": "verbs.ls",
    "show": "verbs.show",
    "logs": "verbs.logs",
    "results": "verbs.results",
    "summary": "verbs.summary",
    "report": "verbs.report",
    "pause": "verbs.pause_resume_drain",
    "resume": "verbs.pause_resume_drain",
    "drain": "verbs.pause_resume_drain",
    "stop": "verbs.stop",
    "hold": "verbs.job_commands",
    "release": "verbs.job_commands",
    "suspend": "verbs.job_commands",
    "continue": "verbs.job_commands",
    "kill": "verbs.job_commands",
    "requeue": "verbs.job_commands",
    "rerun": "verbs.job_commands",
    "rm": "verbs.job_commands",
    "notify": "verbs.notify",
    "priority": "verbs.priority_move",
    "move": "verbs.priority_move",
    "edit": "verbs.edit",
    "gpus": "verbs.gpus",
    "wait": "verbs.wait",
    "sessions": "verbs.sessions",
    "config": "verbs.config",
    "completion": "verbs.completion",
    "keep": "verbs.keep",
    "doctor": "doctor.doctor",
    "demo": "verbs.demo",
    "hosts": "verbs.hosts",
}


ALIASES = {"remove": "rm"}


def run(verb: str, words: list[str]) -> int:
    """Load the command's module, and nothing else, and return its exit status."""
    _import_msgspec()  # each of them needs it
    # importlib itself would have to be imported
    module = __import__(f"gputui.cli.{VERBS[verb]}", fromlist=["main"])
    return int(module.main(verb, words))


def parser_of(verb: str) -> Parser:
    """The command's parser, without the command: the app's own module would load everything that an owner needs."""
    if verb == "app":
        from gputui.cli.session_flags import app_parser

        return app_parser(verb)
    parser: Parser = __import__(f"gputui.cli.{VERBS[verb]}", fromlist=["parser"]).parser(verb)
    return parser


def reads_stdin(words: list[str]) -> bool:
    """Whether a command line reads standard input: `-`, or `run` or the app without any other source of jobs."""
    verb, rest = (words[0], words[1:]) if words and words[0] in VERBS else ("app", words)
    if verb not in ("add", "app", "run") or {"-h", "--help"} & set(words):
        return False
    from gputui.cli.output import Exit
    from gputui.cli.session_flags import gathered

    try:
        options = parser_of(verb).parse_args(rest if verb == "add" else gathered(rest))
    except Exit:
        return False  # whoever carries it out says what is wrong
    if verb == "add":
        return bool(options.words == ["-"])
    others = (options.job_file, options.job_yielder, options.follow, getattr(options, "task_bundle", None))
    return "-" in (*options.jobs, options.job_file) or not (options.jobs or any(others))


def _import_msgspec() -> None:
    """Without typing_extensions, of which it uses nothing since Python 3.11: that takes as long as Python to start."""
    loaded = sys.modules.get("typing_extensions")
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # Python's sign for "cannot be imported"
    try:
        import msgspec as msgspec
    finally:
        del sys.modules["typing_extensions"]
        if loaded is not None:
            sys.modules["typing_extensions"] = loaded
