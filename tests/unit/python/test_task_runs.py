"""Configurations of GPUTaskScheduler with `gputui run`: finished tasks are kept, failed ones rerun."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from support.sessions import Session, said
from support.task_files import SAMPLE, SAMPLE_DIRECTORIES, TASK, one, write
from support.waiting import until


def directories(session: Session) -> list[str]:
    return sorted(os.listdir(session.directory / "results"))


def log(session: Session, directory: str) -> str:
    return (session.directory / "results" / directory / "worker.log").read_text()


def test_the_sample_configuration_runs_and_only_failed_tasks_rerun(session: Session) -> None:
    config = write(session.directory, config=SAMPLE, my_gpu_task=TASK)
    (session.directory / "broken").write_text("ALI")
    first = session.run(config, "--task", "my_gpu_task.MyGPUTask", gpus=None)
    assert first.returncode == 1
    assert "4 in config.py: 4 new." in first.stderr
    assert directories(session) == SAMPLE_DIRECTORIES
    assert log(session, SAMPLE_DIRECTORIES[1]).splitlines() == [
        "config: [('method', 'GAN'), ('num_epoch', 200), ('num_packing', 1), ('num_run', 5), ('num_zmode', 1)]",
        "a complaint",
    ]
    assert log(session, SAMPLE_DIRECTORIES[0]).endswith("ValueError: no such method\n")
    assert "gputui/python" not in log(session, SAMPLE_DIRECTORIES[0])
    assert [job.name for job in session.jobs() if job.state.name != "succeeded"] == [SAMPLE_DIRECTORIES[0]]
    assert session.jobs()[0].spec.params == {"method": "GAN", "num_packing": "1", "num_zmode": "1"}

    (session.directory / "broken").unlink()
    second = session.run(config, "--task", "my_gpu_task.MyGPUTask", gpus=None)
    assert second.returncode == 0
    assert "0 new, 3 done (kept), 1 failed (rerun)" in second.stderr
    assert "no such method" not in log(session, SAMPLE_DIRECTORIES[0])
    assert session.runs() == {name: 1 + (name == SAMPLE_DIRECTORIES[0]) for name in SAMPLE_DIRECTORIES}
    assert "4 done (kept)" in session.run(config, gpus=None).stderr
    assert session.runs().total() == 5


def test_the_scheduler_log_tells_when_and_where(session: Session) -> None:
    write(session.directory, config=one(test="'method': ['A', 'B']"), task=TASK)
    (session.directory / "broken").write_text("B")
    session.run("config.py", gpus=None)
    lines = (session.directory / "scheduler.log").read_text().splitlines()
    assert [line.partition(" INFO ")[2] for line in lines] == [
        "gpu0 receives task method-A,",
        "gpu0 finishes task method-A,",
        "gpu0 receives task method-B,",
        "gpu0 fails task method-B,: ValueError: no such method",
    ]


def test_slots_are_those_of_the_configuration_groups_and_repeats_included(session: Session) -> None:
    config = one("'gpu': ['0', '0', ['1', '2'], ''], 'scheduler_log_file_path': None", "'a': range(8)")
    write(session.directory, config=config, task=TASK)
    assert session.run("config.py", gpus=None).returncode == 0
    assert [slot.devices for slot in session.load().board.slots] == [("0",), ("0",), ("1", "2"), ("-1",)]
    used = {(session.directory / "results" / name / "result").read_text() for name in directories(session)}
    assert used <= {"0", "1,2", "-1"}
    assert session.runs() == {f"a-{number},": 1 for number in range(8)}
    assert not (session.directory / "scheduler.log").exists()


def test_a_flag_is_stronger_than_the_configurations_gpus(session: Session) -> None:
    write(session.directory, config=one(), task=TASK)
    assert session.run("config.py", gpus="cpu:2").returncode == 0
    assert [slot.kind for slot in session.load().board.slots] == ["cpu", "cpu"]


def test_directories_of_the_old_tool_are_skipped_with_a_notice(session: Session) -> None:
    write(session.directory, config=one(test="'a': [1, 2, 3]"), task=TASK)
    for name in ("a-1,", "a-2,"):
        (session.directory / "results" / name).mkdir(parents=True)
    done = session.run("config.py", gpus=None)
    assert done.returncode == 0
    assert "config.py: 2 result directories were not created by gputui; treated as done" in done.stderr
    assert "3 in config.py: 1 new, 2 existing (skipped)" in done.stderr
    assert session.runs() == {"a-3,": 1}


def test_force_rerun_in_the_configuration_runs_all_and_deletes_nothing(session: Session) -> None:
    write(session.directory, config=one("'force_rerun': True, 'log_file': 'again.log'", "'a': [1, 2]"), task=TASK)
    (session.directory / "results" / "a-1,").mkdir(parents=True)
    (session.directory / "results" / "a-1," / "worker.log").write_text("old")
    for _ in range(2):
        assert session.run("config.py", gpus=None).returncode == 0
    assert session.runs() == {"a-1,": 2, "a-2,": 2}
    assert log(session, "a-1,") == "old"
    assert (session.directory / "results" / "a-1," / "again.log").read_text().startswith("config: ")


def test_a_deleted_directory_is_asked_for_again(session: Session) -> None:
    write(session.directory, config=one(test="'a': [1, 2]"), task=TASK)
    session.run("config.py", gpus=None)
    for file in os.listdir(session.directory / "results" / "a-1,"):
        (session.directory / "results" / "a-1," / file).unlink()
    (session.directory / "results" / "a-1,").rmdir()
    assert "1 done (kept), 1 succeeded (rerun)" in session.run("config.py", gpus=None).stderr
    assert session.runs() == {"a-1,": 2, "a-2,": 1}


def test_a_fresh_session_keeps_what_an_earlier_one_did(session: Session) -> None:
    write(session.directory, config=one(test="'method': ['A', 'B']"), task=TASK)
    (session.directory / "broken").write_text("B")
    session.run("config.py", gpus=None)
    (session.directory / "broken").unlink()
    done = session.run("config.py", "--new", gpus=None)
    assert "2 in config.py: 1 new, 1 existing (skipped)" in done.stderr
    assert session.runs() == {"method-A,": 1, "method-B,": 2}


def test_a_task_killed_half_way_is_no_result(session: Session) -> None:
    task = TASK.replace("print(", "os.path.exists('quick') or __import__('time').sleep(600)\n        print(", 1)
    write(session.directory, config=one(), task=task)
    with session.running("config.py", gpus=None) as run:
        until(lambda: session.runs(), "the task runs")
        os.killpg(session.claim_pid(0), signal.SIGKILL)
        run.wait(60)
    (session.directory / "quick").touch()
    assert "1 lost (kept)" in session.run("config.py", gpus=None).stderr
    assert session.run("config.py", "--rerun-lost", gpus=None).returncode == 0
    assert session.runs().total() == 2


LIVE = """
import enum, random
class Colour(enum.Enum):
    RED = 1
class Scale:
    def __init__(self, by): self.by = by
    def __str__(self): return f"times{self.by}"
"""
SHOWS = """
import config
from gputui.tasks import GPUTask
class Shows(GPUTask):
    def main(self):
        assert isinstance(self._config["scale"], config.Scale), self._config
        assert self._config["colour"] is config.Colour.RED
        assert self._config["kind"] is config.Scale
        assert self._config["common"] == self._config["drawn"] or self._config["n"] is not None
        print("drawn", self._config["drawn"])
"""


def test_values_are_python_objects_as_they_were_when_loaded(session: Session) -> None:
    values = "'scale': [Scale(2)], 'n': range(2)"
    common = "'colour': Colour.RED, 'kind': Scale, 'common': None, 'drawn': random.random()"
    write(session.directory, config=LIVE + one(test=values, common=common), task=SHOWS)
    assert session.run("config.py", gpus=None).returncode == 0
    assert directories(session) == ["n-0,scale-times2,", "n-1,scale-times2,"]
    assert len({log(session, name) for name in directories(session)}) == 1


ENVIRONMENT = """
import os, random, sys
AT_IMPORT = os.environ.get("MINE")
from gputui.tasks import GPUTask
class Wants(GPUTask):
    def required_env(self):
        assert os.path.isdir(self._work_dir)
        with open("asked", "a") as file: file.write("x")
        self.drawn = str(random.random())
        return {"MINE": self.drawn, "CUDA_VISIBLE_DEVICES": "7", "PYTHONHASHSEED": "0"}
    def main(self):
        assert AT_IMPORT == os.environ["MINE"] == self.drawn
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
        assert os.environ["MPLBACKEND"] == "Agg"
        assert sys.flags.hash_randomization == 0
        assert not [name for name in os.environ if name.startswith("GPUTUI_TASK")]
"""


def test_variables_a_task_requires_are_there_before_anything_is_imported(session: Session) -> None:
    write(session.directory, config=one(), wants=ENVIRONMENT)
    done = session.run("config.py", gpus=None, env={"MPLBACKEND": "TkAgg"})
    assert done.returncode == 0, done.stdout
    assert (session.directory / "asked").read_text() == "x"


def test_files_for_the_old_tool_run_unchanged_and_load_the_class_only_in_jobs(session: Session) -> None:
    old = TASK.replace("gputui.tasks", "gpu_task_scheduler.gpu_task")
    task = "import os\nopen('loaded', 'a').write(os.environ['GPUTUI_JOB_ID'] + ' ')\n" + old
    write(session.directory, config=one(test="'a': [1, 2]"), my_task=task)
    assert session.run("config.py", "--task", "my_task.MyGPUTask", gpus=None).returncode == 0
    assert (session.directory / "loaded").read_text() == "0 1 "


def test_two_schedulers_do_not_work_in_one_directory(session: Session, tmp_path: Path) -> None:
    task = TASK.replace("print(", "while not os.path.exists('go'): __import__('time').sleep(0.01)\n        print(", 1)
    write(session.directory, config=one(), task=task)
    other = Session(tmp_path, "other")
    with session.running("config.py", gpus=None) as run:
        until(lambda: session.runs(), "the task runs")
        done = other.run("config.py", gpus=None)
        assert "1 existing (skipped)" in done.stderr
        (session.directory / "go").touch()
        assert run.wait(60) == 0
    assert session.runs().total() == 1


LEAVES = """
import sys
from gputui.tasks import GPUTask
class Leaves(GPUTask):
    def main(self):
        sys.exit(self._config["a"])
"""


def test_a_task_may_leave_by_sys_exit(session: Session) -> None:
    write(session.directory, config=one(test="'a': [0, 3]"), task=LEAVES)
    assert session.run("config.py", gpus=None).returncode == 1
    assert session.states() == ["succeeded", "failed"]
    assert session.last(1).exit_code == 3
    lines = (session.directory / "scheduler.log").read_text()
    assert "fails task a-3,: exit code 3" in lines


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config": "config = 3"}, "config.py: config is int, but must be a dictionary"),
        ({"config": "config = {'scheduler_config': {}, 'test_config': {}}"}, "test_config is dict, but must be"),
        ({"config": one(test="'a': 1")}, "config.py: TypeError: test_config: a is 1; use a list of values"),
        ({"config": one("'gpu': ['x']")}, "'x' is not a GPU"),
        ({"config": one("'log_file': 3")}, "log_file is 3, but must be a file name"),
        ({"config": one(), "a": TASK, "b": TASK}, ("several tasks found; choose one: --task a.MyGPUTask, --task "
                                                  "b.MyGPUTask")),
        ({"config": "x = 1"}, "config.py defines neither yielder() nor config"),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_one_sentence_and_nothing_is_created(
    session: Session, files: dict[str, str], words: str
) -> None:
    write(session.directory, **{"task": TASK, **files} if "a" not in files else files)
    done = session.run("config.py", gpus=None)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not session.root.exists()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("nowhere.MyTask", "module nowhere not found"),
        ("task.Mine", "task.py has no Mine; available: MyGPUTask"),
        ("MyTask", "use MODULE.CLASS"),
        ("a b.C", "use MODULE.CLASS"),
    ],
)
def test_a_missing_task_is_an_error_before_anything_runs(session: Session, task: str, words: str) -> None:
    write(session.directory, config=one(), task=TASK)
    done = session.run("config.py", "--task", task, gpus=None)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_task_runs_on_another_python_without_gputui(session: Session) -> None:
    """Its own directory stands in for an environment: nothing but the standard library is in it."""
    python = session.directory / "bare" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    write(session.directory, config=one(), task=TASK)
    done = session.run("config.py", gpus=None, env={"VIRTUAL_ENV": str(session.directory / "bare")})
    assert done.returncode == 0, done.stdout
    assert f"{python} " in session.jobs()[0].spec.command


def test_the_scheduler_log_tells_what_is_skipped(session: Session) -> None:
    config = write(session.directory, config=one(test="'method': ['A', 'B']"), task=TASK)
    assert session.run(config, gpus=None).returncode == 0
    log = session.directory / "scheduler.log"
    assert "skips" not in log.read_text()
    assert session.run(config, gpus=None).returncode == 0
    assert [line.partition(" INFO ")[2] for line in log.read_text().splitlines() if "skips" in line] == [
        "scheduler skips task method-A,",
        "scheduler skips task method-B,",
    ]
    assert session.run(config, "--force-rerun", gpus=None).returncode == 0
    assert log.read_text().count("skips") == 2


def test_a_temp_folder_is_ignored_with_a_notice(session: Session) -> None:
    config = write(session.directory, config=one("'temp_folder': 'mine'", "'a': [1]"), task=TASK)
    done = session.run(config, gpus=None)
    assert done.returncode == 0
    assert "task files are kept in the session" in done.stderr
    assert not (session.directory / "mine").exists()
    assert "temp_folder" not in session.run(write(session.directory, config=one(test="'a': [1]")), gpus=None).stderr


def test_the_error_for_a_script_with_a_guard_says_how_to_run_it(session: Session) -> None:
    main = (
        "if __name__ == '__main__':\n    from config import config\n    from gpu_task_scheduler.gpu_task_scheduler "
        "import GPUTaskScheduler\n    from my_gpu_task import MyGPUTask\n"
        "    s = GPUTaskScheduler(config=config, gpu_task_class=MyGPUTask)\n    s.start()\n"
    )
    script = write(session.directory, main=main, config=SAMPLE, my_gpu_task=TASK)
    done = session.run(script.name, gpus=None)
    assert done.returncode == 2
    assert said(done).endswith("gputui run config.py --task my_gpu_task.MyGPUTask")
    assert session.run("config.py", "--task", "my_gpu_task.MyGPUTask", gpus=None).returncode == 0
