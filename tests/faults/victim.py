"""`gputui` as it is, but for the faults that VICTIM orders: the process under test in these folders' tests.

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
from support.late_wrappers import UNTIL_CLAIMED, late

from gputui.__main__ import main
from gputui.core.steps import Step, watch
from gputui.engines.local import spawn as wrapper
from gputui.engines.local.engine import LocalEngine
from gputui.engines.local.recovery import Adoption
from gputui.engines.protocol import Survivor
from gputui.process import directories as mounts
from gputui.process.machine import this_world
from gputui.session.store import backup, opening


def obey(orders: dict[str, Any]) -> None:
    if "step" in orders:
        watch(at(orders["step"], orders["nth"], fail if orders.get("raise") else dying(orders["tally"])))
    if "probability" in orders:
        watch(at_random(orders["probability"], dying(orders["tally"])))
    if orders.get("bad_closing"):
        setattr(LocalEngine, "close", lambda engine: fail(Step.RECOVERED))  # noqa: B010  # mypy minds it otherwise
    if "late" in orders:
        claim_late(orders["late"])
    if orders.get("too_late"):
        claim_too_late()
    if orders.get("shared_claims"):
        without_exclusion()
    if "boot" in orders:
        elsewhen(orders["boot"])
    if orders.get("shared_disk"):
        mounts.LOCAL = frozenset()
    if "backup_every" in orders:
        backup.FIRST_AFTER = backup.EVERY = orders["backup_every"]


def at(name: str, nth: int, act: Callable[[Step], None]) -> Callable[[Step], None]:
    """Acts the n-th time that the step is reached."""
    left = [nth]

    def witness(step: Step) -> None:
        if step == name:
            left[0] -= 1
            if left[0] == 0:
                act(step)

    return witness


def at_random(probability: float, act: Callable[[Step], None]) -> Callable[[Step], None]:
    """At a step chosen by chance; chance is not waited for for ever."""
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


def claim_late(hundredths: int) -> None:
    """Every wrapper waits up to so many hundredths of a second before it claims."""
    setattr(wrapper, "arguments", late(f"time.sleep(os.getpid() % {hundredths} / 100)"))  # noqa: B010 - a function is replaced


def claim_too_late() -> None:
    """No wrapper claims before somebody else has: the next owner, who revokes."""
    setattr(wrapper, "arguments", late(UNTIL_CLAIMED))  # noqa: B010 - a function is replaced


def elsewhen(boot: str) -> None:
    """As after a reboot."""
    setattr(opening, "this_world", lambda: replace(this_world(), boot=boot))  # noqa: B010 - a function is replaced


def not_seeking(self: Adoption, survivor: Survivor, wait: float) -> None:
    self._findings.revoked(survivor)


def without_exclusion() -> None:
    """And nobody looks whether an attempt runs whose claim does not say so."""
    setattr(Adoption, "_seek_wrapper", not_seeking)  # noqa: B010 - a method is replaced
    text = wrapper.TEXT.replace("set -C\n", "")
    assert text != wrapper.TEXT
    wrapper.TEXT = text


if __name__ == "__main__":
    obey(json.loads(os.environ.pop("VICTIM", "{}")))
    sys.exit(main(sys.argv[1:]))
