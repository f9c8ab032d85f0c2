"""When the main screen is painted, and all that is painted around the queue: header, banner, GPUs, footer."""

from __future__ import annotations

import time
from collections.abc import Set
from typing import TYPE_CHECKING

from gputui.core.job import JobId
from gputui.core.lanes import DeviceKind
from gputui.core.views.alerts import Alerts
from gputui.gpus.picture import DevicesPicture
from gputui.tui.actions.devices import ask_which
from gputui.tui.actions.offered_actions import offered
from gputui.tui.looks.palette import palette_of
from gputui.tui.model.arrangement import Pane
from gputui.tui.model.news import alike
from gputui.tui.widgets.banner import MONITOR, notices
from gputui.tui.widgets.crash_banner import crash_rows

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

PAINT_EVERY = 0.25
"""Seconds between repaints for news; keys are answered at once."""
TITLES = {
    DeviceKind.GPU: "GPUs",
    DeviceKind.CPU: "CPU",
    DeviceKind.SIMULATED: "GPUs",
    DeviceKind.SLURM: "Nodes",
}


class Painter:
    def __init__(self, main: MainScreen) -> None:
        self._main = main
        self._painted = 0.0
        self._paint_due = False
        self._devices_painted = False
        self._alerts = Alerts(main.bridge.snapshot, main.status.where.session)

    def news(self) -> None:
        """Something changed; painted at once or a little later, so that many changes are one repaint."""
        wait = PAINT_EVERY - (time.monotonic() - self._painted)
        if wait <= 0:
            self._paint_news()
        elif not self._paint_due:
            self._paint_due = True
            self._main.set_timer(wait, self._paint_news)

    def _paint_news(self) -> None:
        """The figures of devices alone change every second: they are painted with the clocks, in one go."""
        main = self._main
        self._paint_due = False
        changed = main.bridge.take_changed()
        if changed or not self._devices_painted or not alike(main.bridge.snapshot, main.snapshot):
            self.paint(changed)

    def paint(self, changed: Set[JobId] = frozenset()) -> None:
        """`changed`: what was taken from the bridge already."""
        main = self._main
        self._painted = time.monotonic()
        changed |= main.bridge.take_changed()
        snapshot = main.bridge.snapshot
        for message in self._alerts.look(snapshot, changed, main.now()):
            main.on_alert(message)
        main.table.show(snapshot, changed)
        main.table.tell(now=main.now())
        self._paint_around()
        if main.table.cursor in changed:
            main.logs.show()
        for view in main.views:
            view.paint()

    def reset(self) -> None:
        """All anew."""
        main = self._main
        main.bridge.take_changed()
        self._alerts = Alerts(main.bridge.snapshot, main.status.where.session)
        main.table.reset(main.bridge.snapshot)
        self.paint()
        main.logs.show()
        main.places.arrange()

    def look(self) -> None:
        """Once a second: what changes by itself."""
        main = self._main
        if main.asks_which_gpus and main.app.screen is main and ask_which(main):
            main.asks_which_gpus = False
        main.queue.look()
        main.occasion.look()
        self.paint()

    def footer(self) -> None:
        self._main.footer.show(offered(self._main), self._main.changed_keys)

    def _paint_around(self) -> None:
        main = self._main
        now, snapshot, picture = main.now(), main.snapshot, main.bridge.picture
        main.status.show(snapshot, now, monitor=not main.bridge.has_session, read_only=main.read_only)
        self._devices_painted = picture.sample is not None
        trouble = picture.sample.trouble if picture.sample is not None else None
        sentence = f"{trouble.message}; {trouble.advice}" if trouble is not None else None
        said = notices(snapshot, sentence, main.bridge.unseen()) if main.bridge.has_session else [MONITOR]
        palette = palette_of(main.app.theme)
        main.banner.show(said, main.size.width, crash_rows(snapshot, main.size.width, palette, now, main.short_name))
        self._paint_gpus(picture, now)
        main.places.arrange()
        main.queue.paint_titles()
        self.footer()

    def _paint_gpus(self, picture: DevicesPicture, now: float) -> None:
        """Zoomed, or where there is nothing else, it shows the machine too."""
        main = self._main
        session = main.bridge.has_session
        main.gpus.title = TITLES[picture.kind]
        main.gpus.full = main.places.zoomed is Pane.GPUS or not session
        machine = main.bridge.machine.facts() if main.gpus.full else None
        main.gpus.show(picture, main.snapshot if session else None, main.short_name, now, machine)
        self.gpu_heading()

    def gpu_heading(self) -> None:
        """The band over the cards names their columns."""
        main = self._main
        main.gpu_band.head(1, main.gpus.title)
        main.gpu_band.show(*main.gpus.heading())
