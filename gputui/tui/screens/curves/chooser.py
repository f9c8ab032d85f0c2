"""`m`: which metric jobs are compared by; the same key again shows their curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gputui.core.metric_names import direction_of
from gputui.core.results import Direction
from gputui.core.views.amounts import counted
from gputui.logs.plain import plain

CURVES = "\0curves"
WAYS = {Direction.DOWN: "down is good", Direction.UP: "up is good", Direction.UNKNOWN: ""}


class MetricChooser(ModalScreen[str | None]):
    """Answers with a metric's name, or `CURVES`."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", show=False),
        Binding("m", "curves", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
    ]

    def __init__(self, names: Sequence[tuple[str, int]], chosen: str | None) -> None:
        """Names with how many jobs printed each."""
        super().__init__()
        self._names = [name for name, _ in names]
        longest = max((len(plain(name)) for name, _ in names), default=0)
        self._list = OptionList(*(Option(_told(name, count, longest)) for name, count in names), compact=True)
        self._list.highlighted = self._names.index(chosen) if chosen in self._names else 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text("Metric")
            yield Static(Text("Jobs are compared and sorted by it."), markup=False, classes="body")
            yield self._list
            yield Static(Text("enter takes it · m shows curves · esc goes back"), markup=False, classes="hint")

    @on(OptionList.OptionSelected)
    def _taken(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])

    def action_curves(self) -> None:
        self.dismiss(CURVES)

    def action_move(self, by: int) -> None:
        if by > 0:
            self._list.action_cursor_down()
        else:
            self._list.action_cursor_up()

    def action_cancel(self) -> None:
        self.dismiss(None)


def _told(name: str, count: int, longest: int) -> Text:
    jobs = counted(count, "job", "jobs")
    return Text(f" {plain(name):<{longest}}   {jobs:>10}   {WAYS[direction_of(name)]}")
