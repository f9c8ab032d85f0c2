"""Actions on a device: show its processes, drain or enable it, or stop its jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.core.amounts import counted, duration_words
from gputui.core.events import Kill, Requeue, SetSlots
from gputui.core.slots import DeviceKind
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, SlotState
from gputui.session.devices.slot_changes import drain, enable, kill_leftovers, stop_commands, stoppable
from gputui.session.event_loop import Ticket
from gputui.session.owner.owner import Owner
from gputui.tui.dialogs.ask import Ask, Choice, Item, Pick
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.gpus.occupants import DeviceChoice
from gputui.tui.layout import Pane

from .jobs import warn_of_restart

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


def drain_or_enable(main: MainScreen) -> None:
    """Drain or enable the GPU under the cursor, if the GPU pane has the focus."""
    device = main.gpus.device
    if main.pane is not Pane.GPUS:
        main.say("press 1 for the GPUs, then d to drain the selected one")
    elif device is None or device.state is None:
        main.say("no device of this session selected")
    elif takes_no_jobs(device):
        _do(main, lambda owner: enable(owner, device))
    else:
        _do(main, lambda owner: drain(owner, device))


def takes_no_jobs(device: DevicePicture) -> bool:
    return device.state in (SlotState.OFF, SlotState.DRAINING)


def _do(main: MainScreen, command: Callable[[Owner], Ticket[str]]) -> None:
    main.bridge.ask(command, main.say, lambda why: main.say(why, grave=True))


def show_device(main: MainScreen) -> None:
    device = main.gpus.device
    if device is None:
        main.say("no device selected")
        return
    snapshot = main.snapshot if main.bridge.has_session else None
    screen = DeviceScreen(device, main.bridge.picture, snapshot, main.short_name, main.now(), read_only=main.read_only)
    main.ask(screen, lambda choice: _chosen(main, screen, choice))


def _chosen(main: MainScreen, screen: DeviceScreen, choice: DeviceChoice | None) -> None:
    """Carry out the user's choice for the device and the jobs that the dialog showed last."""
    device, snapshot = screen.device, screen.snapshot or main.snapshot
    match choice:
        case DeviceChoice.DRAIN:
            _do(main, lambda owner: drain(owner, device))
        case DeviceChoice.ENABLE:
            _do(main, lambda owner: enable(owner, device))
        case DeviceChoice.KILL_LEFTOVERS:
            _do(main, lambda owner: kill_leftovers(owner, device))
        case DeviceChoice.REQUEUE:
            _confirm(main, device, snapshot, Requeue)
        case DeviceChoice.KILL:
            _confirm(main, device, snapshot, Kill)


def _confirm(main: MainScreen, device: DevicePicture, snapshot: Snapshot, command: type[Requeue | Kill]) -> None:
    jobs, events = stoppable(device, snapshot), stop_commands(device, snapshot, command)
    lines = [
        f"  #{job.id}  {main.names.of(job)}   {duration_words(main.now() - job.active.since)}"
        for job in jobs
        if job.active is not None
    ]
    warning = warn_of_restart(main, jobs) if command is Requeue else ""
    what = f"{command.__name__} the jobs on {device.sample.label}?"
    question = Ask(what, "\n".join(lines) + warning, [Choice("yes", "y", "yes, gracefully")])
    main.ask(question, lambda answer: main.send(events) if answer else None)


def ask_which(main: MainScreen) -> bool:
    """Ask which GPUs to use if external processes are on some of them. Return False if the GPUs are not known yet."""
    picture = main.bridge.picture
    devices = [device for device in picture.devices if device.slots]
    if picture.kind is not DeviceKind.GPU or picture.sample is None or not picture.sample.complete:
        return False
    if len(devices) < 2 or not any(device.external_processes for device in devices):
        return True
    items = [
        Item(
            device.sample.key,
            f"{device.sample.label}  {device.sample.name}   {device.blocked or 'idle'}",
            not device.external_processes,
        )
        for device in devices
    ]

    def answered(picked: list[str] | None) -> None:
        if picked is None:
            return
        off = {slot.id for device in devices if device.sample.key not in picked for slot in device.slots}
        slots = tuple(slot for slot in main.snapshot.slots if slot.id not in off)
        if off and slots:
            main.send(
                [SetSlots(slots, these=True)],
                f"using {counted(len(picked), 'GPU', 'GPUs')}; change with gputui gpus",
            )

    body = "Some of these GPUs are in use by others. Selected ones are used as soon as they are free."
    main.ask(Pick("Which GPUs?", body, items, go="use them"), answered)
    return True
