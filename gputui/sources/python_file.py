"""A user's Python file, loaded in a separate process that sees no GPU."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from gputui.python.user_code.modules import USER_CODE

from .command_list import unreadable
from .source import BadInput, shown
from .yielder import python_of


class PythonFile:
    """A process that has loaded the file. The constructor raises BadInput if loading fails."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            with open(path, "rb"):
                pass
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from None
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        try:
            self._child = subprocess.Popen(
                [*door(), "read", path, str(orders), str(answers)],
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=(orders, answers),
            )
        except OSError as error:
            self._close_pipes()
            raise BadInput(f"cannot read {shown(path)}: {door()[0]}: {error.strerror}") from None
        finally:
            os.close(orders)
            os.close(answers)
        self._reader = open(self._answers, "rb")  # noqa: SIM115  # closed by close()
        try:
            self.defines: tuple[str, ...] = tuple(self._answer()["defines"])
            """Which of `config` and `yielder` the file defines."""
        except BaseException:
            self.close()
            raise

    def ask(self, order: str, **fields: Any) -> Any:
        """Send an order to the process and return its answer. Raise BadInput if the file's code fails."""
        with suppress(BrokenPipeError):
            os.write(self._orders, json.dumps({"do": order, **fields}).encode() + b"\n")
        return self._answer()

    def _answer(self) -> Any:
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            code = self._child.wait()
            end = f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
            raise BadInput(f"{shown(self.path)}: the process reading it {end}")
        answer = json.loads(line)
        if "error" in answer:
            raise BadInput(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """Kill the process."""
        self._close_pipes()
        self._child.kill()
        self._child.wait()

    def _close_pipes(self) -> None:
        os.close(self._orders)
        if hasattr(self, "_reader"):
            self._reader.close()
        else:
            os.close(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def door(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command that runs gputui's `user_code` module in the user's Python."""
    return door_of(python_of(environment))


def door_of(python: str) -> list[str]:
    """Return the command that runs gputui's `user_code` module in the given Python.

    A Python other than ours may not have gputui installed, so it gets the path of the module.
    """
    return [python, "-P", "-m", "gputui.python.user_code"] if python == sys.executable else [python, USER_CODE]


def advice(path: str) -> str:
    """Return the error message for a file that defines no config when it is loaded."""
    name = shown(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return f"{name} defines no config"
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    origins = {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}
    module = origins.get("config")
    task = _task(tree, origins)
    if task is None and module is None:
        return f"{name} defines no config"
    file_name = os.path.join(os.path.dirname(path), *(module or "config").split(".")) + ".py"
    return f"{name} creates its config only when run directly: gputui run {shown(file_name)} --task {task or 'CLASS'}"


def _task(tree: ast.Module, origins: dict[str, str]) -> str | None:
    """Return the task class that the file passes to GPUTaskScheduler, in the form expected by --task."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "GPUTaskScheduler":
            class_arguments = [
                keyword.value for keyword in node.keywords if keyword.arg == "gpu_task_class"
            ] or node.args[1:2]
            if class_arguments and isinstance(class_arguments[0], ast.Name) and class_arguments[0].id in origins:
                return f"{origins[class_arguments[0].id]}.{class_arguments[0].id}"
    return None
