"""The process that runs a task, started as `task CLASS DIRECTORY`.

GPUTUI_TASKS names the bundle that contains all other data.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from typing import Any

from . import bundle as bundles
from .modules import NotFound, format_traceback, import_object, keepsake, load_main
from .result_directory import SUCCEEDED, SchedulerLog, link_log, make_directory, occupy, write_note

BUNDLE, BEGUN = "GPUTUI_TASKS", "GPUTUI_TASK_BEGUN"
NOT_PICKLED = "-"


def main(words: list[str]) -> int:
    name, directory = os.environ.pop(BUNDLE, None), words[1]
    begun = os.environ.pop(BEGUN, None)
    try:
        bundle, instance = _read(name, directory)
    except (OSError, ValueError, NotFound) as error:
        print(f"gputui: cannot read the values of this task: {error}; load its configuration again", file=sys.stderr)
        return 1
    log = SchedulerLog(bundle["scheduler_log"], instance["string"])
    try:
        with log.log_end():
            if begun is None:
                _begin(bundle, instance, log)
            else:
                occupy(instance["work_dir"])
            _run(bundle, instance, name or "", begun)
    except Exception as error:
        sys.stdout.flush()
        print(format_traceback(error), end="", file=sys.stderr, flush=True)
        return 1
    return 0


def _read(name: str | None, directory: str) -> tuple[bundles.Bundle, bundles.Bundle]:
    session = os.environ.get("GPUTUI_SESSION")
    if name is None or session is None:
        raise NotFound("not started by gputui (use gputui rerun)")
    bundle = bundles.read(keepsake(session, name))
    wanted = os.path.abspath(directory)
    for instance in bundle["instances"]:
        if os.path.abspath(instance["work_dir"]) == wanted:
            return bundle, instance
    raise NotFound(f"{name} has no task for {directory}")


def _begin(bundle: bundles.Bundle, instance: bundles.Bundle, log: SchedulerLog) -> None:
    os.dup2(1, 2)  # one log for both streams
    log.write("receives")
    make_directory(instance["work_dir"])
    if bundle["log_file"] is not None:
        link_log(os.path.join(instance["work_dir"], bundle["log_file"]))
    os.environ["MPLBACKEND"] = "Agg"


def _run(bundle: bundles.Bundle, instance: bundles.Bundle, name: str, begun: str | None) -> None:
    sys.path[:] = bundle["sys_path"]
    sys.argv = [bundle["task"].get("file") or bundle["task"]["name"]]
    bundles.provide_old_names()
    task = _task(bundle, instance, name, begun)
    try:
        task.main()
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            write_note(instance["work_dir"], SUCCEEDED)
        raise
    write_note(instance["work_dir"], SUCCEEDED)


def _task(bundle: bundles.Bundle, instance: bundles.Bundle, name: str, begun: str | None) -> Any:
    if bundle["main"] is not None:
        load_main(bundle["main"])
    cls = import_object(bundle["task"])
    if begun is not None and begun != NOT_PICKLED:
        with open(int(begun), "rb") as descriptor:
            return pickle.load(descriptor)
    task = cls(bundles.values(bundle, instance), instance["work_dir"])
    if begun is None:
        variables = task.required_env() or {}
        if variables:
            _restart(task, {str(key): str(value) for key, value in variables.items()}, name)
    return task


def _restart(task: Any, variables: dict[str, str], name: str) -> None:
    """Restart this process with the variables set, so that Python and all libraries see them.

    The task is passed on to the new process, because it could return different variables if asked again.
    """
    os.environ.update(variables)
    words = getattr(sys, "orig_argv", None)
    if words is None:
        return  # before Python 3.10 only later imports see them
    descriptor = NOT_PICKLED
    with suppress(Exception):
        pickled = pickle.dumps(task)
        fd = os.memfd_create("gputui-task", 0)
        os.write(fd, pickled)
        os.lseek(fd, 0, os.SEEK_SET)
        descriptor = str(fd)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, words, {**os.environ, BUNDLE: name, BEGUN: descriptor})
