"""Stops, continues and crashes of a small app in a real shell; `test_app_stop.py` stops the whole app."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from support.app import restored
from support.terminal import CTRL_Z, HOST, Hosted, hosted
from support.waiting import until

SHELL = ("bash", "--norc", "--noprofile", "-i")


@contextmanager
def in_a_shell(directory: Path) -> Iterator[Hosted]:
    with hosted(directory, words=SHELL) as host:
        host.terminal.shows("$")
        host.terminal.press(f"{shlex.join(HOST)} ticks\r")
        yield host.ready()


def stopped(pid: int) -> bool:
    """Whether the app and the program that it lent the terminal to are stopped."""
    app = psutil.Process(pid)
    return all(each.status() == psutil.STATUS_STOPPED for each in (app, *app.children(recursive=True)))


def has_left_the_screen(host: Hosted) -> None:
    until(lambda: stopped(host.pid), "the app is stopped")
    host.terminal.shows("Stopped")
    assert not host.terminal.emulator.alternate


def leaves(host: Hosted) -> None:
    host.terminal.press("q")
    until(lambda: not host.terminal.emulator.alternate, "the app has left the screen")
    host.terminal.press("echo status $?\r")
    host.terminal.shows("status 7")


def test_sigtstp_stops_the_app_as_ctrl_z_does_and_in_the_background_it_stays_stopped(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        os.kill(host.pid, signal.SIGTSTP)
        has_left_the_screen(host)
        assert host.times("before stop") == 1
        host.terminal.press("clear; bg; echo continued $((1 + 1))\r")
        host.terminal.shows("continued 2")
        until(lambda: stopped(host.pid), "it was stopped again")
        assert host.times("after continue") == 0
        host.terminal.press("fg\r")
        host.tells("after continue")
        host.terminal.shows("hello there")
        assert host.terminal.emulator.alternate


def test_ctrl_z_stops_a_program_that_has_the_terminal(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        host.terminal.press("L")
        host.terminal.shows("lent")
        host.terminal.press(CTRL_Z)
        has_left_the_screen(host)
        assert host.times("before stop") == 1
        host.terminal.press("fg\r")
        host.tells("after continue")
        host.terminal.press("\x04")
        host.terminal.shows("hello there")
        leaves(host)


def test_after_sigstop_the_screen_is_redrawn(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        os.kill(host.pid, signal.SIGSTOP)
        host.terminal.shows("Stopped")
        host.terminal.press("fg\r")
        until(lambda: not stopped(host.pid) and "Stopped" not in host.terminal.text, "the app has the screen again")
        host.terminal.shows("hello there")
        assert host.times("before stop") == 0
        leaves(host)


def test_ctrl_z_does_nothing_where_no_shell_could_continue_the_app(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press(CTRL_Z)
        host.tells("nobody to continue")
        host.terminal.press("a")
        host.terminal.shows("again 1")
        os.kill(host.pid, signal.SIGTSTP)
        host.tells("nobody to continue", 2)


def test_an_exception_restores_the_terminal_and_is_shown(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press("e")
        assert host.terminal.status() == 1
        assert "ZeroDivisionError" in host.terminal.text
        restored(host.terminal)
