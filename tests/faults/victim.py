"""`gputui` with the faults that the variable VICTIM orders: the process under test in this directory.

It kills itself with SIGKILL at a step of the protocol, fails there or at its closing, makes wrappers claim late, takes
away what keeps two processes from claiming one attempt, or makes backups all the time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.machines import UNTIL_CLAIMED, late

from gputui.__main__ import main
from gputui.core.events import NeverRan
from gputui.core.steps import Step, watch
from gputui.engines.local import spawn as wrapper
from gputui.engines.local.engine import LocalEngine
from gputui.engines.protocol import Survivor
from gputui.process import directories as mounts
from gputui.process.machine import this_host
from gputui.session.owner.owner import Owner
from gputui.session.store import backup, opening


def obey(orders: dict[str, Any]) -> None:
    if "step" in orders:
        watch(at(orders["step"], orders["nth"], fail if orders.get("raise") else dying(orders["tally"])))
    if "probability" in orders:
        watch(at_random(orders["probability"], dying(orders["tally"])))
    if orders.get("bad_closing"):
        replace_attribute(LocalEngine, "close", lambda engine: fail(Step.RECOVERED))
    if orders.get("no_closing"):
        replace_attribute(Owner, "_fail", no_memory)
        replace_attribute(Owner, "_release_all", no_memory)
    if "late" in orders:
        replace_attribute(wrapper, "arguments", late(f"time.sleep(os.getpid() % {orders['late']} / 100)"))
    if orders.get("too_late"):  # no wrapper claims before the next owner has revoked its attempt
        replace_attribute(wrapper, "arguments", late(UNTIL_CLAIMED))
    if orders.get("shared_claims"):
        without_exclusion()
    if "boot" in orders:
        replace_attribute(opening, "this_host", lambda: replace(this_host(), boot=orders["boot"]))
    if orders.get("shared_disk"):
        mounts.LOCAL = frozenset()
    if "backup_every" in orders:
        backup.FIRST_AFTER = backup.EVERY = orders["backup_every"]


def replace_attribute(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def at(name: str, nth: int, act: Callable[[Step], None]) -> Callable[[Step], None]:
    """Act when the step is reached for the n-th time."""
    left = [nth]

    def witness(step: Step) -> None:
        if step == name:
            left[0] -= 1
            if left[0] == 0:
                act(step)

    return witness


def at_random(probability: float, act: Callable[[Step], None]) -> Callable[[Step], None]:
    """Act at a random step, or after many steps at the latest."""
    left = [round(3 / probability)]

    def witness(step: Step) -> None:
        left[0] -= 1
        if random.random() < probability or left[0] == 0:
            act(step)

    return witness


def dying(tally: str) -> Callable[[Step], None]:
    def die(step: Step) -> None:
        with open(tally, "a") as file:
            file.write(f"{step}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    return die


def fail(step: Step) -> None:
    raise RuntimeError("a defect")


def no_memory(_: Owner) -> None:
    raise MemoryError


def not_seeking(self: LocalEngine, survivor: Survivor, wait: float) -> None:
    self._end(survivor, NeverRan())


def without_exclusion() -> None:
    """Let two processes claim one attempt, and let no owner look for a wrapper without a claim."""
    replace_attribute(LocalEngine, "_seek_wrapper", not_seeking)
    text = wrapper.TEXT.replace("set -C\n", "")
    assert text != wrapper.TEXT
    wrapper.TEXT = text


if __name__ == "__main__":
    obey(json.loads(os.environ.pop("VICTIM", "{}")))
    sys.exit(main(sys.argv[1:]))
