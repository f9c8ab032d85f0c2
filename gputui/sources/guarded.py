"""Scripts that make their configuration only when they are run: what to give `gputui run` instead, by reading them."""

from __future__ import annotations

import ast
import os

from .source import shown

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
