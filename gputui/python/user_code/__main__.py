"""The door: `python -P -m gputui.python.user_code WORD …`, or this folder's path where there is no gputui."""

from __future__ import annotations

import os
import sys

WORDS = {"read": "reader", "task": "task", "call": "call"}


def _make_importable() -> None:
    """This package alone: what is installed beside it belongs to another Python."""
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    del sys.path[0]  # the folder that Python put there for us
    if find_spec("gputui") is not None:
        return
    folder = os.path.abspath(os.path.join(os.path.dirname(__file__), *2 * [os.pardir]))
    spec = spec_from_file_location("gputui", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["gputui"] = module
    spec.loader.exec_module(module)


def main(words: list[str]) -> int:
    if not __package__:
        _make_importable()
    if not words or words[0] not in WORDS:
        print(
            "gputui.python.user_code is what gputui starts jobs with; there is nothing to call by hand", file=sys.stderr
        )
        return 2
    module = __import__(f"gputui.python.user_code.{WORDS[words[0]]}", fromlist=["main"])
    return int(module.main(words[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
