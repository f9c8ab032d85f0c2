"""A bundle: all that the jobs of one task configuration need to know, in plain JSON that outlives whoever made it.

The instances' values are Python objects and go in as pickles; the ones that all share are kept once.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from base64 import b64decode, b64encode
from typing import Any

from .configs import QuietConfigManager
from .modules import MAIN, main_script
from .own_files import open_own

LONGEST_NAME = 255
LONGEST_PARAM = 200

Bundle = dict[str, Any]


class BadConfig(ValueError):
    """A configuration that makes no tasks; the message is the end of the sentence the user reads."""


def made(manager: QuietConfigManager, task: dict[str, Any]) -> Bundle:
    """`task`: the whereabouts of its class. Instances that would share a folder are left out but for the first."""
    settings = manager.get_all_scheduler_config()
    instances: dict[str, Bundle] = {}
    shared: list[str] = []
    for test, names in zip(manager.get_all_test_config(), manager.all_names()):  # noqa: B905  # older Pythons
        folder = _checked(names["work_dir"])
        if os.path.abspath(folder) in instances:
            shared.append(names["test_config_string"])
        else:
            instances[os.path.abspath(folder)] = _instance(test, names)
    if not instances:
        raise BadConfig(
            "its test_config makes no instance; leave it out, or write [{}], for one task with the global values"
        )
    common = _pickled("global_config", manager.get_all_global_config())
    in_main = any(
        b"__main__" in b64decode(text) for text in (common, *(instance["test"] for instance in instances.values()))
    )
    return {
        "gpu": settings["gpu"],
        "force_rerun": bool(settings["force_rerun"]),
        "log_file": _text(settings, "log_file"),
        "scheduler_log": _scheduler_log(settings),
        "python": sys.executable,
        "task": task,
        "main": main_script() if in_main and task["module"] != MAIN else None,
        "sys_path": search_path(),
        "global": common,
        "instances": list(instances.values()),
        "shared": shared,
        "temp_folder": manager.temp_folder,
    }


def _instance(test: dict[str, Any], names: dict[str, str]) -> Bundle:
    return {
        "work_dir": names["work_dir"],
        "string": names["test_config_string"],
        "name": _shown(names["test_config_string_filtered"] or os.path.basename(os.path.abspath(names["work_dir"]))),
        "params": {_shown(str(key)): _shown(str(value)[:LONGEST_PARAM]) for key, value in test.items()},
        "test": _pickled("test_config", test),
    }


def _shown(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _checked(folder: str) -> str:
    """It must be a path that the file system takes and text that can be stored."""
    if "\0" in folder:
        raise BadConfig(f"the folder name {folder!r} holds a NUL byte")
    try:
        parts = folder.encode().split(b"/")
    except UnicodeEncodeError:
        raise BadConfig(f"the folder name {folder!r} is no valid text") from None
    if max(map(len, parts)) > LONGEST_NAME:
        raise BadConfig(
            f"the folder name {os.path.basename(folder)[:60]}… is longer than {LONGEST_NAME} bytes; lower "
            "config_string_value_maxlen or use ignored_keys_for_folder_name"
        )
    return folder


def _text(settings: dict[str, Any], key: str) -> str | None:
    value = settings[key]
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise BadConfig(f"{key} is {value!r}, and should be the name of a file or None")
    return None if value is None else os.fspath(value)


def _scheduler_log(settings: dict[str, Any]) -> str | None:
    path = _text(settings, "scheduler_log_file_path")
    return None if path is None else os.path.abspath(path)


def search_path() -> list[str]:
    """Where this process looks for modules, and the folder it is in."""
    return list(dict.fromkeys([*(os.path.abspath(entry) for entry in sys.path), os.getcwd()]))


def _pickled(part: str, values: dict[str, Any]) -> str:
    try:
        return b64encode(pickle.dumps(values)).decode()
    except Exception as error:
        culprit = next((key for key, value in values.items() if not _can_be_pickled(value)), None)
        where = f"{part}: {culprit}" if culprit is not None else part
        raise BadConfig(f"{where} cannot be passed to a task: {error}") from None


def _can_be_pickled(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:
        return False
    return True


def read(path: str) -> Bundle:
    with open(open_own(path), encoding="utf-8") as file:
        bundle: Bundle = json.load(file)
        return bundle


def values(bundle: Bundle, instance: Bundle) -> dict[str, Any]:
    """The configuration of one instance; the test's values win."""
    config: dict[str, Any] = pickle.loads(b64decode(bundle["global"]))
    config.update(pickle.loads(b64decode(instance["test"])))
    return config
