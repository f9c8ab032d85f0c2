"""GPUTaskScheduler's configurations as jobs.

Each instance becomes one job, and its result directory shows whether it is done.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shlex
import subprocess
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.job import JobSpec
from gputui.python.user_code.result_directory import STARTED, SchedulerLog, is_occupied, read_note

from .command_list import unreadable
from .settings import NO_SETTINGS, JobSettings
from .source import BadInput, Draft, Occurrences, shown, specs
from .yielder import NO_GPUS, door_of, python_of

BUNDLE = "GPUTUI_TASKS"
"""Environment variable with the name of the file that contains the values of the tasks."""


class Before(Enum):
    """The state of an instance's result directory before its job is added."""

    NOTHING = "nothing"
    """The directory does not exist."""
    BEGUN = "begun"
    """gputui started a task in the directory, and the task has not succeeded. The session knows whether
    it is running.
    """
    AT_WORK = "at work"
    """A task of this or another session is running in the directory now."""
    DONE = "done"
    FOREIGN = "foreign"
    """The directory was not created by gputui. As with GPUTaskScheduler, the instance counts as done."""


class TaskInstance(msgspec.Struct, frozen=True):
    work_dir: str
    name: str
    params: dict[str, str]
    before: Before


class TaskConfig(msgspec.Struct, frozen=True):
    """A configuration with all of its instances."""

    origin: str
    bundle: bytes
    """The encoded values of the tasks. They are written to a file before the jobs are added."""
    python: str
    """The Python interpreter that read the configuration and runs the tasks."""
    target: str
    """The task class."""
    gpus: str
    """The GPUs, in the syntax of `--gpus`."""
    force_rerun: bool
    instances: tuple[TaskInstance, ...]
    shared: tuple[str, ...]
    """Instances that are omitted because an earlier one has the same directory."""
    temp_folder: str | None = None
    scheduler_log: str | None = None
    strings: tuple[str, ...] = ()
    """Names of the instances in the scheduler's log."""

    @property
    def bundle_name(self) -> str:
        """Name of the file that contains the bundle.

        It depends on the contents, so that waiting tasks keep their values even if the configuration changes.
        """
        return f"tasks-{hashlib.blake2b(self.bundle, digest_size=12).hexdigest()}.json"

    def specs(self, *, cwd: str, environment: str, defaults: JobSettings = NO_SETTINGS) -> tuple[JobSpec, ...]:
        """Return a spec for each instance. The identity of a spec is the instance's directory."""
        drafts = [
            Draft(self._command(instance.work_dir, cwd), JobSettings(name=instance.name)) for instance in self.instances
        ]
        task_specs = specs(
            drafts, cwd=cwd, environment=environment, group=self.origin, defaults=defaults, occurrences=Occurrences()
        )
        variables = {BUNDLE: self.bundle_name}
        return tuple(
            replace(spec, params=instance.params, variables=variables)
            for spec, instance in zip(task_specs, self.instances, strict=True)
        )

    def _command(self, work_dir: str, cwd: str) -> str:
        directory = os.path.join(cwd, work_dir)
        near = os.path.relpath(directory, cwd)
        return shlex.join([*door_of(self.python), "task", self.target, directory if near.startswith("..") else near])

    def numbers(self, *before: Before) -> tuple[int, ...]:
        return tuple(number for number, instance in enumerate(self.instances) if instance.before in before)

    def tell_skipped(self) -> None:
        """Write to the scheduler's log that finished instances are skipped, as GPUTaskScheduler did."""
        for number in self.numbers(Before.DONE, Before.FOREIGN):
            SchedulerLog(self.scheduler_log, self.strings[number], "scheduler").write("skips")

    def notices(self) -> list[str]:
        """Return messages for the user about foreign directories, duplicates and ignored settings."""
        notices = []
        foreign = len(self.numbers(Before.FOREIGN))
        if foreign and not self.force_rerun:
            count = counted(foreign, "result directory was", "result directories were")
            notices.append(f"{self.origin}: {count} not created by gputui; treated as done (unless force_rerun)")
        if self.temp_folder is not None:
            notices.append(f"{self.origin}: temp_folder is ignored; task files are kept in the session")
        if self.shared:
            count = counted(len(self.shared), "instance has", "instances have")
            notices.append(
                f"{self.origin}: {count} the same result directory as an earlier one, skipped ({self.shared[0]}); try "
                "a larger config_string_value_maxlen"
            )
        return notices


def read_task_config(path: str, task: str | None = None) -> TaskConfig:
    """Return the configuration in a .py file. Raise BadInput if it is invalid.

    `task`: the name of the task class, if it is not clear from the file.
    """
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    bundle = _read_bundle(path, task or "")
    if bundle is None:
        raise BadInput(_advice(path))
    return _config(bundle, os.path.basename(path))


def _read_bundle(path: str, task: str) -> dict[str, Any] | None:
    """Load a file in a separate process that sees no GPU. Return None if it defines no configuration."""
    command = door_of(python_of(os.environ))
    environment = {**os.environ, **NO_GPUS, "PYTHONUNBUFFERED": "1"}
    with open(os.memfd_create("gputui-config"), "rb") as file:
        answer = file.fileno()
        words = [*command, "read", path, task, str(answer)]
        try:
            code = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, pass_fds=[answer]).returncode
        except OSError as error:
            raise BadInput(f"cannot read {shown(path)}: {command[0]}: {error.strerror}") from None
        file.seek(0)  # the position is shared with the process
        written = file.read()
    if not written:
        end = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        raise BadInput(f"{shown(path)}: the process reading it {end}")
    reply = json.loads(written)
    if "error" in reply:
        raise BadInput(reply["error"])
    bundle: dict[str, Any] | None = reply["ok"]
    return bundle


def bundled(path: str) -> TaskConfig:
    """Return a configuration that a user's script has written to a file."""
    with open(path, "rb") as file:
        bundle = json.load(file)
    return _config(bundle, bundle.pop("origin"))


def _config(bundle: dict[str, Any], origin: str) -> TaskConfig:
    temp_folder = bundle.pop("temp_folder", None)
    task, main = bundle["task"], bundle["task"].get("main")
    module = task["module"] + "." if main is None else (main["name"] or os.path.basename(main["file"])) + ":"
    target = module + task["name"]
    return TaskConfig(
        origin=shown(origin),
        bundle=json.dumps(bundle, sort_keys=True).encode(),
        python=bundle["python"],
        target=target,
        gpus=_gpus(bundle["gpu"], origin),
        force_rerun=bundle["force_rerun"],
        instances=tuple(
            TaskInstance(instance["work_dir"], instance["name"], instance["params"], _before(instance["work_dir"]))
            for instance in bundle["instances"]
        ),
        shared=tuple(bundle["shared"]),
        temp_folder=temp_folder,
        scheduler_log=bundle["scheduler_log"],
        strings=tuple(instance["string"] for instance in bundle["instances"]),
    )


def _gpus(entries: list[str], origin: str) -> str:
    # Each entry is a slot; an empty one hides every GPU, as -1 does.
    if len(entries) == 1 and (":" in entries[0] or entries[0] == "all"):
        return entries[0]
    if any(mark in entry for entry in entries for mark in "[]"):
        raise BadInput(f"{shown(origin)}: gpu: {entries!r} contains a bracket in a string; use nested lists")
    return ",".join(f"[{entry}]" if entry.strip() else "-1" for entry in entries)


def _before(work_dir: str) -> Before:
    if not os.path.lexists(work_dir):
        return Before.NOTHING
    note = read_note(work_dir)
    if note is None:
        return Before.FOREIGN
    if note == STARTED:
        return Before.AT_WORK if is_occupied(work_dir) else Before.BEGUN
    return Before.DONE


def _advice(path: str) -> str:
    """Return the error message for a file that defines no config when it is loaded."""
    name = shown(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return f"{name} defines no config"
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    origins = {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}
    module = origins.get("config")
    task = _task_class(tree, origins)
    if task is None and module is None:
        return f"{name} defines no config"
    file_name = os.path.join(os.path.dirname(path), *(module or "config").split(".")) + ".py"
    return f"{name} creates its config only when run directly: gputui run {shown(file_name)} --task {task or 'CLASS'}"


def _task_class(tree: ast.Module, origins: dict[str, str]) -> str | None:
    """Return the task class that the file passes to GPUTaskScheduler, in the form expected by --task."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "GPUTaskScheduler":
            class_arguments = [
                keyword.value for keyword in node.keywords if keyword.arg == "gpu_task_class"
            ] or node.args[1:2]
            if class_arguments and isinstance(class_arguments[0], ast.Name) and class_arguments[0].id in origins:
                return f"{origins[class_arguments[0].id]}.{class_arguments[0].id}"
    return None
