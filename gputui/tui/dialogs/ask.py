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
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from gputui.logs.plain import plain

Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """The base class of all dialogs. Escape closes a dialog with the answer None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def action_cancel(self) -> None:
        self.dismiss(None)

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        # A second click that arrives with the first would dismiss the screen below.
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


def field(label: str, widget: Widget, classes: str = "field") -> Horizontal:
    """Return a form row with a label and a widget."""
    return Horizontal(Static(Text(label), markup=False, classes="label"), widget, classes=classes)


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
        super().__init__()
        self._title = title
        self._body = body
        self.choices = choices
        self._cancel = cancel
        self._every = every
        self._shown = Static(markup=False, classes="body")

    def compose(self) -> ComposeResult:
        options = [Option(Text(f" {choice.key:>3}  {choice.label}")) for choice in self.choices]
        options.append(Option(Text(f" Esc  {self._cancel}")))
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            frame.border_subtitle = Text("Enter: highlighted line")
            self._shown.update(Text(self._text()))
            yield self._shown
            yield OptionList(*options, markup=False, compact=True)

    def on_mount(self) -> None:
        if self._every is not None:
            self.set_interval(self._every, lambda: self._shown.update(Text(self._text()), layout=False))

    def _text(self) -> str:
        written = self._body if isinstance(self._body, str) else self._body()
        return "\n".join(plain(line) for line in written.split("\n"))

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


@dataclass(frozen=True)
class Item:
    value: str
    label: str
    picked: bool = False


class Boxes(SelectionList[str]):
    """A list with `[x]` or `[ ]` before each item, so that it can be read without colours."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
    ]

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
        super().__init__()
        self._title = title
        self._body = body
        self._items = items
        self._go = go
        self.twice = False
        """Whether the user submitted with the second key."""
        self._twice = twice
        selections = [Selection(Text(plain(item.label)), item.value, item.picked) for item in items]
        self._list = Boxes(*selections, compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            yield Static(Text("\n".join(map(plain, self._body.split("\n")))), markup=False, classes="body")
            yield self._list
            other = f" · {self._twice[0]}: {self._twice[1]}" if self._twice is not None else ""
            yield Static(Text(f"Space: pick · a: all · Enter: {self._go}{other} · Esc: back"), classes="hint")

    def on_key(self, event: Key) -> None:
        if self._twice is not None and event.character == self._twice[0]:
            event.stop()
            self.twice = True
            self.action_submit()

    def action_submit(self) -> None:
        self.dismiss(list(self._list.selected))

    def action_all(self) -> None:
        if len(self._list.selected) == len(self._items):
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
    """A text to read, such as the help. If there are several texts, `v` shows the next one."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter", "cancel", show=False),
        Binding("v", "next_text", show=False),
    ]

    def __init__(self, title: str, texts: list[Callable[[], Text]], hint: str, *, wide: bool = False) -> None:
        super().__init__()
        self._title = title
        self._texts = texts
        self._hint = hint
        self._index = 0
        self._wide = wide
        self.page = VerticalScroll(can_focus=True)
        self._text = Static(texts[0](), markup=False, id="text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog reading -wide" if self._wide else "dialog reading") as frame:
            frame.border_title = Text(plain(self._title))
            with self.page:
                yield self._text
            yield Static(Text(f"{self._hint} · Esc: close"), markup=False, classes="hint")

    def action_next_text(self) -> None:
        self._index = (self._index + 1) % len(self._texts)
        self._text.update(self._texts[self._index]())
