"""The entry point of user code: `python -P -m gputui.python.user_code WORD …`.

If gputui is not installed for that Python, the path of this directory is used instead of `-m` and the name.
"""

from __future__ import annotations

import os
import sys

WORDS = {"read": "reader", "yield": "call_yielder", "task": "task", "call": "call"}


def _make_importable() -> None:
    """Make this package importable without its neighbors. Packages installed beside it belong to another Python."""
    from importlib.util import find_spec, module_from_spec, spec_from_file_location

    del sys.path[0]  # this directory, which Python has added
    if find_spec("gputui") is not None:
        return
    directory = os.path.abspath(os.path.join(os.path.dirname(__file__), *2 * [os.pardir]))
    spec = spec_from_file_location(
        "gputui", os.path.join(directory, "__init__.py"), submodule_search_locations=[directory]
    )
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["gputui"] = module
    spec.loader.exec_module(module)


def main(words: list[str]) -> int:
    if not __package__:
        _make_importable()
    if not words or words[0] not in WORDS:
        print("gputui uses gputui.python.user_code to start jobs; do not call it directly", file=sys.stderr)
        return 2
    module = __import__(f"gputui.python.user_code.{WORDS[words[0]]}", fromlist=["main"])
    return int(module.main(words[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
