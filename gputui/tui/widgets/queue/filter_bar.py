"""The line in which one types a filter for the queue, or words to look for in the log; it covers the footer."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

FILTER_HINT = "state:failed lr=0.1 text !not       enter keeps it · esc shows all"
SEARCH_HINT = "look for …       enter, then n and N"


class FilterBar(Input):
    """Hidden until asked for. Filters while one types; searches when one is done."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", show=False)]

    class Typed(Message):
        """The filter as it stands."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Done(Message):
        """`searches`: words to look for in the log, not a filter; not `kept`: given up."""

        def __init__(self, text: str, *, searches: bool, kept: bool) -> None:
            super().__init__()
            self.text = text
            self.searches = searches
            self.kept = kept

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(compact=True, id=id, select_on_focus=False)
        self.display = False
        self._searches = False

    def begin(self, text: str, *, search: bool) -> None:
        self._searches = search
        self.placeholder = SEARCH_HINT if search else FILTER_HINT
        self.display = True
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.focus()

    def _end(self, *, kept: bool) -> None:
        self.display = False
        self.post_message(self.Done(self.value, searches=self._searches, kept=kept))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.display and not self._searches:
            self.post_message(self.Typed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._end(kept=True)

    def action_give_up(self) -> None:
        self._end(kept=False)
