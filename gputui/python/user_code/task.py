"""A task's own process: `task CLASS FOLDER`, with GPUTUI_TASKS naming the bundle that knows the rest."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import bundle as bundles
from .modules import NotFound, found, keepsake, load_main, told
from .old_names import lend_old_names
from .result_folder import ResultNote, SchedulerLog, follow_log, make_folder, occupy

BUNDLE, BEGUN = "GPUTUI_TASKS", "GPUTUI_TASK_BEGUN"
NOT_PICKLED = "-"


def main(words: list[str]) -> int:
    name, folder = os.environ.pop(BUNDLE, None), words[1]
    begun = os.environ.pop(BEGUN, None)
    try:
        bundle, instance = _read(name, folder)
    except (OSError, ValueError, NotFound) as error:
        print(f"gputui: the values of this task cannot be read: {error}; load its configuration again", file=sys.stderr)
        return 1
    log = SchedulerLog(bundle["scheduler_log"], instance["string"])
    with told(), log.telling():
        if begun is None:
            _begin(bundle, instance, log)
        else:
            occupy(instance["work_dir"])
        _run(bundle, instance, name or "", begun)
        return 0
    return 1


def _read(name: str | None, folder: str) -> tuple[bundles.Bundle, bundles.Bundle]:
    session = os.environ.get("GPUTUI_SESSION")
    if name is None or session is None:
        raise NotFound("it was not started by gputui (gputui rerun does it)")
    bundle = bundles.read(keepsake(session, name))
    wanted = os.path.abspath(folder)
    for instance in bundle["instances"]:
        if os.path.abspath(instance["work_dir"]) == wanted:
            return bundle, instance
    raise NotFound(f"{name} knows no task for {folder}")


def _begin(bundle: bundles.Bundle, instance: bundles.Bundle, log: SchedulerLog) -> None:
    os.dup2(1, 2)  # one log holds both
    log.write("receives")
    make_folder(instance["work_dir"])
    if bundle["log_file"] is not None:
        follow_log(os.path.join(instance["work_dir"], bundle["log_file"]))
    os.environ["MPLBACKEND"] = "Agg"


def _run(bundle: bundles.Bundle, instance: bundles.Bundle, name: str, begun: str | None) -> None:
    sys.path[:] = bundle["sys_path"]
    sys.argv = [bundle["task"].get("file") or bundle["task"]["name"]]
    lend_old_names()
    task = _task(bundle, instance, name, begun)
    with _noted(ResultNote(instance["work_dir"])):
        task.main()


def _task(bundle: bundles.Bundle, instance: bundles.Bundle, name: str, begun: str | None) -> Any:
    if bundle["main"] is not None:
        load_main(bundle["main"])
    cls = found(bundle["task"])
    if begun is not None and begun != NOT_PICKLED:
        with open(int(begun), "rb") as descriptor:
            return pickle.load(descriptor)
    task = cls(bundles.values(bundle, instance), instance["work_dir"])
    if begun is None:
        variables = task.required_env() or {}
        if variables:
            _start_over(task, {str(key): str(value) for key, value in variables.items()}, name)
    return task


def _start_over(task: Any, variables: dict[str, str], name: str) -> None:
    """The same process from its beginning, with the variables set before Python and every library looks at them.

    The task goes along as it is: asking it twice for its variables could give two answers.
    """
    os.environ.update(variables)
    words = getattr(sys, "orig_argv", None)
    if words is None:
        return  # before Python 3.10 only what is imported from here on sees them
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


@contextmanager
def _noted(note: ResultNote) -> Iterator[None]:
    """Whoever leaves by sys.exit(0) has succeeded as well."""
    try:
        yield
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            note.succeeded()
        raise
    note.succeeded()
