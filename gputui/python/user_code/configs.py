"""GPUTaskScheduler's configuration: its defaults, its test instances and the names of their result folders."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterable
from typing import Any

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
