"""GPUTaskScheduler's configuration, and what the jobs of a configuration or a call need to know."""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .modules import MAIN, main_script, open_own, whereabouts

# ---- GPUTaskScheduler's configuration ----


Config = dict[str, Any]


def _defaults() -> Config:
    """In force where scheduler_config says nothing; folders as they are from here."""
    return {
        "force_rerun": False,
        "result_root_folder": os.path.abspath("results/"),
        "test_config_string_separator": ",",
        "test_config_string_indicator": "-",
        "test_config_string_inst_separator": "+",
        "temp_folder": os.path.abspath("temp/"),
        "log_file": "worker.log",
        "scheduler_log_file_path": "scheduler.log",
        "config_string_value_maxlen": 30,
        "ignored_keys_for_folder_name": [],
        "ignored_characters_for_folder_name": [" ", "[", "]"],
    }


class ConfigManager:
    """Reads a configuration and hands out its test instances, one by one or all together.

    As in GPUTaskScheduler the dictionary is used as it is: defaults are added to it and GPU groups joined in it.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._scheduler_config = _scheduler_config(config)
        self._global_config: Config = config.get("global_config", {})
        self._test_config = list(_instances(config.get("test_config", [{}])))
        self._counter = 0
        self._make_temp_folder()

    def _make_temp_folder(self) -> None:
        os.makedirs(self._scheduler_config["temp_folder"], exist_ok=True)

    def get_all_scheduler_config(self) -> Config:
        """The scheduler_config with its defaults filled in."""
        return self._scheduler_config

    def get_all_global_config(self) -> Config:
        """What is the same for every instance."""
        return self._global_config

    def get_all_test_config(self) -> list[Config]:
        """The test values of each instance, without the global ones."""
        return self._test_config

    def get_all_test_config_in_string(self) -> str:
        """All instances, each as its result folder is called."""
        separator: str = self._scheduler_config["test_config_string_inst_separator"]
        return separator.join(self._folder_name(test) for test in self._test_config)

    def get_gpu_envs(self) -> list[Config]:
        """A name and the variables for each entry of `gpu`."""
        gpus = self._scheduler_config["gpu"]
        return [{"name": f"gpu{gpu}", "env": {"CUDA_VISIBLE_DEVICES": gpu}} for gpu in gpus]

    def get_next_config(self, create_dir: bool = False) -> Config:
        """The next instance: `config`, `work_dir` and its strings; `{"config": None}` when there is none left."""
        if self._counter >= len(self._test_config):
            return {"config": None}
        test = self._test_config[self._counter]
        self._counter += 1
        return {"config": {**copy.deepcopy(self._global_config), **test}, **self._names(test)}

    def get_num_left_config(self) -> int:
        """How many instances `get_next_config` has not handed out yet."""
        return len(self._test_config) - self._counter

    def get_num_gpu(self) -> int:
        return len(self._scheduler_config["gpu"])

    def all_names(self) -> list[dict[str, str]]:
        """The strings and folders of all instances, in their order."""
        return [self._names(test) for test in self._test_config]

    def _names(self, test: Config) -> dict[str, str]:
        folder = self._folder_name(test)
        return {
            "test_config_string": self._string(test),
            "test_config_string_filtered": folder,
            "work_dir": os.path.join(self._scheduler_config["result_root_folder"], folder),
        }

    def _folder_name(self, test: Config) -> str:
        ignored = self._scheduler_config["ignored_keys_for_folder_name"]
        return self._string({key: value for key, value in test.items() if key not in ignored})

    def _string(self, test: Config) -> str:
        """Values are cut before characters are taken out, and the last separator stays: folders depend on it."""
        settings = self._scheduler_config
        indicator, separator = settings["test_config_string_indicator"], settings["test_config_string_separator"]
        longest = settings["config_string_value_maxlen"]
        joined = "".join(f"{key}{indicator}{str(test[key])[:longest]}{separator}" for key in sorted(test))
        for character in settings["ignored_characters_for_folder_name"]:
            joined = joined.replace(character, "")
        return joined


class QuietConfigManager(ConfigManager):
    """For gputui's own use, which needs no temporary folder."""

    def __init__(self, config: Config) -> None:
        named = config.get("scheduler_config", {}).get("temp_folder")
        self.temp_folder = None if named is None else str(named)
        """As the user named it, if they did."""
        super().__init__(config)

    def _make_temp_folder(self) -> None:
        pass


def _scheduler_config(config: Config) -> Config:
    if "scheduler_config" not in config:
        raise ValueError("could not find scheduler_config in config")
    settings: Config = config["scheduler_config"]
    for key, value in _defaults().items():
        settings.setdefault(key, value)
    if "gpu" not in settings:
        raise ValueError("could not find gpu in scheduler_config")
    if len(settings["gpu"]) < 1:
        raise ValueError("please specify at least one gpu in scheduler_config")
    settings["gpu"] = [_gpu(entry) for entry in settings["gpu"]]
    return settings


def _gpu(entry: object) -> str:
    if isinstance(entry, list):
        return ",".join(entry)
    if not isinstance(entry, str):
        raise ValueError("gpu can only be a string or a list of strings")
    return entry


def _instances(tests: Iterable[Config]) -> Iterable[Config]:
    for test in tests:
        for key, values in test.items():
            if not hasattr(values, "__iter__") and not hasattr(values, "__getitem__"):
                raise TypeError(f"test_config: {key} is {values!r}; give a list of the values to test")
        for chosen in itertools.product(*test.values()):
            yield {key: chosen[place] for place, key in enumerate(test)}


# ---- A bundle ----


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


# ---- A call as it is kept until it runs ----


def packed(function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
    """ValueError: no job could find the function; TypeError: the arguments cannot be passed on."""
    where = whereabouts(function)
    try:
        pickled = pickle.dumps((arguments, dict(named)))
    except Exception as error:
        raise TypeError(f"these arguments of {function.__name__} cannot be passed to a job: {error}") from error
    refers_to_main = b"__main__" in pickled and where["module"] != MAIN
    call = {
        "function": where,
        "main": main_script() if refers_to_main else None,
        "sys_path": search_path(),
        "arguments": b64encode(pickled).decode(),
    }
    return json.dumps(call).encode()
