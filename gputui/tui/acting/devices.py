"""Keys on a device: what is on it, taking it off and putting it back, ending what runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.gpus.picture import LaneState
from gputui.session.device_commands import drain, enable

if TYPE_CHECKING:
    from gputui.gpus.picture import DevicePicture
    from gputui.tui.screens.main import MainScreen


def drain_or_enable(main: MainScreen) -> None:
    device = main.gpus.device
    if device is None or device.state is None:
        main.say("there is no device of this session here")
        return
    _turn(main, device)


def _turn(main: MainScreen, device: DevicePicture) -> None:
    off = device.state in (LaneState.OFF, LaneState.DRAINING)
    command = enable if off else drain
    main.bridge.ask(lambda owner: command(owner, device), main.say, lambda why: main.say(why, grave=True))


def show_device(main: MainScreen) -> None:
    raise NotImplementedError
