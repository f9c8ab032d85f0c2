"""JSON without the json module, whose regular expressions alone take as long to load as Python does to start.

Uses the C halves of that module, which need none; where they are missing or differ, the module itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Dumps = Callable[[Any], str]
    Loads = Callable[[str | bytes], Any]


class _Reading:
    """What the C scanner wants to know."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner's own


def _refuse(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON")


def _c_halves() -> tuple[Dumps, Loads]:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    encode = make_encoder({}, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    scan = make_scanner(_Reading)  # type: ignore[arg-type]  # any object with these attributes will do

    def dumps(value: Any) -> str:
        # The C encoder takes containers only.
        return "".join(encode([value], 0))[1:-1]

    def loads(text: str | bytes) -> Any:
        whole = (text.decode() if isinstance(text, bytes) else text).strip()
        try:
            value, end = scan(whole, 0)
        except StopIteration:
            raise ValueError("no JSON") from None
        if end != len(whole):
            raise ValueError("more than one JSON value")
        return value

    return dumps, loads


def _module() -> tuple[Dumps, Loads]:
    import json

    return json.dumps, json.loads


try:
    dumps, loads = _c_halves()
    if loads(dumps({"a": [1, None, "é"]})) != {"a": [1, None, "é"]}:
        raise ValueError
except (ImportError, TypeError, ValueError):
    dumps, loads = _module()
