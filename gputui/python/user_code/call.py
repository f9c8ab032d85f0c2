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

from .modules import Doubtful, NotFound, found, keepsake, load_main, open_own, text

CALL = "GPUTUI_CALL"
RESULT = "result.pickle"
ORIGINAL = "_gputui_original"
"""Where a queued function keeps the one it was made of."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def main(words: list[str]) -> int:
    name, session, folder = os.environ.pop(CALL, None), os.environ.get("GPUTUI_SESSION"), os.environ["GPUTUI_JOB_DIR"]
    if name is None or session is None:
        print("gputui: this call was not started by gputui (gputui rerun does it)", file=sys.stderr)
        return 1
    # Held from the beginning: others may be able to put something else in the folder's place.
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(FileNotFoundError):
        os.unlink(RESULT, dir_fd=place)
    try:
        value = _called(_read(keepsake(session, name), place))
        _keep(place, value)
    except Exception as error:
        error_text = text(error)
        sys.stdout.flush()
        print(error_text, end="", file=sys.stderr, flush=True)
        _keep_failure(place, error, error_text)
        return 1
    return 0


def _read(path: str, place: int) -> dict[str, Any]:
    try:
        with open(open_own(path), encoding="utf-8") as file:
            call: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise NotFound(f"what to call it with is gone ({path})") from None
    except Doubtful as doubt:
        raise NotFound(str(doubt)) from None
    with suppress(OSError):
        os.link(path, "call.json", dst_dir_fd=place)
    return call


def _called(call: dict[str, Any]) -> Any:
    sys.path[:] = call["sys_path"]
    if call["main"] is not None:
        load_main(call["main"])
    function = found(call["function"])
    arguments, named = pickle.loads(b64decode(call["arguments"]))
    return getattr(function, ORIGINAL, function)(*arguments, **named)


def _keep(place: int, value: Any) -> None:
    try:
        pickled_value = pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"what it returned cannot be passed back: {error}") from error
    _write(place, {"ok": True, "kept": pickled_value})


def _keep_failure(place: int, error: Exception, trace: str) -> None:
    pickled_value = None
    with suppress(Exception):
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # many exceptions go in and do not come out again
        pickled_value = pickled
    _write(place, {"ok": False, "traceback": trace, "kept": pickled_value})


def _write(place: int, outcome: dict[str, Any]) -> None:
    """Whoever reads it back runs what is in it, so it is for nobody else to write, or to put in its place."""
    error_text = {"job": os.environ.get("GPUTUI_JOB_ID"), "attempt": os.environ.get("GPUTUI_ATTEMPT")}
    fresh = f"{RESULT}.{os.getpid()}"
    with open(os.open(fresh, _NEW, 0o600, dir_fd=place), "wb") as file:
        pickle.dump({**error_text, **outcome}, file)
    os.replace(fresh, RESULT, src_dir_fd=place, dst_dir_fd=place)
