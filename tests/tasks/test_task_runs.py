"""Configurations of GPUTaskScheduler run by `gputui run`: what is done is kept, what failed is rerun."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sessions import Session, said
from support.task_files import SAMPLE, SAMPLE_FOLDERS, TASK, one, write
from support.waiting import until


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path)
    yield session
    session.sweep()


def folders(session: Session) -> list[str]:
    return sorted(os.listdir(session.folder / "results"))


def log(session: Session, folder: str) -> str:
    return (session.folder / "results" / folder / "worker.log").read_text()


def test_the_sample_configuration_runs_and_only_what_crashed_runs_again(session: Session) -> None:
    config = write(session.folder, config=SAMPLE, my_gpu_task=TASK)
    (session.folder / "broken").write_text("ALI")
    first = session.run(config, "--task", "my_gpu_task.MyGPUTask", gpus=None)
    assert first.returncode == 1
    assert "4 in config.py: 4 new." in first.stderr
    assert folders(session) == SAMPLE_FOLDERS
    assert log(session, SAMPLE_FOLDERS[1]).splitlines() == [
        "config: [('method', 'GAN'), ('num_epoch', 200), ('num_packing', 1), ('num_run', 5), ('num_zmode', 1)]",
        "a complaint",
    ]
    assert log(session, SAMPLE_FOLDERS[0]).endswith("ValueError: no such method\n")
    assert "gputui/python" not in log(session, SAMPLE_FOLDERS[0])
    assert [job.name for job in session.jobs() if job.state.name != "succeeded"] == [SAMPLE_FOLDERS[0]]
    assert session.jobs()[0].spec.params == {"method": "GAN", "num_packing": "1", "num_zmode": "1"}

    (session.folder / "broken").unlink()
    second = session.run(config, "--task", "my_gpu_task.MyGPUTask", gpus=None)
    assert second.returncode == 0
    assert "0 new, 3 done (kept), 1 failed (rerun)" in second.stderr
    assert "no such method" not in log(session, SAMPLE_FOLDERS[0])
    assert session.runs() == {name: 1 + (name == SAMPLE_FOLDERS[0]) for name in SAMPLE_FOLDERS}
    assert "4 done (kept)" in session.run(config, gpus=None).stderr
    assert session.runs().total() == 5


def test_the_scheduler_log_tells_when_and_where(session: Session) -> None:
    write(session.folder, config=one(test="'method': ['A', 'B']"), task=TASK)
    (session.folder / "broken").write_text("B")
    session.run("config.py", gpus=None)
    lines = (session.folder / "scheduler.log").read_text().splitlines()
    assert [line.partition(" INFO ")[2] for line in lines] == [
        "gpu0 receives task method-A,",
        "gpu0 finishes task method-A,",
        "gpu0 receives task method-B,",
        "gpu0 fails task method-B,: ValueError: no such method",
    ]


def test_lanes_are_those_of_the_configuration_groups_and_repeats_included(session: Session) -> None:
    config = one("'gpu': ['0', '0', ['1', '2'], ''], 'scheduler_log_file_path': None", "'a': range(8)")
    write(session.folder, config=config, task=TASK)
    assert session.run("config.py", gpus=None).returncode == 0
    assert [lane.devices for lane in session.load().board.lanes] == [("0",), ("0",), ("1", "2"), ("-1",)]
    used = {(session.folder / "results" / name / "result").read_text() for name in folders(session)}
    assert used <= {"0", "1,2", "-1"}
    assert session.runs() == {f"a-{number},": 1 for number in range(8)}
    assert not (session.folder / "scheduler.log").exists()


def test_a_flag_is_stronger_than_the_configurations_gpus(session: Session) -> None:
    write(session.folder, config=one(), task=TASK)
    assert session.run("config.py", gpus="cpu:2").returncode == 0
    assert [lane.kind for lane in session.load().board.lanes] == ["cpu", "cpu"]


def test_folders_of_the_old_tool_are_skipped_and_said(session: Session) -> None:
    write(session.folder, config=one(test="'a': [1, 2, 3]"), task=TASK)
    for name in ("a-1,", "a-2,"):
        (session.folder / "results" / name).mkdir(parents=True)
    done = session.run("config.py", gpus=None)
    assert done.returncode == 0
    assert "config.py: 2 result folders were not made by gputui; what is there counts as done" in done.stderr
    assert "3 in config.py: 1 new, 2 there before (skipped)" in done.stderr
    assert session.runs() == {"a-3,": 1}


def test_force_rerun_in_the_configuration_runs_all_and_deletes_nothing(session: Session) -> None:
    write(session.folder, config=one("'force_rerun': True, 'log_file': 'again.log'", "'a': [1, 2]"), task=TASK)
    (session.folder / "results" / "a-1,").mkdir(parents=True)
    (session.folder / "results" / "a-1," / "worker.log").write_text("old")
    for _ in range(2):
        assert session.run("config.py", gpus=None).returncode == 0
    assert session.runs() == {"a-1,": 2, "a-2,": 2}
    assert log(session, "a-1,") == "old"
    assert (session.folder / "results" / "a-1," / "again.log").read_text().startswith("config: ")


def test_a_deleted_folder_is_asked_for_again(session: Session) -> None:
    write(session.folder, config=one(test="'a': [1, 2]"), task=TASK)
    session.run("config.py", gpus=None)
    for file in os.listdir(session.folder / "results" / "a-1,"):
        (session.folder / "results" / "a-1," / file).unlink()
    (session.folder / "results" / "a-1,").rmdir()
    assert "1 done (kept), 1 succeeded (rerun)" in session.run("config.py", gpus=None).stderr
    assert session.runs() == {"a-1,": 2, "a-2,": 1}


def test_a_fresh_session_keeps_what_an_earlier_one_did(session: Session) -> None:
    write(session.folder, config=one(test="'method': ['A', 'B']"), task=TASK)
    (session.folder / "broken").write_text("B")
    session.run("config.py", gpus=None)
    (session.folder / "broken").unlink()
    done = session.run("config.py", "--new", gpus=None)
    assert "2 in config.py: 1 new, 1 there before (skipped)" in done.stderr
    assert session.runs() == {"method-A,": 1, "method-B,": 2}


def test_a_task_killed_half_way_is_no_result(session: Session) -> None:
    task = TASK.replace("print(", "os.path.exists('quick') or __import__('time').sleep(600)\n        print(", 1)
    write(session.folder, config=one(), task=task)
    with session.running("config.py", gpus=None) as run:
        until(lambda: session.runs(), "the task runs")
        os.killpg(session.claim_pid(0), signal.SIGKILL)
        run.wait(60)
    (session.folder / "quick").touch()
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


def test_values_are_live_python_and_as_they_were_when_they_were_loaded(session: Session) -> None:
    values = "'scale': [Scale(2)], 'n': range(2)"
    common = "'colour': Colour.RED, 'kind': Scale, 'common': None, 'drawn': random.random()"
    write(session.folder, config=LIVE + one(test=values, common=common), task=SHOWS)
    assert session.run("config.py", gpus=None).returncode == 0
    assert folders(session) == ["n-0,scale-times2,", "n-1,scale-times2,"]
    assert len({log(session, name) for name in folders(session)}) == 1


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
    write(session.folder, config=one(), wants=ENVIRONMENT)
    done = session.run("config.py", gpus=None, env={"MPLBACKEND": "TkAgg"})
    assert done.returncode == 0, done.stdout
    assert (session.folder / "asked").read_text() == "x"


def test_the_class_is_loaded_in_the_jobs_process_alone(session: Session) -> None:
    task = "import os\nopen('loaded', 'a').write(os.environ['GPUTUI_JOB_ID'] + ' ')\n" + TASK
    write(session.folder, config=one(test="'a': [1, 2]"), my_task=task)
    assert session.run("config.py", "--task", "my_task.MyGPUTask", gpus=None).returncode == 0
    assert (session.folder / "loaded").read_text() == "0 1 "


def test_files_written_for_the_old_tool_run_as_they_are(session: Session) -> None:
    task = TASK.replace("gputui.tasks", "gpu_task_scheduler.gpu_task")
    write(session.folder, config=one(), my_task=task)
    assert session.run("config.py", gpus=None).returncode == 0


def test_two_schedulers_do_not_work_in_one_folder(session: Session, tmp_path: Path) -> None:
    task = TASK.replace("print(", "while not os.path.exists('go'): __import__('time').sleep(0.01)\n        print(", 1)
    write(session.folder, config=one(), task=task)
    other = Session(tmp_path, "other")
    with session.running("config.py", gpus=None) as run:
        until(lambda: session.runs(), "the task runs")
        done = other.run("config.py", gpus=None)
        assert "1 there before (skipped)" in done.stderr
        (session.folder / "go").touch()
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
    write(session.folder, config=one(test="'a': [0, 3]"), task=LEAVES)
    assert session.run("config.py", gpus=None).returncode == 1
    assert session.states() == ["succeeded", "failed"]
    assert session.last(1).exit_code == 3
    lines = (session.folder / "scheduler.log").read_text()
    assert "fails task a-3,: exit code 3" in lines


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config": "config = 3"}, "config.py: config is int, and should be a dictionary"),
        ({"config": "config = {}"}, "config.py: ValueError: could not find scheduler_config in config"),
        ({"config": "config = {'scheduler_config': {}, 'test_config': {}}"}, "test_config is dict, and should be"),
        ({"config": one(test="'a': 1")}, "config.py: TypeError: test_config: a is 1; give a list of the values"),
        ({"config": one(common="'f': lambda: 0")}, "config.py: global_config: f cannot be passed to a task"),
        ({"config": one("'gpu': ['x']")}, "'x' is not a GPU"),
        ({"config": one("'log_file': 3")}, "log_file is 3, and should be the name of a file"),
        ({"config": one(), "a": TASK, "b": TASK}, "which task? Give one of --task a.MyGPUTask, --task b.MyGPUTask"),
        ({"config": "x = 1"}, "config.py defines neither yielder() nor config"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_is_one_sentence_and_nothing_is_made(
    session: Session, files: dict[str, str], words: str
) -> None:
    write(session.folder, **{"task": TASK, **files} if "a" not in files else files)
    done = session.run("config.py", gpus=None)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not session.root.exists()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("nowhere.MyTask", "there is no module nowhere"),
        ("task.Mine", "task.py has no Mine; it has MyGPUTask"),
        ("MyTask", "is no MODULE.CLASS"),
        ("a b.C", "is no MODULE.CLASS"),
    ],
)
def test_a_task_that_is_not_there_is_said_before_anything_runs(session: Session, task: str, words: str) -> None:
    write(session.folder, config=one(), task=TASK)
    done = session.run("config.py", "--task", task, gpus=None)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_task_runs_on_another_python_without_gputui(session: Session) -> None:
    """Its own folder stands in for an environment: nothing but the standard library is in it."""
    python = session.folder / "bare" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    write(session.folder, config=one(), task=TASK)
    done = session.run("config.py", gpus=None, env={"VIRTUAL_ENV": str(session.folder / "bare")})
    assert done.returncode == 0, done.stdout
    assert f"{python} " in session.jobs()[0].spec.command


def test_the_scheduler_log_tells_what_is_skipped(session: Session) -> None:
    config = write(session.folder, config=one(test="'method': ['A', 'B']"), task=TASK)
    assert session.run(config, gpus=None).returncode == 0
    log = session.folder / "scheduler.log"
    assert "skips" not in log.read_text()
    assert session.run(config, gpus=None).returncode == 0
    assert [line.partition(" INFO ")[2] for line in log.read_text().splitlines() if "skips" in line] == [
        "scheduler skips task method-A,",
        "scheduler skips task method-B,",
    ]
    assert session.run(config, "--force-rerun", gpus=None).returncode == 0
    assert log.read_text().count("skips") == 2


def test_a_temp_folder_is_said_to_be_of_no_use(session: Session) -> None:
    config = write(session.folder, config=one("'temp_folder': 'mine'", "'a': [1]"), task=TASK)
    done = session.run(config, gpus=None)
    assert done.returncode == 0
    assert "temp_folder is not used" in done.stderr
    assert not (session.folder / "mine").exists()
    assert "temp_folder" not in session.run(write(session.folder, config=one(test="'a': [1]")), gpus=None).stderr


def test_no_instances_are_refused_with_what_to_write_instead(session: Session) -> None:
    config = write(session.folder, config=one().replace("[{}]", "[]"), task=TASK)
    done = session.run(config, gpus=None)
    assert done.returncode == 2
    assert "write [{}], for one task with the global values" in said(done)


@pytest.mark.parametrize(
    "named", ["config=config, gpu_task_class=MyGPUTask", "config, MyGPUTask"], ids=["words", "places"]
)
def test_a_script_that_does_all_behind_its_guard_is_told_how_to_run(session: Session, named: str) -> None:
    main = (
        "if __name__ == '__main__':\n    from config import config\n    from gpu_task_scheduler.gpu_task_scheduler "
        "import GPUTaskScheduler\n    from my_gpu_task import MyGPUTask\n"
        f"    s = GPUTaskScheduler({named})\n    s.start()\n"
    )
    script = write(session.folder, main=main, config=SAMPLE, my_gpu_task=TASK)
    done = session.run(script.name, gpus=None)
    assert done.returncode == 2
    assert said(done).endswith("gputui run config.py --task my_gpu_task.MyGPUTask")
    assert session.run("config.py", "--task", "my_gpu_task.MyGPUTask", gpus=None).returncode == 0
