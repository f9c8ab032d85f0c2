"""`gputui demo`: the whole product on any machine, in a folder of its own of which nothing is left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from gputui.cli.output import out, refuse, say
from gputui.cli.parser import Options, Parser

if TYPE_CHECKING:
    from gputui.demo.stage import Stage
    from gputui.session.ownership.acquisition import Holding
    from gputui.tui.bridge import Bridge
    from gputui.tui.main_screen import MainScreen


GPUS = 4
GRACE = 5.0
THEMES = ("dark", "light", "ansi", "ansi-light")


def parser(verb: str) -> Parser:
    verb_parser = Parser(
        verb,
        "Shows what gputui does: pretend trainings on simulated GPUs, some of which crash, and a hint for what to try "
        "next. It needs no GPU, lives in a temporary folder, and leaves nothing behind.",
        usage="demo [options]",
        examples="gputui demo\ngputui demo --speed 3",
    )
    verb_parser.add_argument("--speed", metavar="N", help="let the pretend trainings run N times as fast (1)")
    verb_parser.add_argument("--theme", choices=THEMES, help="how it looks (dark)")
    return verb_parser


def main(verb: str, words: list[str]) -> int:
    from gputui.cli.command import carry_out

    return carry_out(parser(verb), words, work)


def work(options: Options) -> int:
    from gputui.tui.terminal.tty import refusal

    why_not = refusal()
    if why_not is not None:
        refuse(why_not)
    return _in_a_folder_of_its_own(_speed(options.speed), options.theme)


def _speed(written: str | None) -> float:
    try:
        speed = 1.0 if written is None else float(written)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= 100:
        refuse(f"--speed: {written!r} is not a number above 0, up to 100; write for example 3")
    return speed


def _in_a_folder_of_its_own(speed: float, theme: str | None) -> int:
    import tempfile

    from gputui.demo.broom import Broom
    from gputui.demo.stage import Stage

    folder = os.path.realpath(tempfile.mkdtemp(prefix="gputui-demo-"))
    stage = Stage(folder, speed)
    broom = Broom(folder, stage.session)
    try:
        stage.set_up()
        status = Demo(stage, theme).run()
    finally:
        leftovers = broom.sweep()
    if leftovers is not None:
        say(leftovers)
        return 1
    out("The demo is over and nothing of it is left. Your own: gputui jobs.txt, one command per line.")
    return status


class Demo:
    """A session on a stage, its screen, and the tour through it."""

    def __init__(self, stage: Stage, theme: str | None) -> None:
        from gputui.session.environment import captured

        self._stage = stage
        self._theme = theme
        self._environment = stage.environment(captured())
        os.chdir(stage.folder)  # where a job that is added by a key runs
        # Hooks of the user are not for pretend jobs, and the list of their sessions need not know of this one.
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = str(stage.folder)

    def run(self) -> int:
        from gputui.cli.app import SWITCH_INTERVAL
        from gputui.tui.app import GputuiApp, Setup
        from gputui.tui.bridge import Bridge, host_name
        from gputui.tui.chrome import Where
        from gputui.tui.terminal.tty import colours

        bridge = Bridge(self._hold)
        bridge.take()
        sys.setswitchinterval(SWITCH_INTERVAL)
        setup = Setup(
            where=Where("demo", host_name()),
            environment=self._environment,
            first=self.begin,
            theme=self._theme,
            colours=colours(),
        )
        app = GputuiApp(bridge, setup)
        try:
            app.run()
        finally:
            bridge.close()
        return app.return_code or 0

    def _hold(self, on_change: Callable[[], None]) -> Holding:
        """Nobody takes over: when the demo is gone, its broom ends the jobs."""
        from gputui.session.lock import OwnerKind
        from gputui.session.ownership.acquisition import Holding
        from gputui.session.session_dir import Paths

        return Holding(Paths(self._stage.session), OwnerKind.APP, keeper=False, on_change=on_change)

    def begin(self, main: MainScreen) -> None:
        from gputui.demo.tour import Tour, guide
        from gputui.tui.bridge import Way

        guide(main, Tour(self._stage.mend), lambda: main.on_leave(Way.DETACH))
        begin_jobs(main.bridge, self._stage, self._environment)


def begin_jobs(bridge: Bridge, stage: Stage, environment: dict[str, str]) -> None:
    from gputui.gpus.hardware import Hardware
    from gputui.gpus.lanes import Simulated, lanes
    from gputui.session.owner.requests import Begin, Load

    given_lanes = lanes(Simulated(GPUS), Hardware())
    cpu_jobs = max(1, len(os.sched_getaffinity(0)) // 2)
    bridge.do(Begin(given_lanes.lanes, True, True, cpu_jobs, pause_after=3, grace=GRACE), _nothing, say)
    bridge.do(Load(stage.jobs(), environment, "demo"), _nothing, say)


def _nothing(answer: object) -> None:
    pass
