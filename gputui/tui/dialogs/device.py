"""The dialog for one device: what runs on it and the actions that are possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.core.job import JobId
from gputui.core.snapshot import Snapshot
from gputui.gpus.picture import DevicePicture, DevicesPicture
from gputui.gpus.sample import DeviceSample, Status
from gputui.logs.plain import plain
from gputui.tui.gpus import occupants
from gputui.tui.gpus.occupants import HEADING, KEYS, DeviceChoice, View, choices, occupant, process_lines

from .ask import Paged


class DeviceScreen(Paged[DeviceChoice | None]):
    """A dialog about one device. The result is the user's choice or None. `show` updates the dialog while it
    is open.
    """

    SHAPE = "device"
    SUBTITLE = "Esc: close"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "cancel", show=False),
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
        super().__init__(_heading(device))
        self.device = device
        self._view = View(picture, snapshot, name_of, now)
        self._read_only = read_only
        self._offered: list[tuple[DeviceChoice, str]] = []
        self._about = Static(id="about", markup=False)
        self._processes = Static(id="processes", markup=False)
        self.page = VerticalScroll(self._processes, can_focus=False)
        self._choices = OptionList(id="choices", markup=False)

    def body(self) -> ComposeResult:
        yield self._about
        yield self.page
        yield self._choices

    def on_mount(self) -> None:
        self._draw()

    @property
    def snapshot(self) -> Snapshot | None:
        """The displayed snapshot, or None without a session."""
        return self._view.snapshot

    def show(
        self, picture: DevicesPicture, snapshot: Snapshot | None, name_of: Callable[[JobId], str], now: float
    ) -> None:
        """Update the dialog from a newer picture of the same device."""
        self._view = View(picture, snapshot, name_of, now)
        self.device = picture.device(self.device.sample.key) or self.device
        self._draw()

    def _draw(self) -> None:
        self._about.update("\n".join(about(self._view, self.device)))
        lines = process_lines(self._view, self.device)
        listed = [HEADING, *lines] if lines else [_nothing_listed(self.device.sample)]
        self._processes.update("\n".join(listed))
        offered = [] if self._read_only else list(choices(self.device, self._view.snapshot))
        if offered != self._offered:
            self._offered = offered
            options = self._choices
            options.clear_options()
            options.add_options([Option(Content(f"{KEYS[choice]}  {words}"), choice) for choice, words in offered])
            options.display = bool(offered)

    def action_choose(self, key: str) -> None:
        for choice, _ in self._offered:
            if KEYS[choice] == key:
                self.dismiss(choice)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(DeviceChoice(event.option.id or ""))


def _heading(device: DevicePicture) -> str:
    """Return `GPU 0 NVIDIA A100`, or just `GPU 0` if the name is unknown."""
    short, name = device.sample.label, plain(device.sample.name)
    return short if name.casefold() in short.casefold() else f"{short}  {name}"


def _nothing_listed(sample: DeviceSample) -> str:
    if sample.uuid.startswith("SIM-"):
        return "simulated: no real processes"
    return "CPU only: see the host's processes" if sample.uuid.startswith("CPU-") else "no processes"


def about(view: View, device: DevicePicture) -> list[str]:
    """Describe a device in a few lines: who uses it, its load and memory, and any problems."""
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
    # A count of 0 is shown too, to say that errors are counted.
    ecc, replays = sample.ecc_corrected, sample.pcie_replays
    errors = f"ECC errors: {ecc:,} corrected, {sample.ecc_uncorrected or 0:,} uncorrected" if ecc is not None else ""
    replayed = f"PCIe replays: {replays:,}" if replays is not None else ""
    counters = " · ".join(filter(None, (clocks, errors, replayed)))
    return [*lines, *([counters] if counters else []), plain(sample.uuid)]
