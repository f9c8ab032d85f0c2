"""A session as a Python program uses it, and the decorator that turns calls into jobs."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack

from msgspec.structs import replace

from gputui.core.amounts import counted
from gputui.core.events import Resume
from gputui.core.job import ENDS, JobSpec
from gputui.logs.plain import plain
from gputui.python.user_code.bundle import packed as packed_call
from gputui.python.user_code.call import CALL
from gputui.python.user_code.modules import NOTHING_STARTS, Loading, Reached
from gputui.session.client import Client, chosen
from gputui.session.control.connection import ClientError, NoSession, fresh_id
from gputui.session.environment import captured
from gputui.session.errors import SessionError
from gputui.session.messages import Commands, Follow, ListedJob, Listing, OwnerRequest, Show
from gputui.session.owner.requests import Load
from gputui.sources.python_file import door_of

from .jobs import JobHandle, JobOptions, Result, Stuck, checked, spec

# ---- The spec of a queued call ----


LONGEST_NAME = 80
LONGEST_PARAM = 200
SHOWN = (str, int, float, bool, type(None))


def call_spec(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    options: JobOptions,
    keepsake: str,
) -> JobSpec:
    params = _params(function, args, kwargs)
    command = shlex.join([*door_of(sys.executable), "call", f"{function.__module__}.{function.__qualname__}"])
    job_spec = spec(command, options, params=params, variables={CALL: keepsake})
    return job_spec if job_spec.name is not None else replace(job_spec, name=_name(function.__name__, params))


def _params(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Arguments that can be told in a word; a call that does not fit its function fails here, not in an hour."""
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    told_arguments = {name: value for name, value in bound.arguments.items() if isinstance(value, SHOWN)}
    return {name: _shown(str(value))[:LONGEST_PARAM] for name, value in told_arguments.items()}


def _name(function: str, params: dict[str, str]) -> str:
    name = " ".join([function, *(f"{key}={value}" for key, value in params.items())])
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _shown(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


# ---- A session as a Python program uses it ----


P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AT_ONCE = 2000
FIRST_NAP, LONGEST_NAP = 0.02, 0.5


class Session:
    """A folder with one queue, the same that `gputui` and its verbs work on.

    `path`: the session's folder. Without it, the session that `gputui add` would mean here. Where there is none, it is
    begun when it is first needed, with the lanes that `gpus` names (`"0,1"`, `"[0,1],[2,3]"`, `"cpu:4"`); one that is
    there gets them too, or is refused where an app or a `run` has it with others. `start=False` only queues: nothing
    is started by this program.

    As a context it is where calls of functions decorated with `gputui.job` go. Leaving it waits for nothing.
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
        """Its folder."""
        return self._opened().root

    def open(self) -> Self:
        """Finds or begins it now; otherwise that happens when it is first used."""
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
        """Queues a command: a line for the shell, or its words. It runs here, in this environment."""
        line = command if isinstance(command, str) else shlex.join(command)
        return self._add(spec(line, options))

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Queues a call of a function that stands at the top of a module."""
        return self.submit(function, args, kwargs, {})

    def submit(
        self, function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any], options: JobOptions
    ) -> JobHandle[R]:
        """The same with options. ValueError: no job could find it; TypeError: its arguments cannot be passed on."""
        from gputui.session.layouts import keep

        client = self._opened()
        name = f"call-{fresh_id()}.json"
        job_spec = call_spec(function, args, kwargs, options, name)
        with _told():
            keep(client.root, name, packed_call(function, args, kwargs))
        return self._add(job_spec)

    def _add(self, spec: JobSpec) -> JobHandle[Any]:
        loaded = self._ask(Load((spec,), captured(), "Python"))
        job: JobHandle[Any] = JobHandle(self, loaded.jobs[0])
        self._added[job.id] = job
        return job

    # Looking

    @property
    def jobs(self) -> tuple[JobHandle[Any], ...]:
        """Those that were added through this object, in their order."""
        return tuple(self._added.values())

    def wait(self, *jobs: JobHandle[Any] | int, timeout: float | None = None) -> list[Result[Any]]:
        """Blocks until these jobs have ended, without any named all that were added through this object.

        TimeoutError when `timeout` seconds pass first; Stuck when none of them goes on without somebody's help.
        """
        wanted = _ids(jobs) or list(self._added)
        deadline = None if timeout is None else time.monotonic() + timeout
        nap, unfinished = FIRST_NAP, wanted
        while unfinished := self._unfinished(unfinished):
            if deadline is not None and time.monotonic() > deadline:
                jobs_told = counted(len(wanted), "job", "jobs")
                raise TimeoutError(f"{len(unfinished)} of {jobs_told} not ended within {timeout:g} s")
            time.sleep(nap)
            nap = min(LONGEST_NAP, nap * 1.5)
        return self.results(*wanted)

    def _unfinished(self, ids: list[int]) -> list[int]:
        unfinished: list[int] = []
        goes_on, cause = not ids, None
        for start in range(0, len(ids), AT_ONCE):
            followed = self._ask(Follow(ids[start : start + AT_ONCE]))
            unfinished += [job.id for job in followed.jobs if job.state.name not in ENDS]
            goes_on, cause = followed.goes_on or goes_on, followed.scheduler.cause
        if unfinished and not goes_on:
            why = f"the scheduler is paused: {cause.message}" if cause is not None else "nothing starts by itself"
            wait = counted(len(unfinished), "job waits", "jobs wait")
            raise Stuck(f"{why}; {wait} (gputui ls --session {shlex.quote(self.path)})")
        return unfinished

    def results(self, *jobs: JobHandle[Any] | int) -> list[Result[Any]]:
        """These jobs as they are now, without any named all of the session."""
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

    def folder(self, job: JobHandle[Any] | int) -> str:
        """A job's own folder."""
        return self._opened().ask(Show(_ids((job,))[0])).folder

    def resume(self) -> None:
        """Lets a paused scheduler go on."""
        self._ask(Commands((Resume(),)))

    # The session

    def _ask(self, request: OwnerRequest[T]) -> T:
        return self._opened().ask(request, work=self._start)

    def _opened(self) -> Client:
        if Loading.now:
            _refuse_while_loading()
        if self._client is None:
            self._client = self._found() or self._begun()
        return self._client

    def _found(self) -> Client | None:
        try:
            client = Client(self._given if self._given is not None else chosen("add"), _say_one)
        except NoSession:
            return None
        if self._gpus is not None:
            from gputui.session.creation import name_lanes

            with _told():
                _say(name_lanes(client, self._gpus))
        return client

    def _begun(self) -> Client:
        from gputui.session.config import load
        from gputui.session.creation import begin

        with _told():
            config = load()
            root = self._given or os.path.abspath(os.path.expanduser(str(config.get("output_dir")[0])))
            _say(begin(root, config, self._gpus))
        return Client(root, _say_one)


contexts: list[Session] = []
"""The sessions whose `with` is under way, the innermost last."""
_default: list[Session] = []


def current() -> Session:
    """Where calls go: the innermost context, else the session that `gputui add` would mean here."""
    if contexts:
        return contexts[-1]
    if not _default:
        _default.append(Session())
    return _default[0]


def _say(notices: list[str]) -> None:
    for notice in notices:
        _say_one(notice)


def _say_one(notice: str) -> None:
    print(f"gputui: {plain(notice)}", file=sys.stderr)


@contextmanager
def _told() -> Iterator[None]:
    """Whatever keeps a session from being used is one kind of exception to a program."""
    try:
        yield
    except SessionError as error:
        raise ClientError(str(error)) from error


def _ids(jobs: Sequence[JobHandle[Any] | int]) -> list[int]:
    return [job if isinstance(job, int) else job.id for job in jobs]


def _refuse_while_loading() -> None:
    """A job loads the script or module of its function: it must not queue everything once more."""
    if Loading.wanted == NOTHING_STARTS:
        raise RuntimeError("this module queues jobs when it is imported; put that under if __name__ == '__main__':")
    raise Reached(None)


# ---- The decorator that turns calls of a function into jobs ----


class QueuedFunction(Generic[P, R]):
    """A function whose calls are queued. `local` calls it here and now."""

    def __init__(self, function: Callable[P, R], options: JobOptions) -> None:
        self._gputui_original = function
        self._options = checked(options)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Queues the call in the current session; the job's `result()` waits for what it returns."""
        return current().submit(self._gputui_original, args, kwargs, self._options)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """An ordinary call, in this process."""
        return self._gputui_original(*args, **kwargs)

    def options(self, **options: Unpack[JobOptions]) -> QueuedFunction[P, R]:
        """The same function with other options for its calls: `train.options(priority=50)(lr=0.1)`."""
        changed: JobOptions = {**self._options, **options}
        return QueuedFunction(self._gputui_original, changed)


def job(**options: Unpack[JobOptions]) -> Callable[[Callable[P, R]], QueuedFunction[P, R]]:
    """`@gputui.job(gpus=1)` before a function of a module: calling it queues the call and returns its `Job`."""
    checked(options)

    def decorate(function: Callable[P, R]) -> QueuedFunction[P, R]:
        return QueuedFunction(function, options)

    return decorate
