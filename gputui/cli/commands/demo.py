"""`gputui demo`: run the app with fake jobs on simulated GPUs, in a temporary directory that is removed afterwards."""

from __future__ import annotations

import os
import sys
import tempfile

from gputui.cli.output import out, refuse, say
from gputui.cli.parser import Options, Parser
from gputui.cli.session_flags import THEMES


def parser(subcommand: str) -> Parser:
    parser = Parser(
        subcommand,
        "Try gputui with fake training jobs on simulated GPUs, some of which fail, with hints on what to "
        "press next. Needs no GPU, uses a temporary directory and leaves nothing behind.",
        usage="demo [options]",
        examples="gputui demo\ngputui demo --speed 3",
    )
    parser.add_argument("--speed", metavar="N", help="run the fake jobs N times faster (1)")
    parser.add_argument("--theme", choices=THEMES, help="color theme (dark)")
    return parser


def work(options: Options) -> int:
    from gputui.tui.terminal.tty import refusal

    if (problem := refusal()) is not None:
        refuse(problem)
    speed = _speed(options.speed)

    from gputui.cli.app import SWITCH_INTERVAL
    from gputui.demo.broom import Broom
    from gputui.demo.stage import Stage, run_demo

    sys.setswitchinterval(SWITCH_INTERVAL)
    directory = os.path.realpath(tempfile.mkdtemp(prefix="gputui-demo-"))
    stage = Stage(directory, speed)
    broom = Broom(directory, stage.session)
    try:
        stage.set_up()
        status = run_demo(stage, options.theme)
    finally:
        problem = broom.sweep()
    if problem is not None:
        say(problem)
        return 1
    out("Demo ended and cleaned up. For your own jobs: gputui jobs.txt, one command per line.")
    return status


def _speed(written: str | None) -> float:
    try:
        speed = 1.0 if written is None else float(written)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= 100:
        refuse(f"invalid --speed {written!r}: use a number above 0, up to 100, such as 3")
    return speed
