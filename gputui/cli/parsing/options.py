"""Flags that several verbs share, and the spellings that argparse alone would not understand."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from gputui.cli.output.words import refuse
from gputui.gpus.wanted import BadGpus, looks_like_gpus, parse_gpus
from gputui.sources.values import BadValue, duration


class Parser(argparse.ArgumentParser):
    """Help as written, and errors in one sentence."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> Any:
        refuse(f"{message} (see {self.prog} --help)")


def gathered(words: Sequence[str]) -> list[str]:
    """Joins `--gpus 0 1 2` to one word: those that follow belong to it only while they look like GPUs."""
    joined: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*joined, word, *rest]
        if word not in ("--gpus", "--gpu") or not rest:
            joined.append(word)
            continue
        gpus = [rest.pop(0)]
        while rest and looks_like_gpus(rest[0]):
            gpus.append(rest.pop(0))
        joined.append("--gpus=" + " ".join(gpus))
    return joined


def checked(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A converter whose own sentence reaches the user."""

    def converter(written: str) -> Any:
        try:
            return convert(written)
        except (BadValue, BadGpus) as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return converter


seconds = checked(duration)
gpus = checked(parse_gpus)


def whole(written: str) -> int:
    if not written.isdecimal():
        raise argparse.ArgumentTypeError(f"{written!r} is not a whole number from 0 on")
    return int(written)
