"""`--adopt`: a session whose machine or container is gone goes on here, once the user has said that it is."""

from __future__ import annotations

import sys

from gputui.cli.output.one_key import answer
from gputui.cli.output.words import USAGE, Exit, say
from gputui.session.files.paths import Paths
from gputui.session.store import adoption as adopting


def adopt(paths: Paths) -> None:
    """Nothing is asked about a session that can be opened anyhow."""
    if not paths.exists():
        return
    foreign = adopting.refusal(paths)
    if foreign is None:
        return

    def question() -> None:
        say(foreign)
        print("Whatever still runs there could run a second time. Is all of it gone?", file=sys.stderr)
        print("[y] all is gone, adopt it  [n] leave it", file=sys.stderr, flush=True)

    if answer(question) != "y":
        raise Exit(USAGE, f"{paths.root} was not adopted; --adopt asks on a terminal, and wants a y")
    adopting.adopt(paths)
