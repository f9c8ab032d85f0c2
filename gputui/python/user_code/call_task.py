"""Call the task of a job: `python3 call_task.py module:function COMMAND`.

This file is run by its path with any Python, so it must not import anything from gputui. The function receives the
job's name, the command, the job's directory and its GPUs as text. If it returns an integer, that is the exit code. An
exception counts as a failure.
"""

import sys


def call(task: str, command: str) -> int:
    import importlib
    import os

    module, _, name = task.partition(":")
    target: object = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    directory_and_gpus = (os.environ.get(key, "") for key in ("GPUTUI_JOB_DIR", "CUDA_VISIBLE_DEVICES"))
    assert callable(target), f"{task} is not a function"
    result = target(os.environ.get("GPUTUI_JOB_NAME", ""), command, *directory_and_gpus)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


if __name__ == "__main__":
    sys.path[0] = ""  # the job's directory, as with `python -m`, instead of the directory of this file
    sys.exit(call(sys.argv[1], sys.argv[2]))
