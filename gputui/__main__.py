"""The command line's door: finds the verb's module and loads nothing else."""

from __future__ import annotations

import os
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


def main(arguments: list[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from gputui.cli.tab import complete

        complete()
    words = _verb_first(sys.argv[1:] if arguments is None else arguments)
    if _names_a_host(words):
        from gputui.cli.remote import main as elsewhere

        return elsewhere(words)
    if words and words[0] in VERBS:
        _import_msgspec()  # each of them needs it
        # importlib itself would have to be imported
        module = __import__(f"gputui.cli.{VERBS[words[0]]}", fromlist=["main"])
        return int(module.main(words[0], words[1:]))
    from gputui.cli.top import main as top

    return top(words)


def _verb_first(words: list[str]) -> list[str]:
    """`gputui --session DIR ls` means what `gputui ls --session DIR` does."""
    if len(words) > 2 and words[0] == "--session" and words[2] in VERBS:
        return [words[2], *words[:2], *words[3:]]
    return words


def _names_a_host(words: list[str]) -> bool:
    """Whether they are for another machine; behind `--` they are a job's, and `hosts` reads its own."""
    end = words.index("--") if "--" in words else len(words)
    return words[:1] != ["hosts"] and any(word.partition("=")[0] == "--host" for word in words[:end])


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


if __name__ == "__main__":
    sys.exit(main())
