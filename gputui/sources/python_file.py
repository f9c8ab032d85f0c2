"""A user's .py file, read in a process of its own that sees no GPU."""

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

from .source import BadInput, missing, shown
from .yielder import python_of

# ---- A user's .py file, read in a process of its own that sees no GPU ----


class PythonFile:
    """Starting it loads the file; `defines` says which of `config` and `yielder` it has. BadInput if it fails."""

    def __init__(self, path: str) -> None:
        self.path = path
        _check(path)
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
            raise BadInput(f"{shown(path)} cannot be read: {door()[0]}: {error.strerror}") from None
        finally:
            os.close(orders)
            os.close(answers)
        self._told = open(self._answers, "rb")  # noqa: SIM115  # closed by close()
        try:
            self.defines: tuple[str, ...] = tuple(self._answer()["defines"])
        except BaseException:
            self.close()
            raise

    def ask(self, order: str, **fields: Any) -> Any:
        """What the process answers; BadInput says what went wrong in the file."""
        with suppress(BrokenPipeError):
            os.write(self._orders, json.dumps({"do": order, **fields}).encode() + b"\n")
        return self._answer()

    def _answer(self) -> Any:
        line = self._told.readline()
        if not line.endswith(b"\n"):
            raise BadInput(f"{shown(self.path)}: the process that read it {_end(self._child.wait())}")
        answer = json.loads(line)
        if "error" in answer:
            raise BadInput(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """Ends the process, whatever it is at."""
        self._close_pipes()
        self._child.kill()
        self._child.wait()

    def _close_pipes(self) -> None:
        os.close(self._orders)
        if hasattr(self, "_told"):
            self._told.close()
        else:
            os.close(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


def door(environment: Mapping[str, str] = os.environ) -> list[str]:
    """How the user's Python is started at what it does for us: GPUTUI_PYTHON, the active environment's, or ours."""
    return door_of(python_of(environment))


def door_of(python: str) -> list[str]:
    """The same for a Python that is known; another one than ours may have no gputui, so it is shown the way."""
    return [python, "-P", "-m", "gputui.python.user_code"] if python == sys.executable else [python, USER_CODE]


def _check(path: str) -> None:
    """The common mistakes in words, before a process is started for them."""
    try:
        if os.path.isdir(path):
            raise BadInput(f"{shown(path)} is a directory; give a file")
        with open(path, "rb"):
            pass
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"{shown(path)} cannot be read: {reason}") from None


def _end(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"left with exit status {code}"


# ---- Scripts that make their configuration only when they are run ----


SCHEDULER = "GPUTaskScheduler"


def advice(path: str) -> str:
    """The sentence for a file that defines no config when it is loaded."""
    name = shown(path)
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return f"{name} defines no config"
    origins = _origins(tree)
    module = origins.get("config")
    task = _task(tree, origins)
    if task is None and module is None:
        return f"{name} defines no config"
    file_name = os.path.join(os.path.dirname(path), *(module or "config").split(".")) + ".py"
    return f"{name} makes its config only when it is run itself: gputui run {shown(file_name)} --task {task or 'CLASS'}"


def _origins(tree: ast.Module) -> dict[str, str]:
    """The module that each name comes from, wherever in the file it is imported."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: node.module or "" for node in imports for alias in node.names}


def _task(tree: ast.Module, origins: dict[str, str]) -> str | None:
    """The class that the scheduler is made with, as --task takes it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == SCHEDULER:
            class_arguments = [
                keyword.value for keyword in node.keywords if keyword.arg == "gpu_task_class"
            ] or node.args[1:2]
            if class_arguments and isinstance(class_arguments[0], ast.Name) and class_arguments[0].id in origins:
                return f"{origins[class_arguments[0].id]}.{class_arguments[0].id}"
    return None
