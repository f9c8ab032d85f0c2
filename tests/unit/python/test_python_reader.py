"""Reading users' Python files in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.python.user_code.modules import USER_CODE
from gputui.sources.source import BadInput
from gputui.sources.task_config import read_task_config
from gputui.sources.yielder import door_of, python_of


def written(directory: Path, text: str, name: str = "file.py") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


CONFIG = "config = {'scheduler_config': {'gpu': ['0']}, 'global_config': {'a': 1}}\n"
TASK = "from gputui.tasks import GPUTask\nclass T(GPUTask): pass\n"


@pytest.mark.parametrize("text", ["x = 1", "yielder = lambda: ()", "if __name__ == '__main__':\n    1/0"])
def test_a_file_without_a_configuration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"file\.py defines no config"):
        read_task_config(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n1/0", "file.py, line 2: ZeroDivisionError: division by zero"),
        ("def broken(:\n", "file.py, line 1: SyntaxError: invalid syntax"),
        ("import nothing_of_this_name", "file.py, line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys; sys.exit(3)", "file.py, line 1: it called sys.exit(3)"),
        ("import os; os._exit(7)", "the process reading it exited with status 7"),
        ("import os; os.kill(os.getpid(), 9)", "the process reading it was killed by signal 9"),
        ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "file.py, line 3: E"),
    ],
)
def test_what_goes_wrong_in_a_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_task_config(written(tmp_path, text))
    assert str(refused.value).endswith(sentence)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_task_config(str(tmp_path / "missing.py"))
    with pytest.raises(BadInput, match="is a directory"):
        read_task_config(str(tmp_path))


def test_it_sees_no_gpu_and_what_it_prints_is_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "import os\nprint('{\"ok\": 1}', repr(os.environ['CUDA_VISIBLE_DEVICES']))\n"
    assert read_task_config(written(tmp_path, text + CONFIG + TASK)).target == "file.T"
    assert capfd.readouterr().err == "{\"ok\": 1} ''\n"


def test_a_file_named_like_a_standard_module_does_not_replace_it(tmp_path: Path) -> None:
    path = written(tmp_path, "import json; json.dumps\n" + CONFIG + TASK, "queue.py")
    assert read_task_config(path).target == "queue_of_user.T"


def test_a_thread_that_the_file_starts_is_not_waited_for(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    text = "import threading, time\nthreading.Thread(target=time.sleep, args=[600]).start()\n"
    assert len(read_task_config(written(tmp_path, text + CONFIG + TASK)).instances) == 1
    assert set(os.listdir("/proc/self/fd")) == before


def test_the_python_is_that_of_the_active_environment(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    ours = [sys.executable, "-P", "-m", "gputui.python.user_code"]
    assert door_of(python_of({"VIRTUAL_ENV": str(tmp_path)})) == [str(python), USER_CODE]
    assert door_of(python_of({"VIRTUAL_ENV": sys.prefix})) == ours
    assert door_of(python_of({})) == ours
    assert door_of(python_of({"CONDA_PREFIX": str(tmp_path), "CONDA_DEFAULT_ENV": "base"})) == ours
    assert door_of(python_of({"CONDA_PREFIX": str(tmp_path), "CONDA_DEFAULT_ENV": "torch"})) == [str(python), USER_CODE]
    assert door_of(python_of({"GPUTUI_PYTHON": "/opt/python"})) == ["/opt/python", USER_CODE]


def test_a_python_without_gputui_can_be_the_users(tmp_path: Path) -> None:
    """By path, and -S leaves out all that is installed."""
    imports = "import gputui.python.user_code, sys\nassert 'site' not in sys.modules\n"
    path = written(tmp_path, imports + CONFIG)
    with open(tmp_path / "answer", "w+") as answer:
        command = [sys.executable, "-S", USER_CODE, "read", path, "json.JSONDecoder", str(answer.fileno())]
        subprocess.run(command, pass_fds=[answer.fileno()], timeout=60, check=True)
        answer.seek(0)
        assert json.load(answer)["ok"]["task"]["name"] == "JSONDecoder"
