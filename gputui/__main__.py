"""The command line's door: finds the verb's module and loads nothing else."""

from __future__ import annotations

import sys

VERBS = {  # each verb, and the module that knows it
    "app": "app",
    "run": "run",
    "add": "add",
    "sweep": "sweeping",
    "reload": "reloading",
    "ls": "listing",
    "show": "showing",
    "logs": "logs",
    "pause": "scheduling",
    "resume": "scheduling",
    "drain": "scheduling",
    "stop": "stopping",
    "hold": "jobs",
    "release": "jobs",
    "suspend": "jobs",
    "continue": "jobs",
    "kill": "jobs",
    "requeue": "jobs",
    "rerun": "jobs",
    "rm": "jobs",
    "priority": "ordering",
    "move": "ordering",
    "edit": "editing",
    "gpus": "gpus",
    "wait": "waiting",
    "sessions": "sessions",
    "config": "configuring",
    "completion": "completion",
    "keep": "keep",
    "doctor": "doctor",
    "demo": "demo",
}


OWNERS = ("run", "keep")


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in VERBS:
        if words[0] in OWNERS:
            _import_msgspec()
        # importlib itself would have to be imported
        module = __import__(f"gputui.cli.{VERBS[words[0]]}", fromlist=["main"])
        return int(module.main(words[0], words[1:]))
    from gputui.cli.top import main as top

    return top(words)


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
