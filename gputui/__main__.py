"""The command line's door: finds the verb's module and loads nothing else."""

from __future__ import annotations

import sys

VERBS = {  # each verb, and the module that knows it
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


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in VERBS:
        # importlib itself would have to be imported
        module = __import__(f"gputui.cli.{VERBS[words[0]]}", fromlist=["main"])
        return int(module.main(words[0], words[1:]))
    from gputui.cli.top import main as top

    return top(words)


if __name__ == "__main__":
    sys.exit(main())
