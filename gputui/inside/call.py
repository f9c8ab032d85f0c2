"""A queued call's own process: `call FUNCTION`, with GPUTUI_CALL naming the keepsake that knows the rest.

What it was called with and what came of it are left in the job's folder, as `call.json` and `result.pickle`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from base64 import b64decode
from contextlib import suppress
from typing import Any

from .modules import NotFound, found, load_main
from .places import keepsake
from .tracebacks import text

CALL = "GPUTUI_CALL"
RESULT = "result.pickle"
ORIGINAL = "_gputui_original"
"""Where a queued function keeps the one it was made of."""


def main(words: list[str]) -> int:
    name, session, folder = os.environ.pop(CALL, None), os.environ.get("GPUTUI_SESSION"), os.environ["GPUTUI_JOB_DIR"]
    if name is None or session is None:
        print("gputui: this call was not started by gputui (gputui rerun does it)", file=sys.stderr)
        return 1
    path = os.path.join(folder, RESULT)
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        value = _called(_read(keepsake(session, name), folder))
        _keep(path, value)
    except Exception as error:
        told = text(error)
        sys.stdout.flush()
        print(told, end="", file=sys.stderr, flush=True)
        _keep_failure(path, error, told)
        return 1
    return 0


def _read(path: str, folder: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            call: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise NotFound(f"what to call it with is gone ({path})") from None
    with suppress(OSError):
        os.link(path, os.path.join(folder, "call.json"))
    return call


def _called(call: dict[str, Any]) -> Any:
    sys.path[:] = call["sys_path"]
    if call["main"] is not None:
        load_main(call["main"])
    function = found(call["function"])
    arguments, named = pickle.loads(b64decode(call["arguments"]))
    return getattr(function, ORIGINAL, function)(*arguments, **named)


def _keep(path: str, value: Any) -> None:
    try:
        kept = pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"what it returned cannot be passed back: {error}") from error
    _write(path, {"ok": True, "kept": kept})


def _keep_failure(path: str, error: Exception, told: str) -> None:
    kept = None
    with suppress(Exception):
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # many exceptions go in and do not come out again
        kept = pickled
    _write(path, {"ok": False, "traceback": told, "kept": kept})


def _write(path: str, outcome: dict[str, Any]) -> None:
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "wb") as file:
        pickle.dump({"attempt": os.environ.get("GPUTUI_ATTEMPT"), **outcome}, file)
    os.replace(fresh, path)
