"""Questions with a few answers, lists to pick from, and texts to read such as the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import OptionList, SelectionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from gputui.logs.plain import plain
from gputui.tui.action_table import ACTIONS, Part
from gputui.views.format import cut

# ---- The base of all dialogs ----


Answer = TypeVar("Answer")


class Dialog(ModalScreen[Answer]):
    """Answers once: of two clicks that came together, the second would close what is below it."""

    def dismiss(self, result: Answer | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


# ---- A question with a few answers, each with its key ----


@dataclass(frozen=True)
class Choice:
    """`key` answers at once; the first choice is also Enter's."""

    value: str
    key: str
    label: str
    also: tuple[str, ...] = ()
    """Further keys with the same meaning."""


class Ask(Dialog[str | None]):
    """Answers with a choice's value, or None."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("ctrl+c", "interrupted", show=False),  # or the app's own would come first
    ]

    def __init__(
        self,
        title: str,
        body: str | Callable[[], str],
        choices: list[Choice],
        *,
        cancel: str = "go back",
        every: float | None = None,
    ) -> None:
        """`every`: the body changes with time and is asked for again so often."""
        super().__init__()
        self._title = title
        self._body = body
        self.choices = choices
        self._cancel = cancel
        self._every = every
        self._shown = Static(markup=False, classes="body")

    def compose(self) -> ComposeResult:
        options = [Option(Text(f" {choice.key:>3}  {choice.label}")) for choice in self.choices]
        options.append(Option(Text(f" esc  {self._cancel}")))
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            frame.border_subtitle = Text("Enter: highlighted line")
            self._shown.update(Text(self._text()))
            yield self._shown
            yield OptionList(*options, markup=False, compact=True)

    def on_mount(self) -> None:
        if self._every is not None:
            self.set_interval(self._every, self._again)

    def _text(self) -> str:
        written = self._body if isinstance(self._body, str) else self._body()
        return "\n".join(plain(line) for line in written.split("\n"))

    def _again(self) -> None:
        self._shown.update(Text(self._text()), layout=False)

    def on_key(self, event: events.Key) -> None:
        for choice in self.choices:
            if event.key in (choice.key, *choice.also) or event.character == choice.key:
                event.stop()
                self.dismiss(choice.value)
                return

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = event.option_index
        self.dismiss(self.choices[chosen].value if chosen < len(self.choices) else None)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_interrupted(self) -> None:
        self.dismiss(next((choice.value for choice in self.choices if "ctrl+c" in choice.also), None))


# ---- A list of things of which some are picked ----


@dataclass(frozen=True)
class Item:
    value: str
    label: str
    picked: bool = False


class Boxes(SelectionList[str]):
    """`[x]` or `[ ]` before each: told by a letter, for a colour alone tells nothing on some screens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
        Binding("g", "first", show=False),
        Binding("G", "last", show=False),
    ]

    def render_line(self, y: int) -> Strip:
        line = OptionList.render_line(self, y)
        index = self.scroll_offset.y + y  # each has one line: what is too long is cut
        if index >= self.option_count:
            return line
        picked = self.get_option_at_index(index).value in self.selected
        style = next(iter(line)).style
        return Strip([Segment("[x] " if picked else "[ ] ", style), *line])


class Pick(Dialog[list[str] | None]):
    """Answers with the values that were picked, or None."""

    AUTO_FOCUS = "SelectionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", show=False),
        Binding("enter", "take", show=False, priority=True),
        Binding("a,*", "all", show=False),
    ]

    def __init__(
        self, title: str, body: str, items: Sequence[Item], *, go: str, twice: tuple[str, str] | None = None
    ) -> None:
        """`go`: what Enter does with the picked, in words; `twice`: the key that does it otherwise, and how."""
        super().__init__()
        self._title = title
        self._body = body
        self._items = items
        self._go = go
        self.twice = False
        """It was answered by that other key."""
        self._twice = twice
        selections = [Selection(Text(plain(item.label)), item.value, item.picked) for item in items]
        self._list = Boxes(*selections, compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog") as frame:
            frame.border_title = Text(plain(self._title))
            yield Static(Text("\n".join(map(plain, self._body.split("\n")))), markup=False, classes="body")
            yield self._list
            other = f" · {self._twice[0]} {self._twice[1]}" if self._twice is not None else ""
            yield Static(Text(f"space pick · a all · enter {self._go}{other} · esc back"), classes="hint")

    def on_key(self, event: Key) -> None:
        if self._twice is not None and event.character == self._twice[0]:
            event.stop()
            self.twice = True
            self.action_take()

    def action_take(self) -> None:
        self.dismiss(list(self._list.selected))

    def action_all(self) -> None:
        listed = self._list
        if len(listed.selected) == len(self._items):
            listed.deselect_all()
        else:
            listed.select_all()

    def action_cancel(self) -> None:
        self.dismiss(None)


# ---- A dialog with a text that may be longer than its room ----


class Paged(Dialog[Answer]):
    """`page` is what moves."""

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


# ---- A text to read, longer than the screen perhaps ----


class Reading(Paged[str | None]):
    """Any of `keys` ends it with that key as the answer; `texts` are shown in turn with `v`."""

    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "close", show=False),
        Binding("v", "turn", show=False),
    ]

    def __init__(self, title: str, texts: list[Callable[[], Text]], hint: str, *, wide: bool = False) -> None:
        super().__init__()
        self._title = title
        self._texts = texts
        self._hint = hint
        self._shown = 0
        self._wide = wide
        self.page = VerticalScroll(can_focus=True)
        self._text = Static(texts[0](), markup=False, id="text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog reading -wide" if self._wide else "dialog reading") as frame:
            frame.border_title = Text(plain(self._title))
            with self.page:
                yield self._text
            yield Static(Text(f"{self._hint} · esc goes back"), markup=False, classes="hint")

    def action_close(self) -> None:
        self.dismiss(None)

    def action_turn(self) -> None:
        self._shown = (self._shown + 1) % len(self._texts)
        self._text.update(self._texts[self._shown]())


# ---- The help ----


RULE = "Lower case never touches running work; capitals may, and ask."
SECOND = "gputui --read-only in another terminal looks on, and changes nothing."
MOVING = "j k ↑ ↓ g G ^d ^u PgUp PgDn"
COLUMN, GAP = 58, 2
KEYS = 9

Line = tuple[str, str]
"""Keys, or nothing before a heading; and what they do."""


def help_screen(keys: Mapping[str, str], width: int = 0) -> Reading:
    wide = width >= 2 * COLUMN + GAP + 4
    return Reading("Keys", [lambda: help_text(keys, columns=2 if wide else 1)], "j k scroll", wide=wide)


def help_text(keys: Mapping[str, str], *, columns: int = 1) -> Text:
    """`keys`: those the user's own keymap changed."""
    text = Text(no_wrap=columns > 1)
    text.append(f"{RULE}\n", "bold").append(
        f"{MOVING} move in a pane. Actions apply to the marked jobs, if any are.\n{SECOND}\n\n"
    )
    parts = [list(_part(part, keys)) for part in Part if any(action.part is part for action in ACTIONS)]
    if columns == 1:
        for line in (line for part in parts for line in part):
            _append(text, line, 0)
            text.append("\n")
        return text
    left, right = _halves(parts)
    for number in range(max(len(left), len(right))):
        _append(text, left[number] if number < len(left) else ("", ""), COLUMN)
        text.append(" " * GAP)
        _append(text, right[number] if number < len(right) else ("", ""), COLUMN)
        text.append("\n")
    return text


def _part(part: Part, keys: Mapping[str, str]) -> Iterator[Line]:
    yield "", part
    for action in (action for action in ACTIONS if action.part is part):
        yield keys.get(action.name, action.shown_keys), action.help
    yield "", ""


def _halves(parts: list[list[Line]]) -> tuple[list[Line], list[Line]]:
    """As even as topics allow, in their order."""
    total = sum(map(len, parts))
    left: list[Line] = []
    while parts and len(left) + len(parts[0]) // 2 <= total // 2:
        left += parts.pop(0)
    return left, [line for part in parts for line in part]


def _append(text: Text, line: Line, cells: int) -> None:
    """`cells`: exactly so many; 0: as many as it takes."""
    keys, words = line
    before = text.cell_len
    if keys:
        text.append(f"  {keys:<{KEYS}}", "bold").append(" ")
        text.append(cut(words, cells - (text.cell_len - before)) if cells else words)
    else:
        text.append(words, "bold underline")
    if cells:
        text.append(" " * max(0, cells - (text.cell_len - before)))
