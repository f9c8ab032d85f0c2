"""One device at a closer look: what is on it, and what can be done about it. Answers with a choice; does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample, Status
from gputui.logs.plain import plain
from gputui.session.devices.lane_changes import title
from gputui.tui.gpus import occupants
from gputui.tui.gpus.occupants import HEADING, KEYS, DeviceChoice, View, choices, occupant, process_lines

from .ask import Paged


class DeviceScreen(Paged[DeviceChoice | None]):
    """Dismissed with what the user chose, or None. `show` keeps it new while it is open."""

    DEFAULT_CSS = """
    DeviceScreen { align: center middle; }
    DeviceScreen > Vertical {
        width: 90%; max-width: 120; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1;
    }
    DeviceScreen VerticalScroll { height: auto; max-height: 14; margin: 1 0; }
    DeviceScreen #processes { text-wrap: nowrap; text-overflow: ellipsis; }
    DeviceScreen OptionList, DeviceScreen OptionList:focus {
        height: auto; border: none; background: $surface; padding: 0;
    }
    """
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Close"),
        *(Binding(key, f"choose('{key}')", show=False) for key in sorted(set(KEYS.values()))),
    ]

    def __init__(
        self,
        device: DevicePicture,
        picture: DevicesPicture,
        snapshot: Snapshot | None,
        name_of: Callable[[JobId], str],
        now: float,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__()
        self._device = device
        self._view = View(picture, snapshot, name_of, now)
        self._read_only = read_only
        self._offered: list[tuple[DeviceChoice, str]] = []
        self.page = VerticalScroll(can_focus=False)
        self._about = Static(id="about", markup=False)
        self._processes = Static(id="processes", markup=False)
        self._choices = OptionList(id="choices", markup=False)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(_heading(self._device))
            box.border_subtitle = Content("esc close")
            yield self._about
            with self.page:
                yield self._processes
            yield self._choices

    def on_mount(self) -> None:
        self._draw()

    @property
    def device(self) -> DevicePicture:
        """As it is shown."""
        return self._device

    @property
    def snapshot(self) -> Snapshot | None:
        """As it is shown; None: there is no session."""
        return self._view.snapshot

    def show(
        self, picture: DevicesPicture, snapshot: Snapshot | None, name_of: Callable[[JobId], str], now: float
    ) -> None:
        """The same device in a newer picture."""
        self._view = View(picture, snapshot, name_of, now)
        self._device = picture.device(self._device.sample.key) or self._device
        self._draw()

    def _draw(self) -> None:
        self._about.update("\n".join(about(self._view, self._device)))
        lines = process_lines(self._view, self._device)
        listed = [HEADING, *lines] if lines else [_nothing_listed(self._device.sample)]
        self._processes.update("\n".join(listed))
        offered = [] if self._read_only else list(choices(self._device, self._view.snapshot))
        if offered != self._offered:
            self._offered = offered
            options = self._choices
            options.clear_options()
            options.add_options([Option(Content(f"{KEYS[choice]}  {words}"), choice) for choice, words in offered])
            options.display = bool(offered)

    # What the user does

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_choose(self, key: str) -> None:
        """What is not offered now does nothing."""
        for choice, _ in self._offered:
            if KEYS[choice] == key:
                self.dismiss(choice)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(DeviceChoice(event.option.id or ""))


def _heading(device: DevicePicture) -> str:
    """`GPU 0  NVIDIA A100`; of a card whose name nobody knows the number alone."""
    called, name = title(device), plain(device.sample.name)
    return called if name.casefold() in called.casefold() else f"{called}  {name}"


def _nothing_listed(sample: DeviceSample) -> str:
    """Of what is no card, nobody can say which processes are on it."""
    if sample.uuid.startswith("SIM-"):
        return "simulated: no process is really on it"
    return "no GPU: its processes are among the host's" if sample.uuid.startswith("CPU-") else "no processes on it"


def about(view: View, device: DevicePicture) -> list[str]:
    """The device in a few lines: who has it, its figures, and what is wrong."""
    sample = device.sample
    who = occupant(view, device)
    lines = [f"{who.what}  {who.time}".rstrip()]
    if sample.status is not Status.OK:
        lines.append(f"! {sample.status.value}: {plain(sample.message)}")
    if device.blocked is not None and plain(device.blocked) != who.what:
        lines.append(plain(device.blocked))
    load = occupants.percent(sample.utilization).strip()
    memory = occupants.memory(sample.memory_used, sample.memory_total)
    power = occupants.power(sample.power, sample.power_limit)
    lines.append(
        f"load {load} · memory {memory}{' shared' if sample.memory_shared else ''} · "
        f"{occupants.temperature(sample.temperature)} · {power} · fan {occupants.percent(sample.fan).strip()}"
    )
    lines += [f"! {plain(warning.words)}" for warning in device.warnings if sample.status is Status.OK]
    clocks = f"{sample.clock:,} of {sample.clock_limit:,} MHz" if sample.clock and sample.clock_limit else ""
    figures_known = [part for part in (clocks, *counted_errors(sample)) if part]
    return [*lines, *([" · ".join(figures_known)] if figures_known else []), plain(sample.uuid)]


def counted_errors(sample: DeviceSample) -> list[str]:
    """Also where there were none: it is good to know that they are counted."""
    ecc, replays = sample.ecc_corrected, sample.pcie_replays
    return [
        f"ECC errors: {ecc:,} corrected, {sample.ecc_uncorrected or 0:,} not" if ecc is not None else "",
        f"PCIe replays: {replays:,}" if replays is not None else "",
    ]
