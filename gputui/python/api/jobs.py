"""Jobs, their results and their options in the Python API."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from gputui.core.job import JobSpec, StateName, predicate
from gputui.python.user_code.call import RESULT
from gputui.python.user_code.modules import Untrusted, open_own, why_untrusted
from gputui.session.environment import storable
from gputui.sources.documents import BadTable, read_table
from gputui.sources.settings import SETTINGS, JobSettings
from gputui.sources.source import Draft, specs

if TYPE_CHECKING:
    from .session import Session


R_co = TypeVar("R_co", covariant=True)


class JobFailed(Exception):
    """Raised when a job did not succeed.

    `traceback` is the traceback of the called function, if it raised an exception. That exception is set as the cause
    of this one if it can be unpickled.
    """

    def __init__(self, sentence: str, result: Result[Any], traceback: str | None = None) -> None:
        super().__init__(sentence if traceback is None else f"{sentence}\n\n{traceback.rstrip()}")
        self.result = result
        self.traceback = traceback


class Stuck(Exception):
    """Raised when none of the jobs can start without intervention, because the scheduler is paused or the jobs are
    held.
    """


class JobHandle(Generic[R_co]):
    """A job in a session."""

    def __init__(self, session: Session, id: int, *, created: bool = True) -> None:
        self.session = session
        self.id = id
        self.created = created
        """Whether the job was added now. If not, it was already there with the same `key`."""

    @property
    def state(self) -> str:
        """The job's state as in `gputui ls`: `queued`, `running`, `succeeded` and so on."""
        return self.session.results(self)[0].state

    def wait(self, timeout: float | None = None) -> Result[R_co]:
        """Wait until the job has ended and return its result. Raise TimeoutError after `timeout` seconds."""
        return self.session.wait(self, timeout=timeout)[0]

    def result(self, timeout: float | None = None) -> R_co:
        """Return the called function's return value, or None for a command. Raise JobFailed if the job failed."""
        return self.wait(timeout).value

    def __repr__(self) -> str:
        return f"<gputui job {self.id} in {self.session.path}>"


@dataclass(frozen=True)
class Result(Generic[R_co]):
    """The state of a job at one moment."""

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
    """Path of the log of the job's standard output."""
    err: str | None
    """Path of the error log, or None if both streams are in `out`."""
    why: str | None
    """The reason why the job is waiting or why it failed."""
    session: Session = field(repr=False, compare=False)
    params: dict[str, str] = field(default_factory=dict)
    """Named parameters of the job's command."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Best value of each metric, or its last value if it is unknown whether higher or lower is better."""
    last: dict[str, float] = field(default_factory=dict)
    """The last value of each metric."""
    progress: float | None = None
    """Progress from 0 to 1, if known."""

    @property
    def ok(self) -> bool:
        return self.state == "succeeded"

    @property
    def value(self) -> R_co:
        """Return the called function's return value, or None for a command. Raise JobFailed if the job failed."""
        outcome = self._outcome()
        if self.ok:
            value: R_co = pickle.loads(outcome["kept"]) if outcome is not None else None  # type: ignore[assignment]
            return value
        if outcome is None:
            raise JobFailed(self._sentence(), self)
        raise JobFailed(self._sentence(), self, outcome["traceback"]) from _exception(outcome["kept"])

    @property
    def traceback(self) -> str | None:
        """The traceback of the called function, if it raised an exception."""
        outcome = self._outcome()
        return None if outcome is None or outcome["ok"] else outcome["traceback"]

    def _sentence(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"job {self.job} ({self.name}) {predicate(StateName(self.state))}{why}"

    def _outcome(self) -> dict[str, Any] | None:
        """Read the result file of a call. Return None if the job is not a call or was killed."""
        path = os.path.join(self.session.directory(self.job), RESULT)
        try:
            with open(_open_trusted(path), "rb") as file:
                outcome: dict[str, Any] = pickle.load(file)
        except FileNotFoundError:
            return None
        except Untrusted as why:
            raise JobFailed(f"{self._sentence()}, but its result is not safe to load: {why}", self) from None
        its_own = outcome.get("job", str(self.job)) == str(self.job)
        return outcome if its_own and outcome["attempt"] == str(self.attempt) and outcome["ok"] == self.ok else None


def _open_trusted(path: str) -> int:
    """Open a pickle file after checking that no other user can have written it, because unpickling can run any code."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        why = why_untrusted(os.fstat(directory), os.path.dirname(path))
        if why is not None:
            raise Untrusted(why)
        return open_own(path, directory)
    finally:
        os.close(directory)


def _exception(pickled: bytes | None) -> BaseException | None:
    """Unpickle an exception. Return None if there is none or its class is not available."""
    try:
        value = pickle.loads(pickled) if pickled is not None else None
    except Exception:
        return None
    return value if isinstance(value, BaseException) else None


Earlier = JobHandle[Any] | int | str


class JobOptions(TypedDict, total=False):
    """Options of a job. All are optional."""

    name: str
    group: str
    gpus: int
    """Number of GPUs. By default the job gets one slot."""
    devices: Sequence[str]
    """The GPUs on which the job may run."""
    memory: str
    """Memory that the job needs on each of its GPUs: `6G`, `500M`, `40%` or `learn`."""
    budget: float | str
    """GPU time, such as `20 gpu-h`, after which no further job of the group starts."""
    priority: int
    """Priority from 0 to 99. Jobs with a higher priority start first. The default is 30."""
    retries: int
    retry_on: Sequence[str]
    """The failures after which the job is retried, such as `oom`, `signal`, `exit:75` or `node`."""
    on_oom: str
    """What to do after the GPU has run out of memory: `alone`, `bigger` or `fail`."""
    hang_after: float | str
    """Seconds without output and GPU use after which the job counts as hung. 0 means never."""
    on_hang: str
    """What to do if the job hangs: `notify`, `kill` or `requeue`."""
    metric: str
    """Metric by which jobs are compared, such as `val_loss`, `val_acc max` or `/best: ([0-9.]+)/ max`."""
    notify: bool
    """Whether to notify the user when the job ends or hangs."""
    checkpoint: bool
    """Whether the job continues where it stopped when it is restarted."""
    preempt: bool
    """Whether the job may preempt jobs that have `checkpoint` and a lower priority. Requires priority 90 or more."""
    timeout: float | str
    """Time limit in seconds, or as text such as `90s`, `5m` or `2h`."""
    after: Sequence[Earlier]
    """Jobs that must have succeeded before this job starts, given as jobs, ids or names."""
    after_any: bool
    """Whether the job starts when all jobs in `after` have ended, even if some of them failed."""
    hold: bool
    cwd: str | os.PathLike[str]
    env: Mapping[str, str]
    """Additional environment variables."""
    outfile: str | os.PathLike[str]
    """Path of a file for both output streams. The file must not exist yet."""
    shell: str
    login_shell: bool
    wrap: str
    """Prefix of the shell command that runs the job, such as `apptainer exec --nv x.sif`."""
    key: str
    """Name of this piece of work. Adding the same command or call again with the same key returns the first job."""
    snapshot: bool
    """Whether to run in a snapshot of the git work tree as it is now. Only for commands, not for calls."""
    task: str
    """Function to call instead of running a shell, as `module:function`."""


def check_options(options: JobOptions) -> JobOptions:
    unknown = sorted(set(options) - set(SETTINGS))
    if unknown:
        raise TypeError(f"unknown job option {unknown[0]!r}; known: {', '.join(SETTINGS)}")
    return options


def make_spec(
    command: str,
    options: JobOptions,
    *,
    params: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
) -> JobSpec:
    """Create the spec of a job. Raise ValueError if an option is invalid."""
    try:
        settings = read_table({key: _plain(key, value) for key, value in check_options(options).items()}).settings
    except BadTable as bad:
        raise ValueError(str(bad)) from None
    settings = JobSettings(variables=variables).over(settings) if variables else settings
    (job_spec,) = specs([Draft(command, settings, params or {})], cwd=storable(os.getcwd()), environment="")
    return job_spec


def _plain(key: str, value: Any) -> Any:
    """Convert the value of an option to the types that a job file uses."""
    if key == "after":
        return [getattr(earlier, "id", earlier) for earlier in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
