"""Reads a user's .py file in a process of its own and answers what gputui asks about it, line by line in JSON.

`read FILE ORDERS ANSWERS`: two descriptors. The first answer says what the file defines; every further line of
orders is one question, `{"do": WORD, …}`, and is answered by `{"ok": …}` or `{"error": sentence}`. The end of the
orders ends it. Whatever the file prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from .modules import FileRefused, LoadedFile, sentence
from .old_names import lend_old_names


def main(words: list[str]) -> int:
    path, orders, answers = words[0], int(words[1]), int(words[2])
    for fd in (orders, answers):
        os.set_inheritable(fd, False)
    os.dup2(2, 1)
    sys.dont_write_bytecode = True  # a file edited twice within a second would be read as it was before
    sys.path[:0] = [os.path.dirname(os.path.abspath(path)), os.getcwd()]
    sys.argv = [path]
    lend_old_names()
    with open(orders, "rb") as questions, open(answers, "wb") as replies:
        return _serve(path, questions, replies)


def _serve(path: str, questions: Any, replies: Any) -> int:
    def tell(answer: dict[str, Any]) -> None:
        replies.write(json.dumps(answer).encode() + b"\n")
        replies.flush()

    try:
        read = LoadedFile(path)
        tell({"ok": {"defines": read.defines()}})
    except BaseException as error:
        tell({"error": sentence(error, path)})
        return 1
    for line in questions:
        order = json.loads(line)
        try:
            tell({"ok": _ANSWERS[order.pop("do")](read, order)})
        except FileRefused as refused:
            tell({"error": str(refused)})
        except BaseException as error:
            tell({"error": sentence(error, path)})
    return 0


def _config(read: LoadedFile, order: dict[str, Any]) -> Any:
    from .task_files import described  # a yielder needs none of it

    return described(read, order)


_ANSWERS: dict[str, Callable[[LoadedFile, dict[str, Any]], Any]] = {"config": _config}
"""How each order is answered; what it needs is imported then."""
