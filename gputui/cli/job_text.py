"""A job's settings as TOML, for people to edit, and back."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

from gputui.sources.values import BadValue, bytes_or_share, duration

from .syntax import nearest

KEYS: dict[str, tuple[tuple[type, ...], Any, str]] = {
    "name": ((str,), "", "text"),
    "command": ((str,), "", "text"),
    "cwd": ((str,), "", "text"),
    "group": ((str,), "", "text"),
    "priority": ((int,), 30, "a whole number from 0 to 99"),
    "gpus": ((int, str), "", 'a whole number, or "" for one lane'),
    "devices": ((list,), [], 'a list such as ["0", "1"]'),
    "memory": ((str,), "", 'GPU memory it will use, such as "6G" or "40%"'),
    "after": ((list,), [], 'a list of ids and names such as [3, "prepare"]'),
    "after_any": ((bool,), False, "true or false"),
    "retries": ((int,), 0, "a whole number"),
    "timeout": ((int, float, str), "", 'seconds, or text such as "2h"; "" for no limit'),
    "shell": ((str,), "", "text"),
    "login_shell": ((bool,), False, "true or false"),
    "outfile": ((str,), "", "text"),
    "wrap": ((str,), "", 'words before its shell, such as "apptainer exec --nv x.sif"'),
    "task": ((str,), "", 'a function to call instead of a shell, "module:function"'),
    "variables": ((dict,), {}, 'a table such as { SEED = "1" }'),
}
"""Each key with the types it may have, its value when nothing is said, and how it is written."""


class BadText(Exception):
    """The message is the sentence the user reads."""


def text_of(shown: dict[str, Any]) -> str:
    values = _values(shown["spec"]) | {"priority": shown["priority"]}
    lines = [f"# Job {shown['id']} of gputui. Save and leave to change it; leave it as it is to change nothing."]
    for key, (_, nothing, how) in KEYS.items():
        hint = f"  # {how}" if values[key] == nothing else ""
        lines.append(f"{key} = {_toml(values[key])}{hint}")
    return "\n".join(lines) + "\n"


def _values(spec: dict[str, Any]) -> dict[str, Any]:
    flat = {**spec, **(spec.get("request") or {})}
    flat["memory"] = _memory_text(flat.get("memory"), flat.get("memory_share"))
    return {key: nothing if flat.get(key) is None else flat[key] for key, (_, nothing, _) in KEYS.items()}


def _memory_text(size: int | None, share: float | None) -> str:
    if share is not None:
        return f"{100 * share:g}%"
    if size is None:
        return ""
    unit = max(power for power in range(4) if size % 1024**power == 0)
    return f"{size // 1024**unit}{' KMG'[unit]}" if unit else f"{size / 1024:.9g}K"


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() if "\n" in value and "'''" not in value and value.replace("\n", "").isprintable():
            return f"'''\n{value}'''"
        case str():
            return _quoted(value)
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return "{ " + ", ".join(f"{_quoted(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    return str(value)


def _quoted(text: str) -> str:
    """JSON's way of writing text is TOML's too, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def spec_in(text: str, before: dict[str, Any], path: str) -> dict[str, Any]:
    """The spec that the text means; BadText names the file and the key that is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadText(f"{path} is no TOML: {error}") from None
    for key, value in table.items():
        _check(path, key, value)
    if not str(table.get("command", "")).strip():
        raise BadText(f"{path}: command is empty")
    values = {key: table.get(key, nothing) for key, (_, nothing, _) in KEYS.items()}
    return _spec(values, before, path)


def _check(path: str, key: str, value: Any) -> None:
    if key not in KEYS:
        near = nearest(key, KEYS)
        hint = f"; did you mean {near}?" if near else f"; known are {', '.join(KEYS)}"
        raise BadText(f"{path}: {key} is no setting{hint}")
    types, nothing, how = KEYS[key]
    if type(value) not in types:
        raise BadText(f"{path}: {key} must be {how}")
    if key == "gpus" and isinstance(value, str) and value != nothing:
        raise BadText(f"{path}: {key} must be {how}")
    if key == "variables" and not all(isinstance(one, str) for one in value.values()):
        raise BadText(f"{path}: the values of variables must be text in quotes")
    if key == "devices" and not all(isinstance(one, str) for one in value):
        raise BadText(f"{path}: {key} must be {how}")
    if key == "after" and not all(isinstance(one, str) or type(one) is int for one in value):
        raise BadText(f"{path}: {key} must be {how}")


def _spec(values: dict[str, Any], before: dict[str, Any], path: str) -> dict[str, Any]:
    gpus, devices, memory = (values.pop(key) for key in ("gpus", "devices", "memory"))
    request = {**({} if gpus == "" else {"gpus": gpus}), **({"devices": devices} if devices else {})}
    request |= _memory(memory, path)
    spec = before | values | {"request": request, "timeout": _timeout(values["timeout"], path)}
    spec["name"] = values["name"] or None
    spec["outfile"] = _path(values["cwd"], values["outfile"]) if values["outfile"] else None
    spec["cwd"] = _path(before["cwd"], values["cwd"])
    return spec


def _memory(written: str, path: str) -> dict[str, Any]:
    if not written:
        return {}
    try:
        size, share = bytes_or_share(written)
    except BadValue as error:
        raise BadText(f"{path}: memory: {error}") from None
    return {"memory": size} if share is None else {"memory_share": share}


def _timeout(written: Any, path: str) -> float | None:
    if written == "":
        return None
    try:
        return duration(str(written))
    except BadValue as error:
        raise BadText(f"{path}: timeout: {error}") from None


def _path(folder: str, written: str) -> str:
    return os.path.normpath(os.path.join(folder, os.path.expanduser(written)))
