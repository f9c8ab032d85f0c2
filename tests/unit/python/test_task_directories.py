"""The instances of a configuration and their directories, whose names users rely on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.task_files import SAMPLE, SAMPLE_DIRECTORIES

from gputui.python.user_code.bundle import BadConfig, QuietConfigManager, make_bundle, values
from gputui.tasks import ConfigManager

TASK = {"module": "my_task", "name": "MyTask", "file": None}


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sample() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(SAMPLE, names)
    config: dict[str, Any] = names["config"]
    return config


def manager(test: dict[str, Any], **settings: Any) -> ConfigManager:
    return QuietConfigManager({"scheduler_config": {"gpu": ["0"], **settings}, "test_config": [test]})


def directory(test: dict[str, Any], **settings: Any) -> str:
    work_dir: str = manager(test, result_root_folder="r", **settings).get_next_config()["work_dir"]
    return work_dir.removeprefix("r/")


def test_the_sample_gives_its_four_instances() -> None:
    configs = ConfigManager(sample())
    assert configs.get_num_left_config() == 4
    seen = [configs.get_next_config() for _ in range(4)]
    assert [one["config"] for one in seen] == [
        {"num_run": 5, "num_epoch": 200, "method": "GAN", "num_packing": 1, "num_zmode": 1},
        {"num_run": 5, "num_epoch": 200, "method": "ALI", "num_packing": 1, "num_zmode": 1},
        {"num_run": 5, "num_epoch": 200, "method": "WGAN", "num_packing": 3, "num_zmode": 1},
        {"num_run": 5, "num_epoch": 200, "method": "WGAN", "num_packing": 3, "num_zmode": 2},
    ]
    assert sorted(one["work_dir"] for one in seen) == [
        os.path.abspath(f"results/{name}") for name in SAMPLE_DIRECTORIES
    ]
    assert configs.get_next_config() == {"config": None}
    assert configs.get_num_left_config() == 0


def test_the_config_manager_keeps_its_interface() -> None:
    config = sample()
    config["scheduler_config"]["gpu"] = ["0", ["1", "2"]]
    configs = ConfigManager(config)
    assert configs.get_num_gpu() == 2
    assert configs.get_gpu_envs() == [
        {"name": "gpu0", "env": {"CUDA_VISIBLE_DEVICES": "0"}},
        {"name": "gpu1,2", "env": {"CUDA_VISIBLE_DEVICES": "1,2"}},
    ]
    assert configs.get_all_global_config() == {"num_run": 5, "num_epoch": 200}
    assert configs.get_all_test_config()[0] == {"method": "GAN", "num_packing": 1, "num_zmode": 1}
    assert sorted(configs.get_all_test_config_in_string().split("+")) == SAMPLE_DIRECTORIES
    settings = configs.get_all_scheduler_config()
    assert settings is config["scheduler_config"]
    assert settings["gpu"] == ["0", "1,2"]
    assert settings["log_file"] == "worker.log"
    assert os.path.isdir(settings["temp_folder"])


@pytest.mark.parametrize(
    ("test", "settings", "name"),
    [
        (
            {"b": [True], "d": [{"k": 1}], "f": [1e-5], "long": ["x" * 50], "lst": [[1, 2, 3]], "none": [None]},
            {},
            f"b-True,d-{{'k':1}},f-1e-05,long-{'x' * 30},lst-1,2,3,none-None,",
        ),
        ({"z": [1], "a": [2]}, {}, "a-2,z-1,"),
        ({"a": range(3)}, {}, "a-0,"),
        ({"a": "xyz"}, {}, "a-x,"),
        ({"a": [1.5]}, {"test_config_string_indicator": "=", "test_config_string_separator": "_"}, "a=1.5_"),
        ({"a": ["0123456789"]}, {"config_string_value_maxlen": 4}, "a-0123,"),
        ({"a": ["1 2 3 4"]}, {"config_string_value_maxlen": 4}, "a-12,"),
        ({"a b": ["[x]"]}, {}, "ab-x,"),
        ({"a": ["[x y]"]}, {"ignored_characters_for_folder_name": [","]}, "a-[x y]"),
        ({"a": [1], "seed": [7]}, {"ignored_keys_for_folder_name": ["seed"]}, "a-1,"),
        ({"a": ["data/x"]}, {}, "a-data/x,"),
        ({}, {}, ""),
    ],
)  # fmt: skip
def test_directory_names_are_those_of_the_old_tool(test: dict[str, Any], settings: dict[str, Any], name: str) -> None:
    assert directory(test, **settings) == name


def test_the_string_of_an_instance_has_all_its_keys() -> None:
    seen = manager({"a": [1], "seed": [7]}, ignored_keys_for_folder_name=["seed"]).get_next_config()
    assert seen["test_config_string"] == "a-1,seed-7,"
    assert seen["test_config_string_filtered"] == "a-1,"


def test_a_directory_the_user_names_stays_relative() -> None:
    assert manager({"a": [1]}, result_root_folder="../results").get_next_config()["work_dir"] == "../results/a-1,"


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({}, ValueError, "could not find scheduler_config in config"),
        ({"scheduler_config": {}}, ValueError, "could not find gpu in scheduler_config"),
        ({"scheduler_config": {"gpu": []}}, ValueError, "please specify at least one gpu in scheduler_config"),
        ({"scheduler_config": {"gpu": [0]}}, ValueError, "gpu can only be a string or a list of strings"),
        ({"scheduler_config": {"gpu": [("0", "1")]}}, ValueError, "gpu can only be a string or a list of strings"),
        ({"scheduler_config": {"gpu": [[0]]}}, TypeError, "expected str"),
        ({"scheduler_config": {"gpu": ["0"]}, "test_config": [{"lr": 0.1}]}, TypeError, "lr is 0.1; use a list"),
    ],
)
def test_an_invalid_configuration_has_the_old_tools_errors(
    config: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ConfigManager(config)


def test_each_instance_has_its_own_copy_of_global_values() -> None:
    configs = QuietConfigManager(
        {"scheduler_config": {"gpu": ["0"]}, "global_config": {"list": []}, "test_config": [{"a": [1, 2]}]}
    )
    first, second = configs.get_next_config()["config"], configs.get_next_config()["config"]
    first["list"].append(1)
    assert second["list"] == []


def test_instances_with_the_same_directory_are_counted() -> None:
    long = ["x" * 40 + "1", "x" * 40 + "2"]
    bundle = make_bundle(QuietConfigManager({"scheduler_config": {"gpu": ["0"]}, "test_config": [{"a": long}]}), TASK)
    assert len(bundle["instances"]) == 1
    assert len(bundle["shared"]) == 1


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ({"a": ["\0"]}, "contains a NUL byte"),
        ({"a": ["\ud800"]}, "invalid directory name"),
        ({str(number): ["x" * 30] for number in range(9)}, "is longer than 255 bytes"),
        ({"a": []}, "yields no instance"),
        ({"f": [lambda: 0]}, "cannot pass test_config: f to a task"),
    ],
)
def test_invalid_directory_names_and_values_are_refused_before_anything_runs(test: dict[str, Any], words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        make_bundle(QuietConfigManager({"scheduler_config": {"gpu": ["0"]}, "test_config": [test]}), TASK)


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.lists(st.integers()))
_TESTS = st.dictionaries(st.text(max_size=5), st.lists(_VALUES, max_size=3), max_size=3)


@given(tests=st.lists(_TESTS, max_size=3), common=st.dictionaries(st.text(max_size=5), _VALUES, max_size=3))
def test_any_configuration_is_a_bundle_or_one_sentence(tests: list[dict[str, Any]], common: dict[str, Any]) -> None:
    configs = QuietConfigManager({"scheduler_config": {"gpu": ["0"]}, "global_config": common, "test_config": tests})
    try:
        bundle = make_bundle(configs, TASK)
    except BadConfig as refused:
        assert str(refused)  # noqa: PT017 - either outcome is right
        return
    directories = {os.path.abspath(instance["work_dir"]) for instance in bundle["instances"]}
    assert len(directories) == len(bundle["instances"])
    first = configs.get_next_config()
    assert repr(values(bundle, bundle["instances"][0])) == repr(first["config"])
    assert bundle["instances"][0]["name"].isprintable()
