"""A small app on the terminal contract, for tests; what happens to it is written to the file GPUTUI_HOST_LOG.

`python terminal_host.py [ticks] [stock]`: with a counter on the screen, without cell diff.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.tty import colours


class Question(ModalScreen[None]):
    CSS = "Question { align: center middle; } #box { width: 31; height: 5; border: round red; }"
    BINDINGS: ClassVar[list[BindingType]] = [("y", "dismiss")]

    def compose(self) -> ComposeResult:
        yield Label("shall we? 你好世界 of course", id="box")


class Host(TerminalApp[int]):
    CSS = "Static { height: 1; } #wide { width: 40; } #grid { height: 1fr; } Screen { layout: vertical; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("a", "say('again')"),
        ("b", "same"),
        ("w", "widen"),
        ("m", "ask"),
        ("n", "busier"),
        ("q", "leave"),
        ("L", "lend"),
        ("e", "crash"),
        ("x", "nothing"),
    ]

    def __init__(self, parts: set[str]) -> None:
        super().__init__(colours=colours(), cell_diff="stock" not in parts)
        self.parts = parts
        self.presses = 0
        self.frames = 0

    def compose(self) -> ComposeResult:
        yield Static("hello there", id="hello", markup=False)
        yield Static("ticks 0", id="ticks", markup=False)
        yield Static("日本語テキスト x 表示幅", id="wide", markup=False)
        yield Static("", id="grid", markup=False)

    def on_mount(self) -> None:
        tell(f"mounted {os.getpid()}")
        if "ticks" in self.parts:
            self.set_interval(0.02, self.tick)

    # Callbacks of the terminal

    def before_stop(self) -> None:
        tell("before stop")

    def after_continue(self) -> None:
        tell("after continue")

    def nobody_to_continue(self) -> None:
        tell("nobody to continue")

    # Keys

    def tick(self) -> None:
        self.frames += 1
        self.query_one("#ticks", Static).update(f"ticks {self.frames}", layout=False)

    def action_say(self, word: str) -> None:
        self.presses += 1
        self.query_one("#hello", Static).update(f"{word} {self.presses}", layout=False)

    def action_same(self) -> None:
        self.query_one("#hello", Static).refresh()
        self.query_one("#wide", Static).refresh(layout=True)
        self.call_after_refresh(tell, "same")

    def action_nothing(self) -> None:
        tell("nothing")

    def action_widen(self) -> None:
        self.presses += 1
        texts = ("日本語テキスト x 表示幅", "a本語テキ ト xy表示幅", "x日本語テキスト 表示 幅", "é ñ 👩‍🔬 ❤️ ok")
        self.query_one("#wide", Static).update(texts[self.presses % len(texts)])

    def action_ask(self) -> None:
        self.push_screen(Question())

    def action_busier(self) -> None:
        self.frames += 1
        grid = self.query_one("#grid", Static)
        colors = ["red", "green", "#8090a0 on #203040", "bold"] * 50
        lines = (
            Text("".join(chr(33 + (self.frames * 7 + x * y) % 90) for x in range(grid.size.width)), style=color)
            for y, color in zip(range(grid.size.height), colors, strict=False)
        )
        grid.update(Text("\n").join(lines), layout=False)
        self.query_one("#ticks", Static).update(f"frame {self.frames}", layout=False)
        tell(f"frame {self.frames}")

    def action_lend(self) -> None:
        with self.suspend():
            subprocess.run(["sh", "-c", "echo lent; exec cat"])

    def action_crash(self) -> None:
        raise ZeroDivisionError("on purpose")

    def action_leave(self) -> None:
        self.exit(return_code=7)


def tell(what: str) -> None:
    with LOG.open("a") as log:
        log.write(what + "\n")


LOG = Path(os.environ.get("GPUTUI_HOST_LOG", os.devnull))

if __name__ == "__main__":
    host = Host(set(sys.argv[1:]))
    host.run()
    sys.exit(host.return_code)
