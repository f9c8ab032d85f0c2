"""The process that runs a queued call, started as `call FUNCTION`.

GPUTUI_CALL names the keepsake that contains the call. The call and its result are stored in the job's directory as
`call.json` and `result.pickle`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from base64 import b64decode
from contextlib import suppress
from typing import Any

from .modules import NotFound, Untrusted, format_traceback, import_object, keepsake, load_main, open_own

CALL = "GPUTUI_CALL"
RESULT = "result.pickle"
ORIGINAL = "_gputui_original"
"""Name of the attribute of a queued function that holds the original function."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def main(words: list[str]) -> int:
    name, session, directory = (
        os.environ.pop(CALL, None),
        os.environ.get("GPUTUI_SESSION"),
        os.environ["GPUTUI_JOB_DIR"],
    )
    if name is None or session is None:
        print("gputui: this call was not started by gputui (use gputui rerun)", file=sys.stderr)
        return 1
    # Opened now, because other users may be able to replace the directory later.
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(FileNotFoundError):
        os.unlink(RESULT, dir_fd=place)
    try:
        value = _called(_read(keepsake(session, name), place))
        _keep(place, value)
    except Exception as error:
        traceback = format_traceback(error)
        sys.stdout.flush()
        print(traceback, end="", file=sys.stderr, flush=True)
        _keep_failure(place, error, traceback)
        return 1
    return 0


def _read(path: str, place: int) -> dict[str, Any]:
    try:
        with open(open_own(path), encoding="utf-8") as file:
            call: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise NotFound(f"its arguments are gone ({path})") from None
    except Untrusted as error:
        raise NotFound(str(error)) from None
    with suppress(OSError):
        os.link(path, "call.json", dst_dir_fd=place)
    return call


def _called(call: dict[str, Any]) -> Any:
    sys.path[:] = call["sys_path"]
    if call["main"] is not None:
        load_main(call["main"])
    function = import_object(call["function"])
    arguments, named = pickle.loads(b64decode(call["arguments"]))
    return getattr(function, ORIGINAL, function)(*arguments, **named)


def _keep(place: int, value: Any) -> None:
    try:
        pickled_value = pickle.dumps(value)
    except Exception as error:
        raise TypeError(f"cannot pass back its result: {error}") from error
    _write(place, {"ok": True, "kept": pickled_value})


def _keep_failure(place: int, error: Exception, trace: str) -> None:
    pickled_value = None
    with suppress(Exception):
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # many exceptions can be pickled but not unpickled
        pickled_value = pickled
    _write(place, {"ok": False, "traceback": trace, "kept": pickled_value})


def _write(place: int, outcome: dict[str, Any]) -> None:
    """Write the result. Reading a pickle runs code, so no other user may be able to write or replace the file."""
    job = {"job": os.environ.get("GPUTUI_JOB_ID"), "attempt": os.environ.get("GPUTUI_ATTEMPT")}
    fresh = f"{RESULT}.{os.getpid()}"
    with open(os.open(fresh, _NEW, 0o600, dir_fd=place), "wb") as file:
        pickle.dump({**job, **outcome}, file)
    os.replace(fresh, RESULT, src_dir_fd=place, dst_dir_fd=place)
