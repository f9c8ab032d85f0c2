"""Functions as a user's module has them; jobs import this module by its name."""

from __future__ import annotations

import os
import time

import gputui


class Refused(Exception):
    """Its own kind, with arguments that do not come back from a pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@gputui.job(gpus=1, group="sums")
def added(first: int, second: int = 0) -> int:
    print("on", os.environ.get("CUDA_VISIBLE_DEVICES"))
    return first + second


@gputui.job()
def fails(words: str) -> None:
    raise ValueError(words)


@gputui.job()
def refuses() -> None:
    raise Refused(1, 2)


@gputui.job()
def gives_a_file() -> object:
    return open(os.devnull)


@gputui.job()
def exits(code: int) -> None:
    os._exit(code)


@gputui.job()
def sleeps(seconds: float) -> None:
    time.sleep(seconds)


@gputui.job()
def queues_another(first: int) -> int:
    """Joins the session of the job it runs in."""
    return added(first, 1).id


@gputui.job()
def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def plain(value: str) -> str:
    return value.upper()
