"""A call as it is kept until it runs: the function by its whereabouts, its arguments as a pickle."""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from .bundle import search_path
from .modules import MAIN, main_script, whereabouts


def packed(function: Callable[..., Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bytes:
    """ValueError: no job could find the function; TypeError: the arguments cannot be passed on."""
    where = whereabouts(function)
    try:
        pickled = pickle.dumps((arguments, dict(named)))
    except Exception as error:
        raise TypeError(f"these arguments of {function.__name__} cannot be passed to a job: {error}") from error
    refers_to_main = b"__main__" in pickled and where["module"] != MAIN
    call = {
        "function": where,
        "main": main_script() if refers_to_main else None,
        "sys_path": search_path(),
        "arguments": b64encode(pickled).decode(),
    }
    return json.dumps(call).encode()
