"""The screen works on every Textual that the package accepts, also on one whose private names have changed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest
import textual
from support.terminal import hosted
from textual.app import ComposeResult
from textual.widgets import Static

from gputui.tui.terminal.app import TerminalApp
from gputui.tui.terminal.textual_private import parser_works
from gputui.tui.terminal.tty import Colours

ROOT = Path(__file__).parents[2]
REGISTRY_TIMEOUT = "15"
TESTS = (
    "tests/pty/test_terminal_bytes.py::test_a_changed_word_costs_little_more_than_the_word",
    "tests/pty/test_terminal_bytes.py::test_a_dialog_over_wide_characters_leaves_no_trace",
    "tests/pty/test_textual_versions.py::test_the_installed_textual_needs_no_fallback",
    "tests/pty/test_app_screen.py::test_after_resizing_the_screen_is_whole",
)


class Small(TerminalApp[None]):
    signals: list[int]

    def compose(self) -> ComposeResult:
        yield Static("hello", markup=False)

    def asked_to_leave(self, signum: int) -> None:
        self.signals = [signum]


def test_the_installed_textual_needs_no_fallback() -> None:
    assert Small()._display_works
    assert parser_works()


@pytest.mark.parametrize("name", ["ChopsUpdate", "chop_ends", "_batch_count", "_display", "XTermParser"])
def test_without_a_private_name_textuals_own_display_is_used(tmp_path: Path, name: str) -> None:
    package = tmp_path / "lib" / "textual"
    shutil.copytree(Path(textual.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in package.rglob("*.py"):
        text = module.read_text()
        if name in text:
            module.write_text(re.sub(rf"\b{name}\b", "renamed", text))
    with hosted(tmp_path, env={"PYTHONPATH": str(package.parent)}) as host:
        host.ready().terminal.press("a")
        host.terminal.shows("again 1")
        host.terminal.press("m")
        host.terminal.shows("shall we?")
        host.terminal.press("y")
        host.terminal.resize(60, 12)
        host.terminal.press("a")
        host.terminal.shows("again 2")
        host.terminal.press("q")
        assert host.terminal.status() == 7
        assert not host.terminal.emulator.alternate
        assert host.terminal.modes == host.terminal.modes_before


def requirement() -> str:
    dependencies: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return next(line for line in dependencies if line.startswith("textual"))


@pytest.mark.parametrize("version", ["oldest", "newest"])
def test_the_screen_works_on_the_oldest_and_the_newest_textual(tmp_path: Path, version: str) -> None:
    wanted = requirement() if version == "newest" else requirement().split(",")[0].replace(">=", "==")
    venv.create(tmp_path / "venv", with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    pip = [sys.executable, "-m", "pip", "--timeout", REGISTRY_TIMEOUT, "--retries", "0"]
    installed = subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", str(packages), wanted], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"no registry to install {wanted} from: {installed.stderr.strip().splitlines()[-1]}")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
    python = [str(tmp_path / "venv" / "bin" / "python")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run([*python, "-c", "import textual; print(textual.__file__)"], capture_output=True, text=True)
    assert shown.stdout.startswith(str(packages)), shown
    done = subprocess.run(
        [*python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], cwd=ROOT, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_in_a_pilot_test_it_is_an_ordinary_app_without_terminal_and_signals() -> None:
    watched = (signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT)
    before = [signal.getsignal(number) for number in watched]

    async def drive() -> None:
        app = Small()
        async with app.run_test() as pilot:
            await pilot.press("ctrl+l", "ctrl+z", "ctrl+c")
            assert app.signals == [signal.SIGINT]
            assert app.animation_level == "none"
            assert [signal.getsignal(number) for number in watched] == before

    asyncio.run(drive())


@pytest.mark.parametrize("colours", [Colours.SIXTEEN, Colours.NONE])
def test_few_colours_choose_a_theme_of_the_terminals_own(colours: Colours) -> None:
    assert Small(colours=colours).theme == "ansi-dark" != Small().theme
