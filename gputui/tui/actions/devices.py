"""Keys on a device: what is on it, taking it off and putting it back, ending what runs there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.core.amounts import counted
from gputui.core.events import SetLanes, UserCommand
from gputui.core.job import Job
from gputui.core.lanes import DeviceKind
from gputui.gpus.picture import DevicePicture, LaneState
from gputui.session.devices.lane_changes import drain, enable, kill_leftovers, killed, requeued, stoppable, title
from gputui.session.event_loop import Ticket
from gputui.session.owner.owner import Owner
from gputui.tui.dialogs.ask import Ask, Choice, Item, Pick
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.gpus.occupants import DeviceChoice
from gputui.tui.layout import Pane
from gputui.tui.queue.row_facts import stake

from .jobs import restarts

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


def drain_or_enable(main: MainScreen) -> None:
    """Only where one sees which: elsewhere the key would be meant for something else."""
    device = main.gpus.device
    if main.pane is not Pane.GPUS:
        main.say("1 goes to the GPUs; there d drains the one under the cursor")
    elif device is None or device.state is None:
        main.say("there is no device of this session here")
    elif takes_no_jobs(device):
        _do(main, lambda owner: enable(owner, device))
    else:
        _do(main, lambda owner: drain(owner, device))


def takes_no_jobs(device: DevicePicture) -> bool:
    return device.state in (LaneState.OFF, LaneState.DRAINING)


def _do(main: MainScreen, command: Callable[[Owner], Ticket[str]]) -> None:
    main.bridge.ask(command, main.say, lambda why: main.say(why, grave=True))


def show_device(main: MainScreen) -> None:
    device = main.gpus.device
    if device is None:
        main.say("there is no device here")
        return
    snapshot = main.snapshot if main.bridge.has_session else None
    screen = DeviceScreen(device, main.bridge.picture, snapshot, main.short_name, main.now(), read_only=main.read_only)
    main.ask(screen, lambda choice: _chosen(main, screen, choice))


def _chosen(main: MainScreen, screen: DeviceScreen, choice: DeviceChoice | None) -> None:
    """About the device and its jobs as the dialog showed them last."""
    device, snapshot = screen.device, screen.snapshot or main.snapshot
    match choice:
        case DeviceChoice.DRAIN:
            _do(main, lambda owner: drain(owner, device))
        case DeviceChoice.ENABLE:
            _do(main, lambda owner: enable(owner, device))
        case DeviceChoice.KILL_LEFTOVERS:
            _do(main, lambda owner: kill_leftovers(owner, device))
        case DeviceChoice.REQUEUE:
            jobs = stoppable(device, snapshot)
            _sure(main, device, jobs, "Requeue what runs on", requeued(device, snapshot), restarts(main, jobs))
        case DeviceChoice.KILL:
            _sure(main, device, stoppable(device, snapshot), "Kill what runs on", killed(device, snapshot))


def _sure(
    main: MainScreen,
    device: DevicePicture,
    jobs: list[Job],
    what: str,
    events: tuple[UserCommand, ...],
    words: str = "",
) -> None:
    lines = [
        f"  #{job.id}  {main.names.of(job)}   {stake(main.now() - job.active.since)}"
        for job in jobs
        if job.active is not None
    ]
    question = Ask(f"{what} {title(device)}?", "\n".join(lines) + words, [Choice("yes", "y", "yes, with grace")])
    main.ask(question, lambda answer: main.send(events) if answer else None)


def _offered(device: DevicePicture) -> str:
    return f"{title(device)}  {device.sample.name}   {device.blocked or 'idle'}"


def ask_which(main: MainScreen) -> bool:
    """Strangers are on some cards and nobody named any: which are to be used? True when it was asked."""
    picture = main.bridge.picture
    devices = [device for device in picture.devices if device.lanes]
    if picture.kind is not DeviceKind.GPU or picture.sample is None or not picture.sample.complete:
        return False
    if len(devices) < 2 or not any(device.strangers for device in devices):
        return True
    items = [
        Item(
            device.sample.key,
            f"{title(device)}  {device.sample.name}   {device.blocked or 'idle'}",
            not device.strangers,
        )
        for device in devices
    ]

    def answered(picked: list[str] | None) -> None:
        if picked is None:
            return
        off = {lane.id for device in devices if device.sample.key not in picked for lane in device.lanes}
        lanes = tuple(lane for lane in main.snapshot.lanes if lane.id not in off)
        if off and lanes:
            main.send(
                [SetLanes(lanes, these=True)],
                f"{counted(len(lanes), 'lane is', 'lanes are')} used; gputui gpus changes them",
            )

    body = "Others are on some of these cards. Cards that are picked but taken are used when they come free."
    main.ask(Pick("Which GPUs?", body, items, go="use them"), answered)
    return True
