"""A job as a Python program holds it, what came of it, and its options."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from gputui.core.job import JobSpec, StateName, predicate
from gputui.python.user_code.call import RESULT
from gputui.python.user_code.modules import Doubtful, doubt, open_own
from gputui.session.environment import storable
from gputui.sources.documents import BadTable
from gputui.sources.job_table import read_table
from gputui.sources.settings import SETTINGS, JobSettings
from gputui.sources.source import Draft, specs

if TYPE_CHECKING:
    from .session import Session


# ---- A job as a Python program holds it, and what came of it ----


R_co = TypeVar("R_co", covariant=True)


class JobFailed(Exception):
    """A job did not succeed. `traceback` is that of the called function, where there is one; the exception itself,
    if it could be brought back, is the cause of this one.
    """

    def __init__(self, sentence: str, result: Result[Any], traceback: str | None = None) -> None:
        super().__init__(sentence if traceback is None else f"{sentence}\n\n{traceback.rstrip()}")
        self.result = result
        self.traceback = traceback


class Stuck(Exception):
    """None of the jobs waited for starts by itself: the scheduler is paused, or they are held."""


class JobHandle(Generic[R_co]):
    """A job in a session."""

    def __init__(self, session: Session, id: int) -> None:
        self.session = session
        self.id = id

    @property
    def state(self) -> str:
        """`queued`, `running`, `succeeded` …, as `gputui ls` says it."""
        return self.session.results(self)[0].state

    def wait(self, timeout: float | None = None) -> Result[R_co]:
        """What came of it, when it has ended; TimeoutError if that takes longer than so many seconds."""
        return self.session.wait(self, timeout=timeout)[0]

    def result(self, timeout: float | None = None) -> R_co:
        """What the called function returned (None for a command); JobFailed if the job did not succeed."""
        return self.wait(timeout).value

    def __repr__(self) -> str:
        return f"<gputui job {self.id} in {self.session.path}>"


@dataclass(frozen=True)
class Result(Generic[R_co]):
    """A job as it was when it was looked at."""

    job: int
    name: str
    state: str
    attempt: int
    exit_code: int | None
    signal: int | None
    gpus: tuple[str, ...]
    started: float | None
    ended: float | None
    out: str | None
    """Where its output is; `err` None: both streams are there."""
    err: str | None
    why: str | None
    """Why it waits, or the crash in words."""
    session: Session = field(repr=False, compare=False)
    params: dict[str, str] = field(default_factory=dict)
    """What its command says under a name."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The best of each result that it printed, or the last where nobody can say what is better."""
    last: dict[str, float] = field(default_factory=dict)
    """The same as printed last."""
    progress: float | None = None
    """From 0 to 1, if it tells."""

    @property
    def ok(self) -> bool:
        return self.state == "succeeded"

    @property
    def value(self) -> R_co:
        """What the called function returned (None for a command); JobFailed if the job did not succeed."""
        outcome = self._outcome()
        if self.ok:
            value: R_co = pickle.loads(outcome["kept"]) if outcome is not None else None  # type: ignore[assignment]
            return value
        if outcome is None:
            raise JobFailed(self._sentence(), self)
        raise JobFailed(self._sentence(), self, outcome["traceback"]) from _exception(outcome["kept"])

    @property
    def traceback(self) -> str | None:
        """Of the called function, if it raised an exception."""
        outcome = self._outcome()
        return None if outcome is None or outcome["ok"] else outcome["traceback"]

    def _sentence(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"job {self.job} ({self.name}) {predicate(StateName(self.state))}{why}"

    def _outcome(self) -> dict[str, Any] | None:
        """What a call left in its folder at its newest end; None: it was no call, or it was ended."""
        path = os.path.join(self.session.folder(self.job), RESULT)
        try:
            with open(_opened(path), "rb") as file:
                outcome: dict[str, Any] = pickle.load(file)
        except FileNotFoundError:
            return None
        except Doubtful as why:
            raise JobFailed(f"{self._sentence()}, but what it returned is not safe to load: {why}", self) from None
        its_own = outcome.get("job", str(self.job)) == str(self.job)
        return outcome if its_own and outcome["attempt"] == str(self.attempt) and outcome["ok"] == self.ok else None


def _opened(path: str) -> int:
    """A pickle that anybody else had a hand in could do anything."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        why = doubt(os.fstat(folder), os.path.dirname(path))
        if why is not None:
            raise Doubtful(why)
        return open_own(path, folder)
    finally:
        os.close(folder)


def _exception(pickled: bytes | None) -> BaseException | None:
    """None: it did not come along, or its class is not to be found here."""
    try:
        value = pickle.loads(pickled) if pickled is not None else None
    except Exception:
        return None
    return value if isinstance(value, BaseException) else None


# ---- What a Python program may say about a job, and the spec that it becomes ----


NOTHING: Mapping[str, str] = MappingProxyType({})

Earlier = JobHandle[Any] | int | str


class JobOptions(TypedDict, total=False):
    """All of them may be left out."""

    name: str
    group: str
    gpus: int
    """How many; 0: none. Left out: one lane, whatever it holds."""
    devices: Sequence[str]
    """Only on these GPUs."""
    memory: str
    """On each of its GPUs: `6G`, `500M`, `40%` or `learn`."""
    priority: int
    """0 to 99, higher first (30)."""
    retries: int
    retry_on: Sequence[str]
    """Only after these failures: `oom`, `signal`, `exit:75`, `node` …"""
    on_oom: str
    """When its card was full: `alone`, `bigger` or `fail`."""
    hang_after: float | str
    """Seconds without output and GPU use after which it counts as hung; 0: never."""
    on_hang: str
    """`notify`, `kill` or `requeue`."""
    metric: str
    """The result that jobs are compared by: `val_loss`, `val_acc max`, or `/best: ([0-9.]+)/ max`."""
    notify: bool
    """Tell me when it ends or hangs."""
    checkpoint: bool
    """It goes on where it was when it is started again."""
    preempt: bool
    """A job with `checkpoint` and a lower priority gives way to it; needs priority 90 or more."""
    timeout: float | str
    """Seconds, or `90s`, `5m`, `2h`."""
    after: Sequence[Earlier]
    """Start when these have succeeded: jobs, ids or names."""
    after_any: bool
    """Start when those in `after` have ended, however."""
    hold: bool
    cwd: str | os.PathLike[str]
    env: Mapping[str, str]
    """Variables of this job alone."""
    outfile: str | os.PathLike[str]
    """Both streams into this file, which must not exist."""
    shell: str
    login_shell: bool
    wrap: str
    """Words before its shell: `apptainer exec --nv x.sif`."""
    task: str
    """`module:function`, called instead of a shell."""


def checked(options: JobOptions) -> JobOptions:
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise TypeError(f"{unknown[0]!r} is no option of a job; there are {', '.join(SETTINGS)}")
    return options


def spec(
    command: str, options: JobOptions, *, params: Mapping[str, str] = NOTHING, variables: Mapping[str, str] = NOTHING
) -> JobSpec:
    """The spec of a job. ValueError: an option cannot be what it was said to be."""
    try:
        settings = read_table({key: _plain(key, value) for key, value in checked(options).items()}).settings
    except BadTable as bad:
        raise ValueError(str(bad)) from None
    settings = JobSettings(variables=dict(variables)).over(settings) if variables else settings
    (job_spec,) = specs([Draft(command, 1, settings, dict(params))], cwd=storable(os.getcwd()), environment="")
    return job_spec


def _plain(key: str, value: Any) -> Any:
    """As a file would say it."""
    if key == "after":
        return [getattr(earlier, "id", earlier) for earlier in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
