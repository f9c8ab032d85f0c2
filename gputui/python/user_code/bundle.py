"""The base class of tasks, the configurations and the module names of GPUTaskScheduler, and bundles.

A bundle passes a configuration or a call to jobs.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from .modules import MAIN, locate, main_script, open_own

Config = dict[str, Any]


class GPUTask:
    """One test instance. Derive a class from it and implement `main`, which runs in the job's own process.

    `_config` holds the parameters of the instance, and `_work_dir` is the path of its result directory.
    """

    def __init__(self, config: dict[str, Any], work_dir: str) -> None:
        self._config = config
        self._work_dir = work_dir

    def required_env(self) -> dict[str, str]:
        """Return environment variables for the task.

        Its process is restarted with these variables before `main` is called.
        """
        return {}

    def main(self) -> None:
        """Do the work."""


def _defaults() -> Config:
    """Return the default values of scheduler_config."""
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
    """Reads a configuration and returns its test instances, one by one or all at once.

    As in GPUTaskScheduler, the dictionary is modified: defaults are added, and GPU groups are joined.
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
        """Return the scheduler_config, including the default values."""
        return self._scheduler_config

    def get_all_global_config(self) -> Config:
        """Return the values shared by all instances."""
        return self._global_config

    def get_all_test_config(self) -> list[Config]:
        """Return the test values of each instance without the global values."""
        return self._test_config

    def get_all_test_config_in_string(self) -> str:
        """Return the names of the result directories of all instances."""
        separator: str = self._scheduler_config["test_config_string_inst_separator"]
        return separator.join(self._directory_name(test) for test in self._test_config)

    def get_gpu_envs(self) -> list[Config]:
        """Return a name and environment variables for each entry of `gpu`."""
        gpus = self._scheduler_config["gpu"]
        return [{"name": f"gpu{gpu}", "env": {"CUDA_VISIBLE_DEVICES": gpu}} for gpu in gpus]

    def get_next_config(self, create_dir: bool = False) -> Config:
        """Return the next instance with its `config`, `work_dir` and strings.

        Return `{"config": None}` after the last instance.
        """
        if self._counter >= len(self._test_config):
            return {"config": None}
        test = self._test_config[self._counter]
        self._counter += 1
        return {"config": {**copy.deepcopy(self._global_config), **test}, **self._names(test)}

    def get_num_left_config(self) -> int:
        """Return the number of instances that `get_next_config` has not returned yet."""
        return len(self._test_config) - self._counter

    def get_num_gpu(self) -> int:
        return len(self._scheduler_config["gpu"])

    def all_names(self) -> list[dict[str, str]]:
        """Return each instance's configuration strings and result directory, in order."""
        return [self._names(test) for test in self._test_config]

    def _names(self, test: Config) -> dict[str, str]:
        directory = self._directory_name(test)
        return {
            "test_config_string": self._string(test),
            "test_config_string_filtered": directory,
            "work_dir": os.path.join(self._scheduler_config["result_root_folder"], directory),
        }

    def _directory_name(self, test: Config) -> str:
        ignored = self._scheduler_config["ignored_keys_for_folder_name"]
        return self._string({key: value for key, value in test.items() if key not in ignored})

    def _string(self, test: Config) -> str:
        """Format test values as a string.

        The order of the steps and the final separator must not change, because the names of result directories depend
        on them.
        """
        settings = self._scheduler_config
        indicator, separator = settings["test_config_string_indicator"], settings["test_config_string_separator"]
        longest = settings["config_string_value_maxlen"]
        joined = "".join(f"{key}{indicator}{str(test[key])[:longest]}{separator}" for key in sorted(test))
        for character in settings["ignored_characters_for_folder_name"]:
            joined = joined.replace(character, "")
        return joined


class QuietConfigManager(ConfigManager):
    """A ConfigManager for gputui's own use, which does not create the temporary directory."""

    def __init__(self, config: Config) -> None:
        named = config.get("scheduler_config", {}).get("temp_folder")
        self.temp_folder = None if named is None else str(named)
        """The temp_folder specified by the user, or None."""
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
                raise TypeError(f"test_config: {key} is {values!r}; use a list of values to test")
        for chosen in itertools.product(*test.values()):
            yield {key: chosen[place] for place, key in enumerate(test)}


# Bundles


LONGEST_NAME = 255
LONGEST_PARAM = 200

Bundle = dict[str, Any]


class BadConfig(ValueError):
    """Raised when the configuration is invalid. The message is shown to the user."""


def make_bundle(manager: QuietConfigManager, task: dict[str, Any]) -> Bundle:
    """Create the bundle of a configuration. `task` is the result of `locate` for the task class.

    If several instances have the same directory, only the first one is used.
    """
    settings = manager.get_all_scheduler_config()
    scheduler_log = _text(settings, "scheduler_log_file_path")
    instances: dict[str, Bundle] = {}
    shared: list[str] = []
    for test, names in zip(manager.get_all_test_config(), manager.all_names()):  # noqa: B905  # older Pythons
        directory = _check_directory(names["work_dir"])
        if os.path.abspath(directory) in instances:
            shared.append(names["test_config_string"])
        else:
            name = names["test_config_string_filtered"] or os.path.basename(os.path.abspath(directory))
            instances[os.path.abspath(directory)] = {
                "work_dir": directory,
                "string": names["test_config_string"],
                "name": printable(name),
                "params": {printable(str(key)): printable(str(value)[:LONGEST_PARAM]) for key, value in test.items()},
                "test": _pickled("test_config", test),
            }
    if not instances:
        raise BadConfig("its test_config yields no instance; omit it, or use [{}] for one task with the global values")
    common = _pickled("global_config", manager.get_all_global_config())
    in_main = any(
        b"__main__" in b64decode(text) for text in (common, *(instance["test"] for instance in instances.values()))
    )
    return {
        "gpu": settings["gpu"],
        "force_rerun": bool(settings["force_rerun"]),
        "log_file": _text(settings, "log_file"),
        "scheduler_log": os.path.abspath(scheduler_log) if scheduler_log is not None else None,
        "python": sys.executable,
        "task": task,
        "main": main_script() if in_main and task["module"] != MAIN else None,
        "sys_path": search_path(),
        "global": common,
        "instances": list(instances.values()),
        "shared": shared,
        "temp_folder": manager.temp_folder,
    }


def printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _check_directory(directory: str) -> str:
    """Return the directory. Raise BadConfig if the file system or the store cannot handle its name."""
    if "\0" in directory:
        raise BadConfig(f"the directory name {directory!r} contains a NUL byte")
    try:
        parts = directory.encode().split(b"/")
    except UnicodeEncodeError:
        raise BadConfig(f"invalid directory name {directory!r}") from None
    if max(map(len, parts)) > LONGEST_NAME:
        raise BadConfig(
            f"the directory name {os.path.basename(directory)[:60]}… is longer than {LONGEST_NAME} bytes; lower "
            "config_string_value_maxlen or use ignored_keys_for_folder_name"
        )
    return directory


def _text(settings: dict[str, Any], key: str) -> str | None:
    value = settings[key]
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise BadConfig(f"{key} is {value!r}, but must be a file name or None")
    return None if value is None else os.fspath(value)


def search_path() -> list[str]:
    """Return this process's module search path and current directory."""
    return list(dict.fromkeys([*(os.path.abspath(entry) for entry in sys.path), os.getcwd()]))


def _pickled(part: str, values: dict[str, Any]) -> str:
    try:
        return b64encode(pickle.dumps(values)).decode()
    except Exception as error:
        culprit = next((key for key, value in values.items() if not _can_be_pickled(value)), None)
        where = f"{part}: {culprit}" if culprit is not None else part
        raise BadConfig(f"cannot pass {where} to a task: {error}") from None


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
    """Return the configuration of one instance. Its test values override the global values."""
    config: dict[str, Any] = pickle.loads(b64decode(bundle["global"]))
    config.update(pickle.loads(b64decode(instance["test"])))
    return config


# Calls


def pack_call(function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
    """Serialize a call for its job.

    Raises ValueError if the job could not find the function, and TypeError if the arguments cannot be pickled.
    """
    where = locate(function)
    try:
        pickled = pickle.dumps((arguments, dict(named)))
    except Exception as error:
        raise TypeError(f"cannot pass these arguments of {function.__name__} to a job: {error}") from error
    refers_to_main = b"__main__" in pickled and where["module"] != MAIN
    call = {
        "function": where,
        "main": main_script() if refers_to_main else None,
        "sys_path": search_path(),
        "arguments": b64encode(pickled).decode(),
    }
    return json.dumps(call).encode()


# The names of GPUTaskScheduler's modules


PACKAGE = "gpu_task_scheduler"
HOMES = {
    "gpu_task": {"GPUTask": "gputui.python.user_code.bundle"},
    "config_manager": {"ConfigManager": "gputui.python.user_code.bundle"},
    "gpu_task_scheduler": {"GPUTaskScheduler": "gputui.tasks"},
}


class _Alias(ModuleType):
    """A module that imports its names when they are first used."""

    def __getattr__(self, name: str) -> Any:
        home = HOMES.get(self.__name__.rpartition(".")[2], {}).get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(home), name)


def provide_old_names() -> None:
    """Make `import gpu_task_scheduler` work if the original package is not installed."""
    from importlib.util import find_spec

    if PACKAGE in sys.modules or find_spec(PACKAGE) is not None:
        return
    package = ModuleType(PACKAGE)
    package.__path__ = []
    sys.modules[PACKAGE] = package
    for name in HOMES:
        alias = _Alias(f"{PACKAGE}.{name}")
        sys.modules[alias.__name__] = alias
        setattr(package, name, alias)
