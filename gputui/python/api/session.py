"""Sessions in the Python API, and the decorator that turns calls into jobs."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack

from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.events import Resume
from gputui.core.job import ENDS, JobSpec
from gputui.logs.plain import plain
from gputui.python.user_code.bundle import pack_call, printable
from gputui.python.user_code.call import CALL
from gputui.python.user_code.modules import NOTHING_STARTS, Loading, Reached, keepsake
from gputui.session.client import Client, chosen
from gputui.session.code_snapshots import with_code
from gputui.session.control.connection import ClientError, NoSession, fresh_id
from gputui.session.environment import captured
from gputui.session.errors import SessionError
from gputui.session.messages import NOW, Commands, Events, Follow, ListedJob, Listing, OwnerRequest, Show
from gputui.session.owner.requests import Load
from gputui.sources.source import BadInput
from gputui.sources.yielder import door_of

from .jobs import JobHandle, JobOptions, Result, Stuck, check_options, make_spec

LONGEST_NAME = 80
LONGEST_PARAM = 200


def _call_spec(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: JobOptions,
    keepsake: str,
) -> JobSpec:
    params = _params(function, args, kwargs)
    command = shlex.join([*door_of(sys.executable), "call", f"{function.__module__}.{function.__qualname__}"])
    job_spec = make_spec(command, options, params=params, variables={CALL: keepsake})
    if job_spec.name is not None:
        return job_spec
    name = " ".join([function.__name__, *(f"{key}={value}" for key, value in params.items())])
    return replace(job_spec, name=name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…")


def _params(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return the simple arguments of a call as text.

    Invalid arguments raise an exception here rather than in the job.
    """
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    simple = {name: value for name, value in bound.arguments.items() if isinstance(value, str | int | float | None)}
    return {name: printable(str(value))[:LONGEST_PARAM] for name, value in simple.items()}


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AT_ONCE = 2000


class Session:
    """A session: a directory with one queue, which is also used by `gputui` and its commands.

    `path` is the session's directory. By default, it is the session that `gputui add` would use here. A session that
    does not exist is created when it is first needed. `gpus` specifies the slots of a new or existing session (`"0,1"`,
    `"[0,1],[2,3]"`, `"cpu:4"`). It is an error if the app or a `run` is using the session with other slots. With
    `start=False`, jobs are only queued, and this program starts no scheduler.

    Within `with session:`, calls of functions decorated with `gputui.job` are queued in the session. Leaving the block
    does not wait for these jobs.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, gpus: str | None = None, start: bool = True
    ) -> None:
        self._given = os.path.abspath(os.path.expanduser(path)) if path is not None else None
        self._gpus = gpus
        self._start = start
        self._client: Client | None = None
        self._added: dict[int, JobHandle[Any]] = {}

    @property
    def path(self) -> str:
        """The path of the session's directory."""
        return self._opened().root

    def open(self) -> Self:
        """Open or create the session now instead of when it is first used."""
        self._opened()
        return self

    def __enter__(self) -> Self:
        contexts.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        contexts.remove(self)

    # Adding

    def add(self, command: str | Sequence[str], **options: Unpack[JobOptions]) -> JobHandle[None]:
        """Queue a command, given as a shell command line or as separate arguments.

        The command gets the current directory and environment.
        """
        line = command if isinstance(command, str) else shlex.join(command)
        return self._add(make_spec(line, options))

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Queue a call of a function that is defined at the top level of a module."""
        return self.submit(function, args, kwargs, {})

    def submit(
        self, function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: JobOptions
    ) -> JobHandle[R]:
        """Queue a call with options.

        Raises ValueError if a job could not find the function, and TypeError if the arguments cannot be pickled.
        """
        from gputui.session.session_dir import store_file

        if options.get("snapshot"):
            raise ValueError("snapshot is for commands: a call imports its function from where it is now")
        client = self._opened()
        name = f"call-{fresh_id()}.json"
        job_spec = _call_spec(function, args, kwargs, options, name)
        with _session_errors():
            store_file(client.root, name, pack_call(function, args, kwargs))
        job = self._add(job_spec)
        if not job.created:  # the call is already stored in a file under another name
            with suppress(OSError):
                os.unlink(keepsake(client.root, name))
        return job

    def _add(self, spec: JobSpec) -> JobHandle[Any]:
        with _session_errors():
            jobs = with_code(self._opened().root, (spec,))
        (added,) = self._ask(Load(jobs, captured(), "Python", by_spec=True)).by_spec
        job: JobHandle[Any] = JobHandle(self, added.id, created=added.created)
        self._added[job.id] = job
        return job

    # Results

    @property
    def jobs(self) -> tuple[JobHandle[Any], ...]:
        """The jobs that were added through this object, in the order in which they were added."""
        return tuple(self._added.values())

    def wait(self, *jobs: JobHandle[Any] | int, timeout: float | None = None) -> list[Result[Any]]:
        """Wait until the given jobs have ended. By default, wait for all jobs that were added through this object.

        Raises TimeoutError after `timeout` seconds, and Stuck if none of the jobs can start without intervention.
        """
        wanted = _ids(jobs) or list(self._added)
        deadline = None if timeout is None else time.monotonic() + timeout
        cursor, unfinished = self._ask(Events(NOW)).cursor, wanted
        while unfinished := self._unfinished(unfinished):
            if deadline is not None and time.monotonic() > deadline:
                number = counted(len(wanted), "job", "jobs")
                raise TimeoutError(f"{len(unfinished)} of {number} did not end within {timeout:g} s")
            cursor = self._opened().next_events(cursor, deadline, work=self._start).cursor
        return self.results(*wanted)

    def _unfinished(self, ids: list[int]) -> list[int]:
        unfinished: list[int] = []
        active, cause = not ids, None
        for start in range(0, len(ids), AT_ONCE):
            followed = self._ask(Follow(ids[start : start + AT_ONCE]))
            unfinished += [job.id for job in followed.jobs if job.state.name not in ENDS]
            active, cause = followed.has_work or active, followed.scheduler.cause
        if unfinished and not active:
            why = f"scheduler paused: {cause.message}" if cause is not None else "no job can start"
            wait = counted(len(unfinished), "job waiting", "jobs waiting")
            raise Stuck(f"{why}; {wait} (gputui ls --session {shlex.quote(self.path)})")
        return unfinished

    def results(self, *jobs: JobHandle[Any] | int) -> list[Result[Any]]:
        """Return the current state of the given jobs. By default, return that of all jobs in the session."""
        ids = _ids(jobs)
        listed = self._opened().ask(Listing(ids if jobs else None)).jobs
        results = {job.id: self._result(job) for job in listed}
        return [results[id] for id in ids if id in results] if jobs else list(results.values())

    def _result(self, job: ListedJob) -> Result[Any]:
        return Result(
            job=job.id,
            name=job.name,
            state=job.state,
            attempt=job.attempt,
            exit_code=job.exit_code,
            signal=job.signal,
            gpus=job.gpus,
            started=job.started,
            ended=job.ended,
            out=job.out,
            err=job.err,
            why=job.end or job.why,
            session=self,
            params=dict(job.params),
            metrics={name: best for name, result in job.results.items() if (best := result.best) is not None},
            last={name: last for name, result in job.results.items() if (last := result.last) is not None},
            progress=job.progress,
        )

    def directory(self, job: JobHandle[Any] | int) -> str:
        """Return the path of a job's directory."""
        return self._opened().ask(Show(_ids((job,))[0])).directory

    def resume(self) -> None:
        """Resume a paused scheduler."""
        self._ask(Commands((Resume(),)))

    # The session

    def _ask(self, request: OwnerRequest[T]) -> T:
        return self._opened().ask(request, work=self._start)

    def _opened(self) -> Client:
        if Loading.now:
            # A job loads the script or module of its function, which must not queue everything again.
            if Loading.wanted == NOTHING_STARTS:
                raise RuntimeError("this module queues jobs on import; guard that with if __name__ == '__main__':")
            raise Reached(None)
        if self._client is None:
            self._client = self._existing() or self._create()
        return self._client

    def _existing(self) -> Client | None:
        try:
            client = Client(self._given if self._given is not None else chosen("add"), _print_notice)
        except NoSession:
            return None
        if self._gpus is not None:
            from gputui.session.creation import change_slots

            with _session_errors():
                for notice in change_slots(client, self._gpus):
                    _print_notice(notice)
        return client

    def _create(self) -> Client:
        from gputui.session.config import load
        from gputui.session.creation import begin

        with _session_errors():
            config = load()
            root = self._given or os.path.abspath(os.path.expanduser(str(config.get("output_dir")[0])))
            for notice in begin(root, config, self._gpus):
                _print_notice(notice)
        return Client(root, _print_notice)


contexts: list[Session] = []
"""The sessions of the active `with` blocks. The innermost session is the last one."""
_default: list[Session] = []


def current() -> Session:
    """Return the session of the innermost `with` block, or else the session that `gputui add` would use here."""
    if contexts:
        return contexts[-1]
    if not _default:
        _default.append(Session())
    return _default[0]


def _print_notice(notice: str) -> None:
    print(f"gputui: {plain(notice)}", file=sys.stderr)


@contextmanager
def _session_errors() -> Iterator[None]:
    """Convert errors of a session to the exceptions documented in the API."""
    try:
        yield
    except SessionError as error:
        raise ClientError(str(error)) from error
    except BadInput as error:
        raise ValueError(str(error)) from error


def _ids(jobs: Sequence[JobHandle[Any] | int]) -> list[int]:
    return [job if isinstance(job, int) else job.id for job in jobs]


# The decorator


class QueuedFunction(Generic[P, R]):
    """A function that queues a job for each call."""

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        self._gputui_original = function
        self._options = check_options(options)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Queue the call in the current session.

        The returned job's `result()` waits for the function's return value.
        """
        return current().submit(self._gputui_original, args, kwargs, self._options)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process."""
        return self._gputui_original(*args, **kwargs)

    def options(self, **options: Unpack[JobOptions]) -> QueuedFunction[P, R]:
        """Return the function with other options for its calls, as in `train.options(priority=50)(lr=0.1)`."""
        changed: JobOptions = {**self._options, **options}
        return QueuedFunction(self._gputui_original, changed)


def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], QueuedFunction[P, R]]:
    """Decorate a function so that calling it queues a job and returns a handle to it: `@gputui.job(gpus=1)`."""
    check_options(options)

    def decorate(function: Callable[P, R]) -> QueuedFunction[P, R]:
        return QueuedFunction(function, options)

    return decorate
