"""Slurm's command line, with a time limit of our own: why a command failed is told by the type of what is raised.

Slow, and with a controller that is down very slow: never for the owner's thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

TIMEOUT = 20.0
"""Seconds; a controller that does not answer is given up by Slurm itself after about nine."""

_NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Connection timed out|Zero Bytes were"
    r"|Transport endpoint is not connected|slurm_load_\w+ error: .*(?:connect|timed out)|Unexpected message received"
    r"|Slurm backup controller in standby|Unable to establish control machine address|Message send failure"
    r"|Protocol authentication error|Network is unreachable|No route to host",
    re.IGNORECASE,
)
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_DEBUG_FLAGS")
_OF_SLURM = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_")


class SlurmError(Exception):
    """The message is the sentence the user reads."""


class NoSlurm(SlurmError):
    """There is no such command here."""


class NoAnswer(SlurmError):
    """The controller did not answer: whether the command did anything is not known."""


class Rejected(SlurmError):
    """Slurm said no."""


def ask(*words: str, text: str = "", descriptors: Sequence[int] = (), timeout: float = TIMEOUT) -> str:
    """What the command printed; `text` is given to it on standard input, `descriptors` keep their numbers."""
    import subprocess

    try:
        done = subprocess.run(
            words, input=text.encode(errors="surrogateescape"), capture_output=True, timeout=timeout,
            env=surroundings(os.environ), pass_fds=descriptors, start_new_session=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise NoSlurm(f"there is no {words[0]} here: is this a machine of the cluster?") from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{words[0]} did not answer within {timeout:g} s") from None
    except OSError as error:
        raise NoAnswer(f"{words[0]} could not be started: {error.strerror}") from error
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    raise _explained(words[0], done.returncode, done.stderr.decode(errors="replace"))


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """For Slurm's commands: what the caller set for their own calls, or a job they sit in, must not change ours."""
    mine = {name: value for name, value in environment.items() if name in _KEPT or not name.startswith(_OF_SLURM)}
    return {**mine, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def _explained(command: str, code: int, said: str) -> SlurmError:
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ").strip() for line in said.splitlines()]
    words = "; ".join(line for line in lines if line) or f"exit code {code}"
    return NoAnswer(f"{command}: {words}") if _NO_ANSWER.search(said) else Rejected(words)
