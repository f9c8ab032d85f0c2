"""Refuses names for the jobs' folders that cannot be given."""

from __future__ import annotations

from gputui.cli.output.words import refuse
from gputui.session.files.layouts import trouble
from gputui.session.store.opening import Layout


def check_layout(layout: Layout) -> None:
    sentence = trouble(layout)
    if sentence is not None:
        refuse(sentence)
