"""`run` on a session that another program owns: what it names and they have otherwise is asked about, or refused."""

from __future__ import annotations

import shlex

import msgspec
from msgspec.structs import replace

from gputui.cli.calling import agreed, on_terminal
from gputui.cli.output.words import Exit, refuse, say
from gputui.session.control.client import Client
from gputui.session.devices.lane_lists import lane_words, lanes_of
from gputui.session.owner.requests import Begin, devices_of
from gputui.session.ownership.acquisition import Owned


def agree(client: Client, owned: Owned, wanted: Begin) -> None:
    """Has the owner do what was named, if the user agrees; ends the program if nobody does."""
    change = _change(client, wanted)
    if change.lanes is None and change.layout is None:
        return
    sentence = f"{client.root} is open in gputui {owned.kind} (pid {owned.pid}) with other {_what(change)}"
    if not on_terminal():
        refuse(f"{sentence}: {_ways_out(change)}")
    say(sentence)
    if not agreed(f"give it {_wanted(change)}?"):
        raise Exit(2, f"nothing was added: {_ways_out(change)}")
    client.ask("begin", **msgspec.to_builtins(change))


def _change(client: Client, wanted: Begin) -> Begin:
    """Of what is wanted, that which was named and is not so yet."""
    lanes = wanted.lanes if wanted.change_lanes and wanted.lanes is not None else None
    if lanes is not None and devices_of(lanes_of(client)) == devices_of(lanes):
        lanes = None
    layout = wanted.layout
    if layout is not None and client.ask("status").get("layout") == msgspec.to_builtins(layout):
        layout = None
    return replace(wanted, lanes=lanes, layout=layout, resume=False)


def _what(change: Begin) -> str:
    return " and ".join(["lanes"] * (change.lanes is not None) + ["folders for its jobs"] * (change.layout is not None))


def _wanted(change: Begin) -> str:
    lanes = [f"the lanes {lane_words(change.lanes)}"] if change.lanes is not None else []
    layout = change.layout
    return " and ".join([*lanes, *([f"folders {layout.job_dir or layout.prefix + 'N'}"] if layout is not None else [])])


def _ways_out(change: Begin) -> str:
    ways = ["take another folder (--output-dir, GPUTUI_OUTPUT_DIR)"]
    if change.lanes is not None:
        ways.append(f"change its lanes (gputui gpus {shlex.quote(lane_words(change.lanes))})")
    named = ["the GPUs"] * (change.lanes is not None) + ["the folders"] * (change.layout is not None)
    return ", ".join(ways) + f", or do not name {' and '.join(named)}"
