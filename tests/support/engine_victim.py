"""An owner's process with nothing but an engine, which kills itself at a step: `MODULE CLASS FOLDER SESSION STEP ACT`.

ACT is `recover`, or the command of an attempt to start.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from gputui.core import steps
from support.engine_machine import EngineMachine


def main(module: str, kind: str, folder: str, session: str, fatal: str, act: str) -> None:
    make: type[EngineMachine] = getattr(importlib.import_module(module), kind)
    machine = make(Path(folder), session)
    steps.watch(lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == fatal else None)
    if act == "recover":
        machine.recover()
    else:
        machine.start(act)
    machine.end_of()


if __name__ == "__main__":
    main(*sys.argv[1:])
