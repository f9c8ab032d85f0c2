"""Ctrl-Z in a real shell with job control: the session is handed over before the stop and taken back after it."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from support.hosting import HOST, Hosted, hosted
from support.terminal import CTRL_Z
from support.waiting import until

SHELL = ("bash", "--norc", "--noprofile", "-i")


@contextmanager
def in_a_shell(folder: Path, before: str = "") -> Iterator[Hosted]:
    with hosted(folder, words=SHELL) as host:
        host.terminal.shows("$")
        host.terminal.press(f"{before}{shlex.join(HOST)} ticks\r")
        yield host.ready()


def stopped(pid: int) -> bool:
    """With all of its job. A reader of the terminal that is not on a processor when Ctrl-Z is pressed first takes what
    is typed meanwhile, and stops then."""
    job = [process for process in psutil.process_iter() if in_job(process, os.getpgid(pid))]
    return all(process.status() == psutil.STATUS_STOPPED for process in job)


def in_job(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group
    except ProcessLookupError:
        return False


def has_left_the_screen(host: Hosted) -> None:
    until(lambda: stopped(host.pid), "it is stopped")
    host.terminal.shows("Stopped")
    assert not host.terminal.emulator.alternate


def is_back(host: Hosted, times: int) -> None:
    host.tells("after continue", times)
    host.terminal.shows("hello there")
    assert host.terminal.emulator.alternate


def leaves(host: Hosted) -> None:
    host.terminal.press("q")
    until(lambda: not host.terminal.emulator.alternate, "the app has left the screen")
    host.terminal.press("echo status $?\r")
    host.terminal.shows("status 7")


def test_ctrl_z_hands_over_then_stops_and_fg_takes_back(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        for times in (1, 2):
            host.terminal.press(CTRL_Z)
            has_left_the_screen(host)
            assert host.times("before stop") == times
            assert host.times("after continue") == times - 1
            host.terminal.press("fg\r")
            is_back(host, times)
        leaves(host)


def test_continued_in_the_background_it_stays_stopped_until_fg(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        host.terminal.press(CTRL_Z)
        has_left_the_screen(host)
        host.terminal.press("clear; bg; echo continued $((1 + 1))\r")
        host.terminal.shows("continued 2")
        until(lambda: stopped(host.pid), "it was stopped again")
        assert host.times("after continue") == 0
        host.terminal.press("fg\r")
        is_back(host, 1)


def test_a_stopped_app_whose_terminal_hangs_up_leaves_without_taking_back(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        host.terminal.press(CTRL_Z)
        has_left_the_screen(host)
        pid = host.pid
        host.terminal.hang_up()
        until(lambda: not Path(f"/proc/{pid}").exists(), "the app has left")
        assert host.times("lost") == 1
        assert host.times("after continue") == 0


def test_with_a_pipe_in_front_the_whole_job_stops(tmp_path: Path) -> None:
    with in_a_shell(tmp_path, "(echo jobs; exec sleep 600 >/dev/null) | ") as host:
        host.terminal.press(CTRL_Z)
        has_left_the_screen(host)
        host.terminal.press("fg\r")
        is_back(host, 1)


def test_a_stop_signal_from_outside_is_as_ctrl_z(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        os.kill(host.pid, signal.SIGTSTP)
        has_left_the_screen(host)
        assert host.times("before stop") == 1
        host.terminal.press("fg\r")
        is_back(host, 1)


def test_a_program_that_the_terminal_is_lent_to_can_be_stopped_too(tmp_path: Path) -> None:
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


def test_after_a_stop_that_it_could_not_see_the_picture_is_drawn_again(tmp_path: Path) -> None:
    with in_a_shell(tmp_path) as host:
        os.kill(host.pid, signal.SIGSTOP)
        host.terminal.shows("Stopped")
        host.terminal.press("fg\r")
        until(lambda: not stopped(host.pid) and "Stopped" not in host.terminal.text, "the app has the screen again")
        host.terminal.shows("hello there")
        assert host.times("before stop") == 0
        leaves(host)


def test_where_no_shell_could_continue_it_ctrl_z_does_not_stop(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        host.ready().terminal.press(CTRL_Z)
        host.tells("nobody to continue")
        host.terminal.press("a")
        host.terminal.shows("again 1")
        os.kill(host.pid, signal.SIGTSTP)
        host.tells("nobody to continue", 2)
