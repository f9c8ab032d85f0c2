"""The files of a user of GPUTaskScheduler: its document's sample configuration and a task that can be made to fail."""

from __future__ import annotations

from pathlib import Path

SAMPLE = """
config = {
    "scheduler_config": {
        "gpu": ["0", "1", "2"]
    },

    "global_config": {
        "num_run": 5,
        "num_epoch": 200,
    },

    "test_config": [
        {
            "method": ["GAN", "ALI"],
            "num_packing": [1],
            "num_zmode": [1]
        },
        {
            "method": ["WGAN"],
            "num_packing": [3],
            "num_zmode": [1, 2]
        }
    ]
}
"""
SAMPLE_DIRECTORIES = [
    "method-ALI,num_packing-1,num_zmode-1,",
    "method-GAN,num_packing-1,num_zmode-1,",
    "method-WGAN,num_packing-3,num_zmode-1,",
    "method-WGAN,num_packing-3,num_zmode-2,",
]

TASK = """
import os
import sys
from gputui.tasks import GPUTask


class MyGPUTask(GPUTask):
    def main(self):
        with open("ran", "a") as file:
            file.write(os.path.basename(os.path.abspath(self._work_dir)) + "\\n")
        print("config:", sorted(self._config.items()))
        print("a complaint", file=sys.stderr)
        if os.path.exists("broken") and self._config.get("method") in open("broken").read():
            raise ValueError("no such method")
        with open(os.path.join(self._work_dir, "result"), "w") as file:
            file.write(os.environ["CUDA_VISIBLE_DEVICES"])
"""


def write(directory: Path, **files: str) -> Path:
    """`name=text` becomes `name.py`; the path of the first."""
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return directory / f"{next(iter(files))}.py"


def one(scheduler: str = "", test: str = "", common: str = "") -> str:
    """A small configuration, from the insides of its dictionaries."""
    return (
        f"config = {{'scheduler_config': {{'gpu': ['0'], {scheduler}}}, 'global_config': {{{common}}}, "
        f"'test_config': [{{{test}}}]}}\n"
    )
