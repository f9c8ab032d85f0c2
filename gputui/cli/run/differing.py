"""`run` on a session that another program owns: what it names and they have otherwise is asked about, or refused."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gputui.cli.calling import agreed, on_terminal
from gputui.cli.output.words import Exit, refuse, say
from gputui.core.events import Settings
from gputui.session.control.client import Client
from gputui.session.devices.lane_lists import lane_words, lanes_of
from gputui.session.messages.replies import LayoutShown
from gputui.session.messages.socket_requests import StatusQuestion
from gputui.session.owner.requests import Begin, devices_of
from gputui.session.ownership.acquisition import Owned

FLAGS = {
    "pause_after": "--pause-after",
    "probe": "--probe",
    "grace": "--grace",
    "at_most": "--at-most",
    "keep_free": "--keep-free",
    "ignore_strangers": "--ignore-strangers",
    "ignored": "--ignore",
    "gpu_file": "--gpu-file",
    "partition": "--partition",
    "account": "--account",
    "qos": "--qos",
    "time": "--time",
    "constraint": "--constraint",
    "sbatch_opt": "--sbatch-opt",
}


class Difference(msgspec.Struct, frozen=True):
    """One thing that was named and is not so yet, in words."""

    has: str
    """Instead of it."""
    wanted: str
    name: str
    way: str | None = None
    """How else it can be had."""


def agree(client: Client, owned: Owned, named: Begin) -> Begin:
    """What the owner is to be asked of what was named, with the user's consent; ends the program if nobody gives it."""
    change, differences = compared(client, named)
    if not differences:
        return change
    has = _listed([each.has for each in differences])
    sentence = f"{client.root} is open in gputui {owned.kind} (pid {owned.pid}) with {has}"
    if not on_terminal():
        refuse(f"{sentence}: {_ways_out(differences)}")
    say(sentence)
    if not agreed(f"give it {_listed([each.wanted for each in differences])}?"):
        raise Exit(2, f"nothing was added: {_ways_out(differences)}")
    return change


def compared(client: Client, named: Begin) -> tuple[Begin, list[Difference]]:
    """Of what was named, that which is not so yet: as a request, and in words."""
    status = client.ask(StatusQuestion())
    lanes, layout = _other_lanes(client, named), _other_layout(status.layout, named)
    differences = [*lanes, *layout, *_other_settings(status.settings, named)]
    change = replace(
        named,
        lanes=named.lanes if lanes else None,
        layout=named.layout if layout else None,
        cpu_jobs=status.settings.cpu_jobs,  # nobody names it: the owner's stays
        resume=False,
    )
    return change, differences


def _other_lanes(client: Client, named: Begin) -> list[Difference]:
    if named.lanes is None or not named.change_lanes or devices_of(lanes_of(client)) == devices_of(named.lanes):
        return []
    words = lane_words(named.lanes)
    way = f"change its lanes (gputui gpus {shlex.quote(words)})"
    return [Difference("other lanes", f"the lanes {words}", "the GPUs", way)]


def _other_layout(shown: LayoutShown, named: Begin) -> list[Difference]:
    layout = named.layout
    if layout is None or (shown.prefix, shown.job_dir) == (layout.prefix, layout.job_dir):
        return []
    return [Difference("other folders for its jobs", f"folders {layout.job_dir or layout.prefix + 'N'}", "the folders")]


def _other_settings(settings: Settings, named: Begin) -> list[Difference]:
    differences = []
    for field, flag in FLAGS.items():
        has, wanted = getattr(settings, field), getattr(named, field)
        has = "off" if field == "probe" and has is None else has
        if wanted is not None and has != wanted:
            words = _words(flag, wanted)
            differences.append(Difference(f"{_words(flag, has)}, not {words}", words, flag))
    return differences


def _words(flag: str, value: object) -> str:
    """As it would be written on a command line."""
    if value is None or value is False or value == ():
        return f"no {flag}"
    if value is True:
        return flag
    if isinstance(value, tuple):
        return f"{flag} {','.join(value)}"
    return f"{flag} {value:g}" if isinstance(value, int | float) else f"{flag} {value}"


def _ways_out(differences: Sequence[Difference]) -> str:
    ways = ["take another folder (--output-dir, GPUTUI_OUTPUT_DIR)"]
    ways += [each.way for each in differences if each.way is not None]
    return ", ".join(ways) + f", or do not name {_listed([each.name for each in differences])}"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
