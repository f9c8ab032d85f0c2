"""Plain scripts of users: they change one import, and `start` is `gputui run`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.homes import Home
from support.task_files import SAMPLE, SAMPLE_FOLDERS, TASK, one, write
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
        [sys.executable, *words], cwd=home.folder, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def test_a_script_runs_its_tasks_and_leaves_a_session(home: Home) -> None:
    write(home.folder, main=MAIN, config=SAMPLE, my_gpu_task=TASK)
    (home.folder / "broken").write_text("ALI")
    first = script(home, "main.py")
    assert "told: None 1 True" in first.stdout
    assert sorted(os.listdir(home.folder / "results")) == SAMPLE_FOLDERS
    (home.folder / "broken").unlink()
    assert "told: None 0 True" in script(home, "main.py").stdout
    assert home.runs() == {name: 1 + (name == SAMPLE_FOLDERS[0]) for name in SAMPLE_FOLDERS}
    assert home.states() == ["succeeded"] * 4
    home.gone()


def test_a_class_in_the_script_itself_is_found_with_a_guard_and_without(home: Home) -> None:
    script_with_class = TASK + one(test="'a': [1, 2]") + "from gputui.tasks import GPUTaskScheduler\n"
    start = "GPUTaskScheduler(config, MyGPUTask).start(); open('after', 'a').write('x')\n"
    write(home.folder, guarded=f"{script_with_class}if __name__ == '__main__':\n    {start}")
    write(home.folder, bare=script_with_class.replace("[1, 2]", "[3]") + start)
    assert script(home, "guarded.py").returncode == 0
    assert script(home, "bare.py").returncode == 0
    assert home.runs() == {"a-1,": 1, "a-2,": 1, "a-3,": 1}
    assert (home.folder / "after").read_text() == "xx"


def test_the_second_of_two_classes_in_a_script_is_found_behind_the_first_start(home: Home) -> None:
    two = TASK + "from gputui.tasks import GPUTaskScheduler\n" + one(test="'a': [1]")
    two += "GPUTaskScheduler(config, MyGPUTask).start()\n"
    two += one(test="'b': [1]") + "class Other(MyGPUTask): pass\nGPUTaskScheduler(config, Other).start()\n"
    write(home.folder, main=two)
    assert script(home, "main.py").returncode == 0
    assert home.runs() == {"a-1,": 1, "b-1,": 1}


def test_a_module_of_a_package_runs_with_its_relative_imports(home: Home) -> None:
    package = home.folder / "scripts" / "dns"
    package.mkdir(parents=True)
    write(package, __init__="", task=TASK, config=one(test="'a': [1]"))
    main = MAIN.replace("from config", "from .config").replace("from my_gpu_task", "from .task")
    write(package, main=main)
    done = script(home, "-m", "scripts.dns.main")
    assert "told: None 0" in done.stdout, done.stderr
    assert home.runs() == {"a-1,": 1}


def test_a_killed_script_loses_no_task(home: Home) -> None:
    task = TASK.replace("print(", "while not os.path.exists('go'): __import__('time').sleep(0.01)\n        print(", 1)
    write(home.folder, main=MAIN, config=one(test="'a': [1, 2]"), my_gpu_task=task)
    process = subprocess.Popen(
        [sys.executable, "main.py"],
        cwd=home.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: home.runs(), "the first task runs")
    os.killpg(process.pid, signal.SIGKILL)  # the script and its gputui run
    process.wait()
    (home.folder / "go").touch()
    until(lambda: home.runs() == {"a-1,": 1, "a-2,": 1}, "the keeper has started the second")
    home.gone("all is done and the keeper has left")
    assert home.states() == ["succeeded", "succeeded"]


def test_a_request_to_end_is_passed_on(home: Home) -> None:
    task = TASK.replace("print(", "__import__('time').sleep(600)\n        print(", 1)
    write(home.folder, main=MAIN, config=one("'gpu': ['0', '0']", "'a': [1, 2, 3]"), my_gpu_task=task)
    process = subprocess.Popen([sys.executable, "main.py"], cwd=home.folder, stdout=subprocess.PIPE, text=True)
    until(lambda: len(home.runs()) == 2, "two tasks run")
    process.terminate()
    assert "told: None 143" in process.communicate(timeout=60)[0]
    home.gone()
    assert home.states() == ["queued"] * 3


def test_the_scheduler_imports_nothing_of_the_scripts(home: Home) -> None:
    write(home.folder, main="import colorsys\n" + MAIN, config=one(), my_gpu_task=TASK)
    (home.folder / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "if 'run' in sys.orig_argv:\n"
        "    atexit.register(lambda: open('loaded', 'w').write(str('colorsys' in sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=home.folder,
        env={**os.environ, "PYTHONPATH": str(home.folder)},
        timeout=120,
        check=True,
        capture_output=True,
    )
    assert b"told: None 0" in done.stdout
    assert (home.folder / "loaded").read_text() == "False"


def test_what_no_job_could_find_is_said(home: Home) -> None:
    write(home.folder, config=one())
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
        write(home.folder, **{name: task + one(f"'gpu': ['{gpu}']", f"'{letter}': [1]") + start})
    first = subprocess.Popen([sys.executable, "first.py"], cwd=home.folder, stdin=subprocess.DEVNULL)
    try:
        home.owner(OwnerKind.RUN)
        other = script(home, "other.py")
        assert "NothingRan: none of the tasks (1) could be run" in other.stderr
        assert "with other lanes" in other.stderr
        assert "GPUTUI_OUTPUT_DIR" in other.stderr
        (home.folder / "gate").touch()
        assert "told: 0" in script(home, "same.py").stdout
    finally:
        (home.folder / "gate").touch()
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


@pytest.mark.parametrize(
    "instances", [pytest.param([8, 3], id="some"), pytest.param([40, 10, 10], id="many", marks=pytest.mark.long)]
)
def test_configurations_whose_instances_all_crash_are_all_run_and_told(home: Home, instances: list[int]) -> None:
    for number, count in enumerate(instances):
        write(home.folder, **{f"main{number}": one(test=f"'n': list(range({count})), 'k': [{number}]") + CRASHING})
        done = script(home, f"main{number}.py")
        assert f"told: 1 {count} 0" in done.stdout
        assert f"{count} of {count} jobs failed" in done.stderr
    assert home.runs() == {"x": sum(instances)}


def test_a_configuration_of_which_nothing_can_be_run_raises(home: Home) -> None:
    write(home.folder, main=one(test="'n': [1, 2]") + CRASHING)
    (home.folder / "gputui.toml").write_text("probe = 'never'\n")
    done = script(home, "main.py")
    assert done.returncode == 1
    assert "NothingRan: none of the tasks (2) could be run: gputui run has said why" in done.stderr
    assert "'never' is no time to wait" in done.stderr
