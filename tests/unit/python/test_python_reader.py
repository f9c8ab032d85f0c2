"""Reading users' Python files in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputui.python.user_code.modules import USER_CODE
from gputui.sources.python_file import PythonFile, door
from gputui.sources.source import BadInput


def written(directory: Path, text: str, name: str = "file.py") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "defines"),
    [
        ("config = {}", ("config",)),
        ("def yielder(): yield 'true'", ("yielder",)),
        ("config = {'scheduler_config': {}}\nyielder = lambda: ()", ("config", "yielder")),
        ("config = 'any.yml'\nyielder = lambda: ()", ("yielder",)),
        ("x = 1", ()),
        ("if __name__ == '__main__':\n    1/0", ()),
    ],
)
def test_a_file_is_known_by_what_it_defines(tmp_path: Path, text: str, defines: tuple[str, ...]) -> None:
    with PythonFile(written(tmp_path, text)) as file:
        assert file.defines == defines


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\n1/0", "file.py, line 2: ZeroDivisionError: division by zero"),
        ("def broken(:\n", "file.py, line 1: SyntaxError: invalid syntax"),
        ("import nothing_of_this_name", "file.py, line 1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import sys; sys.exit(3)", "file.py, line 1: it called sys.exit(3) instead of defining anything"),
        ("import os; os._exit(7)", "the process reading it exited with status 7"),
        ("import os; os.kill(os.getpid(), 9)", "the process reading it was killed by signal 9"),
        ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "file.py, line 3: E"),
    ],
)
def test_what_goes_wrong_in_a_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        PythonFile(written(tmp_path, text))
    assert str(refused.value).endswith(sentence)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        PythonFile(str(tmp_path / "missing.py"))
    with pytest.raises(BadInput, match="is a directory"):
        PythonFile(str(tmp_path))


def test_it_sees_no_gpu_and_what_it_prints_is_no_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "import os\nprint('{\"ok\": 1}', repr(os.environ['CUDA_VISIBLE_DEVICES']))\nconfig = {}"
    with PythonFile(written(tmp_path, text)) as file:
        assert file.defines == ("config",)
    assert capfd.readouterr().err == "{\"ok\": 1} ''\n"


def test_a_file_named_like_a_standard_module_does_not_replace_it(tmp_path: Path) -> None:
    with PythonFile(written(tmp_path, "import json; json.dumps\nconfig = {}", "queue.py")) as file:
        assert file.defines == ("config",)


def test_nothing_is_left_of_a_reader(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))"
    before = set(os.listdir("/proc/self/fd"))
    PythonFile(written(tmp_path, text)).close()
    assert not os.path.exists(f"/proc/{mark.read_text()}")
    assert set(os.listdir("/proc/self/fd")) == before


def test_the_python_is_that_of_the_active_environment(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    ours = [sys.executable, "-P", "-m", "gputui.python.user_code"]
    assert door({"VIRTUAL_ENV": str(tmp_path)}) == [str(python), USER_CODE]
    assert door({"VIRTUAL_ENV": sys.prefix}) == ours
    assert door({}) == ours
    assert door({"CONDA_PREFIX": str(tmp_path), "CONDA_DEFAULT_ENV": "base"}) == ours
    assert door({"CONDA_PREFIX": str(tmp_path), "CONDA_DEFAULT_ENV": "torch"}) == [str(python), USER_CODE]
    assert door({"GPUTUI_PYTHON": "/opt/python"}) == ["/opt/python", USER_CODE]


def test_a_python_without_gputui_can_be_the_users(tmp_path: Path) -> None:
    """By path, and -S leaves out all that is installed."""
    path = written(tmp_path, "import gputui.python.user_code, sys\nassert 'site' not in sys.modules\nconfig = {}")
    (orders, no_orders), (answers, told) = os.pipe(), os.pipe()
    os.close(no_orders)
    command = [sys.executable, "-S", USER_CODE, "read", path, str(orders), str(told)]
    subprocess.run(command, pass_fds=(orders, told), timeout=60, check=True)
    os.close(told)
    os.close(orders)
    with open(answers) as heard:
        assert heard.read() == '{"ok": {"defines": ["config"]}}\n'
