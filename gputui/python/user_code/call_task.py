"""Calls a job's task: `python3 call_task.py module:function COMMAND`. Run by its path, with any Python; imports nothing
of gputui's, for it need not be installed there.

The function gets the job's name, the command, the job's folder and its GPUs, as text. What it returns, if it is a
whole number, is the exit code; an exception is a failure.
"""

import sys


def call(task: str, command: str) -> int:
    import importlib
    import os

    module, _, name = task.partition(":")
    target: object = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    folder_and_gpus = (os.environ.get(key, "") for key in ("GPUTUI_JOB_DIR", "CUDA_VISIBLE_DEVICES"))
    assert callable(target), f"{task} is no function"
    result = target(os.environ.get("GPUTUI_JOB_NAME", ""), command, *folder_and_gpus)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


if __name__ == "__main__":
    sys.path[0] = ""  # the job's folder, where `python -m` would look too; never the folder of this file
    sys.exit(call(sys.argv[1], sys.argv[2]))
