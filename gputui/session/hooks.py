"""Hooks: commands of the user that run when a job starts, ends or hangs, when the session pauses, and when all work is
done.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from msgspec import Struct, field

from gputui.core.amounts import counted
from gputui.core.events import Cause
from gputui.core.job import FAILURES, Ended, Failed, Job, JobId
from gputui.core.snapshot import Snapshot
from gputui.process.spawn import CopyOf, OpenedPath, spawn
from gputui.process.watch import Cancel, EventLoop, Watch
from gputui.views.format import silence
from gputui.views.status import Alerts, has_pending_work

from .config import Config
from .environment import inherited
from .job_directories import Directories, Files
from .messages import EventKind, LoggedEvent
from .session_dir import session_name

MOST_AT_ONCE = 8
MOST_WAITING = 1000
MOST_AT_CLOSE = 64
"""Maximum number of waiting hooks that are started when the owner leaves. The newest ones are chosen."""
LOG_LIMIT = 1 << 20
"""Size in bytes above which hooks.log is renamed to hooks.log.1."""
RUNAWAY = 16 * LOG_LIMIT
LOOK_EVERY = 1.0

Variables = dict[str, str]


class Hook(Struct, frozen=True):
    command: str
    event: str
    variables: Variables


class HookRunner(Struct, eq=False):
    """A queue that runs hooks in order, a few at the same time. If too many are waiting, further hooks are dropped."""

    loop: EventLoop
    log: str
    timeout: float
    complain: Callable[[str], None]
    _waiting: deque[Hook] = field(default_factory=deque)
    _starting: int = 0
    _watched: set[_Run] = set()
    _dropped: int = 0
    _closed: bool = False

    def take(self, hook: Hook) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
            if self._dropped == 1:
                self.complain(f"{MOST_WAITING} hooks are already queued; dropping further ones")
            return
        self._waiting.append(hook)
        self._start_more()

    def _start_more(self) -> None:
        while self._waiting and self._starting + len(self._watched) < MOST_AT_ONCE:
            self._starting += 1
            hook = self._waiting.popleft()
            self.loop.run_in_thread(partial(spawn_hook, hook, self.log), partial(self._started, hook))

    def _started(self, hook: Hook, result: int | str) -> None:
        self._starting -= 1
        if isinstance(result, str):
            self._report(hook, result)
        elif not self._closed:
            self._watched.add(_Run(self.loop, hook, result, self.timeout, self.log, self._ended))
        self._continue()

    def _ended(self, run: _Run) -> None:
        self._watched.discard(run)
        trouble = run.finish()
        if trouble is not None:
            self._report(run.hook, trouble)
        self._continue()

    def _report(self, hook: Hook, trouble: str) -> None:
        self.complain(f"hook on_{hook.event}: {trouble}")

    def _report_dropped(self, count: int, why: str = "") -> None:
        if count > 0:
            self.complain(f"{counted(count, 'hook was', 'hooks were')} dropped{why}")

    def _continue(self) -> None:
        if self._closed:
            return
        self._start_more()
        if not self._waiting:
            self._report_dropped(self._dropped)
            self._dropped = 0

    def close(self) -> None:
        self._closed = True
        for run in self._watched:
            run.abandon()
        self._report_dropped(len(self._waiting) - MOST_AT_CLOSE, ": the scheduler is exiting")
        for hook in list(self._waiting)[-MOST_AT_CLOSE:]:
            result = spawn_hook(hook, self.log)
            if isinstance(result, str):
                self._report(hook, result)
        self._waiting.clear()


class _Run:
    """A running hook."""

    def __init__(
        self, loop: EventLoop, hook: Hook, pid: int, timeout: float, log: str, ended: Callable[[_Run], None]
    ) -> None:
        self.hook = hook
        self._loop = loop
        self._watch = Watch(pid)
        self._left = self._limit = timeout
        self._log = log
        self._killed: str | None = None
        self._watch.begin(loop, partial(ended, self))
        self._timer: Cancel = loop.call_later(min(LOOK_EVERY, timeout), self._look)

    def _look(self) -> None:
        self._left -= LOOK_EVERY
        if self._left <= 0:
            self._kill(f"killed after {self._limit:g} s (hooks.timeout)")
        elif _size(self._log) > RUNAWAY:
            self._kill("killed: too much output")
        else:
            self._timer = self._loop.call_later(min(LOOK_EVERY, self._left), self._look)

    def _kill(self, why: str) -> None:
        self._killed = why
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._watch.pid, signal.SIGKILL)

    def finish(self) -> str | None:
        """Return what went wrong, or None. Call this after the hook has ended."""
        self._timer.cancel()
        result = self._watch.finish()
        if self._killed is not None:
            return self._killed
        if result is None or (result.si_code == os.CLD_EXITED and result.si_status == 0):
            return None
        return f"{'exit' if result.si_code == os.CLD_EXITED else 'signal'} {result.si_status}; see {self._log}"

    def abandon(self) -> None:
        self._timer.cancel()
        self._watch.close()


def spawn_hook(hook: Hook, log: str) -> int | str:
    """Start the hook in a kernel session of its own. Return its pid or an error message."""
    try:
        if _size(log) > LOG_LIMIT:
            os.replace(log, log + ".1")
        output = OpenedPath(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return spawn(["/bin/sh", "-c", hook.command], {**inherited(), **hook.variables}, {1: output, 2: CopyOf(1)})
    except (OSError, ValueError) as error:
        return f"failed to start: {error}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


EVENTS = ("on_job_start", "on_job_end", "on_hang", "on_pause", "on_drained")


class Hooks:
    """The commands that the user configured for events and for messages."""

    def __init__(self, loop: EventLoop, config: Config, root: str, complain: Callable[[str], None]) -> None:
        self._root = root
        self._log = os.path.join(root, ".gputui", "hooks.log")
        self._commands: dict[str, str | None] = {event: config.get(f"hooks.{event}")[0] for event in EVENTS}
        self._notify: str | None = config.get("notify")[0]
        self._runner = HookRunner(loop, self._log, float(config.get("hooks.timeout")[0]), complain)

    @property
    def session_name(self) -> str:
        return session_name(self._root)

    @property
    def wanted(self) -> bool:
        return any(self._commands.values()) or self._notify is not None

    def notify(self, message: str) -> None:
        """Run the `notify` command with the message on its standard input."""
        if self._notify is not None:
            # The user's command is on lines of its own, so that a comment in it does not hide the closing parenthesis.
            command = f'printf "%s\\n" "$GPUTUI_MESSAGE" | (\n{self._notify}\n)'
            self._take(command, "notify", {"GPUTUI_MESSAGE": message.replace("\0", "")})

    def job_started(self, job: Job, facts: Variables) -> None:
        """Run the hook for the start of an attempt. The hook and the job run at the same time."""
        self._run_for_attempt("job_start", job, facts | {"GPUTUI_JOB_STATE": "running"}, "")

    def job_ended(self, job: Job, facts: Variables) -> None:
        """Run the hook for the end of a job. Called once the end is durable, but not if the job is retried
        automatically.
        """
        self._run("job_end", _describe_job(job) | facts)

    def job_hangs(self, job: Job, words: str, facts: Variables) -> None:
        """Run the hook for a job that hangs, once each time that an attempt becomes silent. `words` describes the
        silence, such as `silent 34 m`.
        """
        self._run_for_attempt("hang", job, facts, words)

    def _run_for_attempt(self, event: str, job: Job, facts: Variables, cause: str) -> None:
        gpus = job.active.gpus if job.active is not None else job.attempts[-1].gpus
        about = {"GPUTUI_ATTEMPT": str(job.issued), "GPUTUI_JOB_GPUS": ",".join(gpus), "GPUTUI_CAUSE": cause}
        unknown = dict.fromkeys(("GPUTUI_EXIT_CODE", "GPUTUI_SIGNAL", "GPUTUI_SECONDS"), "")
        self._run(event, _describe_job(job) | unknown | about | facts)

    def paused(self, cause: Cause, facts: Variables) -> None:
        variables = {
            "GPUTUI_CAUSE": cause.message,
            "GPUTUI_CAUSE_KIND": str(cause.kind),
            "GPUTUI_JOBS": " ".join(map(str, cause.jobs)),
            "GPUTUI_SIGNATURE": cause.signature or "",
        }
        self._run("pause", variables | facts)

    def drained(self, facts: Variables) -> None:
        """Run the hook for the end of all work: no job is running, and none will start without the user."""
        self._run("drained", facts)

    def _run(self, event: str, facts: Variables) -> None:
        command = self._commands[f"on_{event}"]
        if command is not None:
            self._take(command, event, facts)

    def _take(self, command: str, event: str, facts: Variables) -> None:
        about = {"GPUTUI_EVENT": event, "GPUTUI_SESSION": self._root}
        self._runner.take(Hook(command, event, about | facts))

    def close(self) -> None:
        """Stop watching running hooks, which continue, and start the waiting ones without watching them."""
        self._runner.close()


def _describe_job(job: Job) -> Variables:
    last = job.attempts[-1] if job.attempts else None
    end = job.state if isinstance(job.state, Ended) else None
    facts: dict[str, str | int | None] = {
        "GPUTUI_JOB_ID": job.id,
        "GPUTUI_JOB_NAME": job.name,
        "GPUTUI_JOB_STATE": str(job.state.name),
        "GPUTUI_JOB_COMMAND": job.spec.command,
        "GPUTUI_JOB_GROUP": job.spec.group,
        "GPUTUI_ATTEMPT": last.number if last is not None else 0,
        "GPUTUI_EXIT_CODE": last.exit_code if last is not None else None,
        "GPUTUI_SIGNAL": end.signal if isinstance(end, Failed) else None,
        "GPUTUI_JOB_GPUS": ",".join(last.gpus) if last is not None else "",
        "GPUTUI_SECONDS": f"{last.ended - last.started:.1f}" if last is not None else "",
        "GPUTUI_CAUSE": last.reason if last is not None else None,
    }
    return {name: "" if value is None else str(value).replace("\0", "") for name, value in facts.items()}


class Reactions:
    """The hooks and notifications that follow from changes. All methods are called in the owner's thread."""

    def __init__(self, hooks: Hooks, directories: Directories, snapshot: Snapshot) -> None:
        self._hooks = hooks
        self._directories = directories
        self._alerts = Alerts(snapshot, hooks.session_name)
        self._paused = _cause(snapshot) is not None
        self._worked = False
        self._unseen: set[JobId] = set()
        self._events: list[LoggedEvent] = []

    def note(self, events: Iterable[LoggedEvent]) -> None:
        """Remember events, which are durable now, for the next call of `look`."""
        self._events += events

    def look(self, snapshot: Snapshot) -> None:
        """Run the hooks for what has happened. Called with every snapshot."""
        self._unseen |= snapshot.changed
        if not snapshot.is_saved:
            return
        events, self._events = self._events, []
        for event in events:
            if event.job is not None:
                self._react(event, snapshot, snapshot[event.job])
        cause = _cause(snapshot)
        if cause is not None and not self._paused:
            self._hooks.paused(cause, _facts(snapshot))
        self._paused = cause is not None
        works = has_pending_work(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works:
            self._hooks.drained(_facts(snapshot))
        self._worked = works
        changed, self._unseen = self._unseen, set()
        for message in self._alerts.update(snapshot, changed, time.time()):
            self._hooks.notify(message)

    def _react(self, event: LoggedEvent, snapshot: Snapshot, job: Job) -> None:
        files = self._directories.current_files(job, job.issued) if job.issued else Files("", None)
        facts = _facts(snapshot, files.out, files.err)
        match event.event:
            case EventKind.STARTED if event.attempt == job.issued:
                self._hooks.job_started(job, facts)
            case EventKind.ENDED if event.final:
                self._hooks.job_ended(job, facts)
            case EventKind.ALERT:
                self._hooks.job_hangs(job, silence(snapshot, job, time.time()), facts)


def _facts(snapshot: Snapshot, out: str = "", err: str | None = None) -> Variables:
    return {
        "GPUTUI_OUT": out,
        "GPUTUI_ERR": err or out,
        "GPUTUI_RUNNING": str(snapshot.running),
        "GPUTUI_WAITING": str(snapshot.not_begun),
        "GPUTUI_FAILED": str(snapshot.count(*FAILURES)),
    }


def _cause(snapshot: Snapshot) -> Cause | None:
    """Return the cause of a pause of all jobs or of one group, or None."""
    paused = (paused.cause for paused in snapshot.paused_scopes)
    return snapshot.cause or next(paused, None)
