"""Creation of a session, and changes to its GPUs, by a process that does not own it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gputui.core.slots import DeviceKind, Slot
from gputui.gpus.hardware import find_hardware
from gputui.gpus.slots import All, BadGpus, GivenSlots, parse_gpus, slots
from gputui.session import lock as locks
from gputui.session.client import Client
from gputui.session.config import Config
from gputui.session.control.connection import ClientError
from gputui.session.errors import ConfigError, SessionError
from gputui.session.job_directories import layout_error
from gputui.session.lock import OwnerKind
from gputui.session.messages import Layout, Slots, StatusQuestion
from gputui.session.owner.requests import Begin, devices_of
from gputui.session.saved_state import leave_notices
from gputui.session.session_dir import Paths
from gputui.session.store.opening import open_session

HANDED_OVER_BY = (None, OwnerKind.DAEMON)
"""Kinds of owner that allow a client to replace the GPUs, because no user works with the session interactively. None
stands for no owner.
"""


def format_slots(slots: Sequence[Slot]) -> str:
    """Format slots in the syntax of `--gpus`."""
    if slots and not any(slot.devices for slot in slots):
        return f"{slots[0].kind}:{len(slots)}"
    return " ".join(",".join(slot.devices) for slot in slots) or "none"


def slots_of(client: Client) -> tuple[Slot, ...]:
    """Return the session's slots, except those that are being drained."""
    staying = (slot for slot in client.ask(Slots()).slots if slot.state != "draining")
    return tuple(Slot(slot.id, slot.devices, DeviceKind(slot.kind)) for slot in staying)


def give_slots(client: Client, wanted: tuple[Slot, ...]) -> list[str]:
    """Give the session these slots and return messages for the user. Raise ClientError if an app or a run owns the
    session with different slots.
    """
    before = slots_of(client)
    if devices_of(before) == devices_of(wanted):
        return []
    owner = client.ask(StatusQuestion()).process
    if owner is not None and owner.kind not in HANDED_OVER_BY:
        who = f"gputui {owner.kind} (pid {owner.pid})"
        raise ClientError(
            f"{client.root} is open in {who} with slots {format_slots(before)}: change them with gputui gpus, use "
            "another directory, or omit --gpus"
        )
    client.ask(Begin(slots=wanted, given=True, change_slots=True, settings={"cpu_jobs": cpu_jobs()}, resume=False))
    return [f"slots changed to {format_slots(wanted)}; they were {format_slots(before)}"]


def begin(root: str, config: Config, gpus: str | None = None) -> list[str]:
    """Create a session with `gpus` or, if that is None, with the configured GPUs. Return messages for the user.

    Raise ConfigError for invalid settings and ClientError if the session cannot be created.
    """
    wanted, given = begin_request(config, gpus)
    layout = Layout(config.get("prefix")[0], config.get("job_dir")[0])
    sentence = layout_error(layout)
    if sentence is not None:
        raise ConfigError(sentence)
    try:
        _create(Paths(root), layout)
    except SessionError as error:
        raise ClientError(str(error)) from error
    Client(root).ask(wanted)
    sentences = [f"started a session in {root}", *([given.notice] if given.notice else [])]
    # Another process may have created the session at the same time with other GPUs.
    return sentences + (give_slots(Client(root), given.slots) if gpus is not None else [])


def begin_request(config: Config, gpus: str | None = None) -> tuple[Begin, GivenSlots]:
    """Return the request that gives a new session its slots and settings, and its slots with a notice about them."""
    given = _parse_gpus(gpus, "gpus") if gpus is not None else _parse_gpus(*config.gpus())
    settings = config.session_options(in_cluster=any(slot.kind is DeviceKind.SLURM for slot in given.slots))
    named = gpus is not None or config.get("gpus")[0] is not None
    return Begin(given.slots, named, change_slots=False, settings={"cpu_jobs": cpu_jobs(), **settings}), given


def change_slots(client: Client, gpus: str) -> list[str]:
    """Change the GPUs of an existing session to those that `gpus` describes. Return messages for the user."""
    return give_slots(client, _parse_gpus(gpus, "gpus").slots)


def _create(paths: Paths, layout: Layout) -> None:
    made_directory = paths.create()
    lock = locks.take(paths)
    if lock is None:
        return  # another process is creating it
    try:
        lock.sign(OwnerKind.CLIENT)
        opened = open_session(paths, layout, made_directory=made_directory)
        opened.store.close()
        leave_notices(paths.private, opened.notices)
    finally:
        lock.release()


def cpu_jobs() -> int:
    """Return how many jobs without a GPU may run at the same time on this machine."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def _parse_gpus(written: str | None, origin: str) -> GivenSlots:
    try:
        return slots(parse_gpus(written) if written is not None else All(), find_hardware())
    except BadGpus as error:
        raise ConfigError(f"{origin}: {error}") from None
