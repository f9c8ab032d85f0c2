"""Scripts that call `GPUTaskScheduler(...).start()`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import Home
from support.task_files import SAMPLE, SAMPLE_DIRECTORIES, TASK, one, write
from support.waiting import until

from gputui.session.lock import OwnerKind

MAIN = """
from config import config
from my_gpu_task import MyGPUTask
from gputui.tasks import GPUTaskScheduler
scheduler = GPUTaskScheduler(config=config, gpu_task_class=MyGPUTask)
before = repr(config)
print("told:", scheduler.start(), scheduler.exit_status, before == repr(config))
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path, "gputui_run")
    yield home
    home.end()


def script(home: Home, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=home.directory,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_a_script_runs_its_tasks_and_leaves_a_session(home: Home) -> None:
    write(home.directory, main=MAIN, config=SAMPLE, my_gpu_task=TASK)
    (home.directory / "broken").write_text("ALI")
    first = script(home, "main.py")
    assert "told: None 1 True" in first.stdout
    assert sorted(os.listdir(home.directory / "results")) == SAMPLE_DIRECTORIES
    (home.directory / "broken").unlink()
    assert "told: None 0 True" in script(home, "main.py").stdout
    assert home.runs() == {name: 1 + (name == SAMPLE_DIRECTORIES[0]) for name in SAMPLE_DIRECTORIES}
    assert home.states() == ["succeeded"] * 4
    home.gone()


def test_two_classes_in_the_script_itself_are_found_with_a_guard_and_without(home: Home) -> None:
    two = TASK + "from gputui.tasks import GPUTaskScheduler\n" + one(test="'a': [1]")
    two += "GPUTaskScheduler(config, MyGPUTask).start()\n"
    two += one(test="'b': [1]") + "class Other(MyGPUTask): pass\n"
    two += "if __name__ == '__main__':\n    GPUTaskScheduler(config, Other).start()\n"
    write(home.directory, main=two)
    assert script(home, "main.py").returncode == 0
    assert home.runs() == {"a-1,": 1, "b-1,": 1}


def test_a_module_of_a_package_runs_with_its_relative_imports(home: Home) -> None:
    package = home.directory / "scripts" / "dns"
    package.mkdir(parents=True)
    write(package, __init__="", task=TASK, config=one(test="'a': [1]"))
    main = MAIN.replace("from config", "from .config").replace("from my_gpu_task", "from .task")
    write(package, main=main)
    done = script(home, "-m", "scripts.dns.main")
    assert "told: None 0" in done.stdout, done.stderr
    assert home.runs() == {"a-1,": 1}


def test_a_killed_script_loses_no_task(home: Home) -> None:
    task = TASK.replace("print(", "while not os.path.exists('go'): __import__('time').sleep(0.01)\n        print(", 1)
    write(home.directory, main=MAIN, config=one(test="'a': [1, 2]"), my_gpu_task=task)
    process = subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=home.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: home.runs(), "the first task runs")
    os.killpg(process.pid, signal.SIGKILL)  # the script and its gputui run
    process.wait()
    (home.directory / "go").touch()
    until(lambda: home.runs() == {"a-1,": 1, "a-2,": 1}, "the daemon has started the second")
    home.gone("all is done and the daemon has left")
    assert home.states() == ["succeeded", "succeeded"]


def test_a_request_to_end_is_passed_on(home: Home) -> None:
    task = TASK.replace("print(", "__import__('time').sleep(600)\n        print(", 1)
    write(home.directory, main=MAIN, config=one("'gpu': ['0', '0']", "'a': [1, 2, 3]"), my_gpu_task=task)
    process = subprocess.Popen([sys.executable, "main.py"], cwd=home.directory, stdout=subprocess.PIPE, text=True)
    until(lambda: len(home.runs()) == 2, "two tasks run")
    process.terminate()
    assert "told: None 143" in process.communicate(timeout=60)[0]
    home.gone()
    assert home.states() == ["queued"] * 3


def test_a_class_that_no_job_could_find_is_an_error(home: Home) -> None:
    write(home.directory, config=one())
    code = "from config import config\nfrom gputui.tasks import *\nclass T(GPUTask): pass\n"
    done = script(home, "-c", code + "GPUTaskScheduler(config, T).start()")
    assert "put it in a file" in done.stderr.splitlines()[-1]


def test_importing_the_interface_is_cheap(home: Home) -> None:
    code = "import gputui.tasks, sys; print({'msgspec', 'textual', 'asyncio', 'sqlite3'} & set(sys.modules))"
    assert script(home, "-c", code).stdout == "set()\n"


def test_scripts_side_by_side_share_a_session_only_when_they_name_the_same_gpus(home: Home) -> None:
    waits = "while not os.path.exists('gate'): time.sleep(0.01)"
    task = "import time\n" + TASK.replace("def main(self):", f"def main(self):\n        {waits}")
    task += "from gputui.tasks import GPUTaskScheduler\n"
    start = "s = GPUTaskScheduler(config, MyGPUTask)\ns.start()\nprint('told:', s.exit_status)\n"
    for name, gpu, letter in (("first", 0, "a"), ("other", 1, "b"), ("same", 0, "c")):
        write(home.directory, **{name: task + one(f"'gpu': ['{gpu}']", f"'{letter}': [1]") + start})
    first = subprocess.Popen([sys.executable, "first.py"], cwd=home.directory, stdin=subprocess.DEVNULL)
    try:
        home.owner(OwnerKind.RUN)
        other = script(home, "other.py")
        assert "NothingRan: none of " in other.stderr
        assert "with other slots" in other.stderr
        assert "GPUTUI_OUTPUT_DIR" in other.stderr
        (home.directory / "gate").touch()
        assert "told: 0" in script(home, "same.py").stdout
    finally:
        (home.directory / "gate").touch()
        assert first.wait(60) == 0
    assert home.runs() == {"a-1,": 1, "c-1,": 1}


CRASHING = """
from gputui.tasks import GPUTask, GPUTaskScheduler


class MyGPUTask(GPUTask):
    def main(self):
        with open("ran", "a") as file:
            file.write("x\\n")
        raise RuntimeError("wrong shape")


if __name__ == "__main__":
    scheduler = GPUTaskScheduler(config, MyGPUTask)
    scheduler.start()
    print("told:", scheduler.exit_status, scheduler.failed, scheduler.not_run)
"""


def test_all_instances_are_run_although_all_fail(home: Home) -> None:
    for number, count in enumerate((8, 3)):
        write(home.directory, **{f"main{number}": one(test=f"'n': list(range({count})), 'k': [{number}]") + CRASHING})
        done = script(home, f"main{number}.py")
        assert f"told: 1 {count} 0" in done.stdout
        assert f"{count} of {count} jobs failed" in done.stderr
    assert home.runs() == {"x": 11}


def test_a_configuration_of_which_nothing_can_be_run_raises(home: Home) -> None:
    write(home.directory, main=one(test="'n': [1, 2]") + CRASHING)
    (home.directory / "gputui.toml").write_text("probe = 'never'\n")
    done = script(home, "main.py")
    assert done.returncode == 1
    assert "NothingRan: none of 2 tasks could be run; see the output of gputui run" in done.stderr
    assert "invalid probe" in done.stderr
