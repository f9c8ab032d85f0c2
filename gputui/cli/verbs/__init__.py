"""The commands: one module each under its own name; siblings share one.

What may enter: a module with `main(verb, words) -> status`, named in the table below.
A command reads words, sends requests to the session's owner, and prints; it never opens a store itself.
"""

from __future__ import annotations

import sys

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


def run(verb: str, words: list[str]) -> int:
    """Load the command's module, and nothing else, and return its exit status."""
    _import_msgspec()  # each of them needs it
    # importlib itself would have to be imported
    module = __import__(f"gputui.cli.{VERBS[verb]}", fromlist=["main"])
    return int(module.main(verb, words))


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
