"""Questions with a few answers, lists to pick from, and texts to read, such as the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from gputui.logs.plain import plain

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """The base class of all dialogs: a frame with a title around a `body`. Escape closes it with the answer None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]
    SHAPE = ""
    """The style classes of the frame in addition to `dialog`."""
    SUBTITLE = ""
    """The text in the lower border of the frame."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        with Vertical(classes=f"dialog {self.SHAPE}") as frame:
            frame.border_title, frame.border_subtitle = Text(plain(self._title)), self.SUBTITLE
            yield from self.body()

    def body(self) -> ComposeResult:
        """Yield the widgets inside the frame."""
        yield from ()

    def action_cancel(self) -> None:
        self.dismiss(None)

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        # A second click that arrives with the first would dismiss the screen below.
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


def text_of(written: str) -> Text:
    """Return a text of several lines without control characters."""
    return Text("\n".join(map(plain, written.split("\n"))))


# Questions


@dataclass(frozen=True)
class Choice:
    """An answer to a question. `key` chooses it directly. Enter chooses the highlighted answer, initially the first."""

    value: str
    key: str
    label: str
    also: tuple[str, ...] = ()
    """Other keys that give the same answer."""


class Ask(Dialog[str | None]):
    """A question with a few answers. The result is the value of the choice, or None."""

    AUTO_FOCUS = "OptionList"
    SUBTITLE = "Enter: highlighted line"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False),  # otherwise the binding of the app is used
    ]

    def __init__(
        self,
        title: str,
        body: str | Callable[[], str],
        choices: list[Choice],
        *,
        cancel: str = "cancel",
        every: float | None = None,
    ) -> None:
        """Create a question. If `every` is given, `body` is rendered again after that many seconds."""
        super().__init__(title)
        self._text = body if callable(body) else lambda: body
        self.choices = choices
        self._cancel = cancel
        self._every = every
        self._shown = Static(classes="body")

    def body(self) -> ComposeResult:
        options = [Option(Text(f" {choice.key:>3}  {choice.label}")) for choice in self.choices]
        options.append(Option(Text(f" Esc  {self._cancel}")))
        self._update()
        yield self._shown
        yield OptionList(*options, compact=True)

    def on_mount(self) -> None:
        if self._every is not None:
            self.set_interval(self._every, self._update)

    def _update(self) -> None:
        self._shown.update(text_of(self._text()), layout=False)

    def on_key(self, event: events.Key) -> None:
        for choice in self.choices:
            if event.key in (choice.key, *choice.also) or event.character == choice.key:
                event.stop()
                self.dismiss(choice.value)
                return

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = event.option_index
        self.dismiss(self.choices[chosen].value if chosen < len(self.choices) else None)

    def action_interrupt(self) -> None:
        self.dismiss(next((choice.value for choice in self.choices if "ctrl+c" in choice.also), None))


# Selections


LIST_KEYS: list[BindingType] = [
    Binding("j", "cursor_down", show=False),
    Binding("k", "cursor_up", show=False),
    Binding("g", "first", show=False),
    Binding("G", "last", show=False),
]
"""Keys that move in a list, in addition to Textual's own."""


@dataclass(frozen=True)
class Item:
    value: str
    label: str
    picked: bool = False


class Boxes(SelectionList[str]):
    """A list with `[x]` or `[ ]` before each item, so that it can be read without colours."""

    BINDINGS: ClassVar[list[BindingType]] = LIST_KEYS

    def render_line(self, y: int) -> Strip:
        line = OptionList.render_line(self, y)
        index = self.scroll_offset.y + y  # an item is always one line
        if index >= self.option_count:
            return line
        picked = self.get_option_at_index(index).value in self.selected
        style = next(iter(line)).style
        return Strip([Segment("[x] " if picked else "[ ] ", style), *line])


class Pick(Dialog[list[str] | None]):
    """A list in which any number of items can be selected. The result is their values, or None."""

    AUTO_FOCUS = "SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", show=False, priority=True),
        Binding("a,*", "all", show=False),
    ]

    def __init__(
        self, title: str, body: str, items: Sequence[Item], *, go: str, twice: tuple[str, str] | None = None
    ) -> None:
        """Create a list. `go` describes what Enter does. `twice` is a second key that also submits, and its
        description.
        """
        super().__init__(title)
        self._body = body
        self._hint = f"Space: pick · a: all · Enter: {go}{' · {}: {}'.format(*twice) if twice else ''} · Esc: back"
        self.twice = False
        """Whether the user submitted with the second key."""
        self._twice = twice[0] if twice is not None else None
        selections = [Selection(Text(plain(item.label)), item.value, item.picked) for item in items]
        self._list = Boxes(*selections, compact=True)

    def body(self) -> ComposeResult:
        yield Static(text_of(self._body), classes="body")
        yield self._list
        yield Static(Text(self._hint), classes="hint")

    def on_key(self, event: events.Key) -> None:
        if self._twice is not None and event.character == self._twice:
            event.stop()
            self.twice = True
            self.action_submit()

    def action_submit(self) -> None:
        self.dismiss(list(self._list.selected))

    def action_all(self) -> None:
        if len(self._list.selected) == self._list.option_count:
            self._list.deselect_all()
        else:
            self._list.select_all()


# Long texts


class Paged(Dialog[Answer]):
    """A dialog in which keys scroll the widget `page`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
        Binding("g", "edge(False)", show=False),
        Binding("G", "edge(True)", show=False),
        Binding("ctrl+d,pagedown", "half(1)", show=False),
        Binding("ctrl+u,pageup", "half(-1)", show=False),
    ]
    page: VerticalScroll

    def action_scroll(self, by: int) -> None:
        self.page.scroll_relative(y=by, animate=False)

    def action_half(self, direction: int) -> None:
        self.action_scroll(direction * max(1, self.page.size.height // 2))

    def action_edge(self, end: bool) -> None:
        if end:
            self.page.scroll_end(animate=False)
        else:
            self.page.scroll_home(animate=False)


class Reading(Paged[None]):
    """A text to read."""

    AUTO_FOCUS = "VerticalScroll"
    SHAPE = "reading"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,enter", "cancel", show=False)]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__(title)
        self.page = VerticalScroll(Static(text, id="text"), can_focus=True)

    def body(self) -> ComposeResult:
        yield self.page
        yield Static("j k scroll · Esc: close", classes="hint")
