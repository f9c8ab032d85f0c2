"""GPUTaskScheduler's configurations as jobs: one for each instance, with its result folder to tell what is done."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.job import JobSpec
from gputui.python.user_code.result_folder import STARTED, ResultNote, SchedulerLog, is_at_work

from .python_file import PythonFile, advice, door_of
from .settings import NO_SETTINGS, JobSettings
from .source import BadInput, Draft, Occurrences, shown, specs

__all__ = ["Before", "TaskConfig", "TaskInstance", "bundled", "read_task_config"]

BUNDLE = "GPUTUI_TASKS"
"""The variable that names to a task the keepsake with its values."""


class Before(Enum):
    """What an instance's result folder tells."""

    NOTHING = "nothing"
    """There is none."""
    BEGUN = "begun"
    """A task of gputui began there and did not succeed, or still runs: the session knows more."""
    AT_WORK = "at work"
    """A task is in it just now, of this session or another."""
    DONE = "done"
    FOREIGN = "foreign"
    """Not made by gputui: as GPUTaskScheduler did, what is there counts as done."""


class TaskInstance(msgspec.Struct, frozen=True):
    work_dir: str
    name: str
    params: dict[str, str]
    before: Before


class TaskConfig(msgspec.Struct, frozen=True):
    """A configuration that was read whole."""

    origin: str
    bundle: bytes
    """What its tasks need to know; kept where they find it before they are added."""
    python: str
    """The one that read it, and that its tasks run on."""
    target: str
    """The class, in words."""
    gpus: str
    """As `--gpus` takes them."""
    force_rerun: bool
    instances: tuple[TaskInstance, ...]
    shared: tuple[str, ...]
    """Instances left out because an earlier one has their folder."""
    temp_folder: str | None = None
    """As the user named it, if they did."""
    scheduler_log: str | None = None
    strings: tuple[str, ...] = ()
    """What the scheduler's log calls each instance."""

    @property
    def bundle_name(self) -> str:
        """After its contents: another configuration never changes the values of tasks that wait."""
        return f"tasks-{hashlib.blake2b(self.bundle, digest_size=12).hexdigest()}.json"

    def specs(self, *, cwd: str, environment: str, defaults: JobSettings = NO_SETTINGS) -> tuple[JobSpec, ...]:
        """One for each instance, in their order. What a task is told may change, its identity is its folder."""
        drafts = [
            Draft(self._command(instance.work_dir, cwd), number, JobSettings(name=instance.name))
            for number, instance in enumerate(self.instances, 1)
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
        folder = os.path.join(cwd, work_dir)
        near = os.path.relpath(folder, cwd)
        return shlex.join([*door_of(self.python), "task", self.target, folder if near.startswith("..") else near])

    def numbers(self, *before: Before) -> tuple[int, ...]:
        return tuple(number for number, instance in enumerate(self.instances) if instance.before in before)

    def tell_skipped(self) -> None:
        """Into the scheduler's log, as GPUTaskScheduler did: these have their results."""
        for number in self.numbers(Before.DONE, Before.FOREIGN):
            SchedulerLog(self.scheduler_log, self.strings[number], "scheduler").write("skips")

    def notices(self) -> list[str]:
        """What the user should know beyond the counts."""
        notices = []
        foreign = len(self.numbers(Before.FOREIGN))
        if foreign and not self.force_rerun:
            count = counted(foreign, "result folder was", "result folders were")
            notices.append(
                f"{self.origin}: {count} not made by gputui; what is there counts as done (force_rerun: not)"
            )
        if self.temp_folder is not None:
            notices.append(f"{self.origin}: temp_folder is not used: what tasks need is kept in the session")
        if self.shared:
            count = counted(len(self.shared), "instance has", "instances have")
            notices.append(
                f"{self.origin}: {count} the same result folder as an earlier one and is left out "
                f"({self.shared[0]}); a larger config_string_value_maxlen may tell them apart"
            )
        return notices


def read_task_config(path: str, task: str | None = None) -> TaskConfig:
    """The configuration in a .py file; `task` names its class where that is not plain. BadInput if it is wrong."""
    with PythonFile(path) as file:
        return described(file, task)


def described(file: PythonFile, task: str | None = None) -> TaskConfig:
    """The same of a file that is loaded already."""
    if "config" not in file.defines:
        raise BadInput(advice(file.path))
    return _config(file.ask("config", task=task), os.path.basename(file.path))


def bundled(path: str) -> TaskConfig:
    """A configuration that another process has read: a script of the user's."""
    with open(path, "rb") as file:
        bundle = json.load(file)
    return _config(bundle, bundle.pop("origin"))


def _config(bundle: dict[str, Any], origin: str) -> TaskConfig:
    temp_folder = bundle.pop("temp_folder", None)
    return TaskConfig(
        origin=shown(origin),
        bundle=json.dumps(bundle, sort_keys=True).encode(),
        python=bundle["python"],
        target=_target(bundle["task"]),
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


def _target(task: dict[str, Any]) -> str:
    main = task.get("main")
    if main is None:
        return f"{task['module']}.{task['name']}"
    return f"{main['name'] or os.path.basename(main['file'])}:{task['name']}"


def _gpus(entries: list[str], origin: str) -> str:
    """Each entry is a lane; an empty one hides every GPU, as -1 does."""
    if len(entries) == 1 and (":" in entries[0] or entries[0] == "all"):
        return entries[0]
    if any(mark in entry for entry in entries for mark in "[]"):
        raise BadInput(f"{shown(origin)}: gpu: {entries!r} holds a bracket within a string; write nested lists")
    return ",".join(f"[{entry}]" if entry.strip() else "-1" for entry in entries)


def _before(work_dir: str) -> Before:
    if not os.path.lexists(work_dir):
        return Before.NOTHING
    note = ResultNote(work_dir).read()
    if note is None:
        return Before.FOREIGN
    if note == STARTED:
        return Before.AT_WORK if is_at_work(work_dir) else Before.BEGUN
    return Before.DONE
