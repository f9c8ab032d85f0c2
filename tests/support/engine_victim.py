"""An owner with nothing but an engine, which kills itself at a step: `MODULE CLASS DIRECTORY SESSION STEP ACT`.

ACT is `recover`, or the command of an attempt to start.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

from gputui.core import steps

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from support.engines import EngineMachine


def main(module: str, kind: str, directory: str, session: str, fatal: str, act: str) -> None:
    make: type[EngineMachine] = getattr(importlib.import_module(module), kind)
    machine = make(Path(directory), session)
    steps.watch(lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == fatal else None)
    if act == "recover":
        machine.recover()
    else:
        machine.start(act)
    machine.end_of()


if __name__ == "__main__":
    main(*sys.argv[1:])
