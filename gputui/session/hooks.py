"""Hooks: the user's commands for starts, ends and pauses of jobs."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from gputui.core.amounts import counted
from gputui.core.events import Cause
from gputui.core.job import FAILURES, Crashed, Ended, Job, JobId, Running
from gputui.core.snapshot import Snapshot
from gputui.process.descriptors import OpenedPath, Same
from gputui.process.spawn import spawn
from gputui.process.watch import Cancel, EventLoop, Watch
from gputui.views.format import silence
from gputui.views.status import Alerts, goes_on

from .config import Config
from .environment import inherited
from .job_folders import Folders
from .session_dir import session_name

# ---- Runs hooks ----


MOST_AT_ONCE = 8
MOST_WAITING = 1000
MOST_AT_CLOSE = 64
"""So many of those still waiting when the owner leaves are started, the newest."""
LOG_LIMIT = 1 << 20
"""Bytes of hooks.log; then it is kept once as hooks.log.1 and begun anew."""
RUNAWAY = 16 * LOG_LIMIT
LOOK_EVERY = 1.0

Variables = dict[str, str]


class Hook(Struct, frozen=True):
    command: str
    event: str
    variables: Variables


class HookRunner:
    """Some at a time, in the order they came; too many waiting are dropped, and that is said once."""

    def __init__(self, loop: EventLoop, log: str, timeout: float, complain: Callable[[str], None]) -> None:
        self._loop = loop
        self._log = log
        self._timeout = timeout
        self._complain = complain
        self._waiting: deque[Hook] = deque()
        self._starting = 0
        self._watched: set[_Run] = set()
        self._dropped = 0
        self._closed = False

    def take(self, hook: Hook) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
            if self._dropped == 1:
                self._complain(f"{MOST_WAITING} hooks wait already; further ones are left out")
            return
        self._waiting.append(hook)
        self._start_more()

    def _start_more(self) -> None:
        while self._waiting and self._starting + len(self._watched) < MOST_AT_ONCE:
            self._starting += 1
            hook = self._waiting.popleft()
            self._loop.run_in_thread(partial(spawned, hook, self._log), partial(self._started, hook))

    def _started(self, hook: Hook, result: int | str) -> None:
        self._starting -= 1
        if isinstance(result, str):
            self._complain(f"hook on_{hook.event}: {result}")
        elif not self._closed:
            run = _Run(hook, result, self._timeout, self._log)
            self._watched.add(run)
            run.begin(self._loop, partial(self._ended, run))
        self._go_on()

    def _ended(self, run: _Run) -> None:
        self._watched.discard(run)
        trouble = run.finish()
        if trouble is not None:
            self._complain(f"hook on_{run.hook.event}: {trouble}")
        self._go_on()

    def _go_on(self) -> None:
        if self._closed:
            return
        self._start_more()
        if self._dropped and not self._waiting:
            self._complain(f"{counted(self._dropped, 'hook was', 'hooks were')} left out")
            self._dropped = 0

    def close(self) -> None:
        self._closed = True
        for run in self._watched:
            run.let_go()
        if len(self._waiting) > MOST_AT_CLOSE:
            self._complain(
                f"{counted(len(self._waiting) - MOST_AT_CLOSE, 'hook was', 'hooks were')} left out: the owner leaves"
            )
        for hook in list(self._waiting)[-MOST_AT_CLOSE:]:
            result = spawned(hook, self._log)
            if isinstance(result, str):
                self._complain(f"hook on_{hook.event}: {result}")
        self._waiting.clear()


class _Run:
    """One hook under way."""

    def __init__(self, hook: Hook, pid: int, timeout: float, log: str) -> None:
        self.hook = hook
        self._watch = Watch(pid)
        self._left = timeout
        self._limit = timeout
        self._log = log
        self._killed: str | None = None
        self._timer: Cancel | None = None

    def begin(self, loop: EventLoop, ended: Callable[[], None]) -> None:
        self._watch.begin(loop, ended)
        self._later(loop)

    def _later(self, loop: EventLoop) -> None:
        self._timer = loop.call_later(min(LOOK_EVERY, max(0.0, self._left)), lambda: self._look(loop))

    def _look(self, loop: EventLoop) -> None:
        self._left -= LOOK_EVERY
        if self._left <= 0:
            self._kill(f"killed after {self._limit:g} s (hooks.timeout)")
        elif _size(self._log) > RUNAWAY:
            self._kill("killed: it printed without end")
        else:
            self._later(loop)

    def _kill(self, why: str) -> None:
        self._killed = why
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._watch.pid, signal.SIGKILL)

    def finish(self) -> str | None:
        """After its end: what went wrong, if anything did."""
        if self._timer is not None:
            self._timer.cancel()
        result = self._watch.finish()
        if self._killed is not None:
            return self._killed
        if result is None or (result.si_code == os.CLD_EXITED and result.si_status == 0):
            return None
        return f"{'exit' if result.si_code == os.CLD_EXITED else 'signal'} {result.si_status}; see {self._log}"

    def let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watch.close()


def spawned(hook: Hook, log: str) -> int | str:
    """The pid of a new session's leader, or the sentence why there is none."""
    try:
        _make_room(log)
        output = OpenedPath(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return spawn(["/bin/sh", "-c", hook.command], {**inherited(), **hook.variables}, {1: output, 2: Same(1)})
    except (OSError, ValueError) as error:
        return f"could not be started: {error}"


def _make_room(log: str) -> None:
    if _size(log) > LOG_LIMIT:
        os.replace(log, log + ".1")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


# ---- What the user wants run when a job starts, ends or hangs, at a pause, when all is done ----


class Facts(Struct, frozen=True, kw_only=True):
    """What of the session a hook is told beside its job."""

    out: str | None = None
    err: str | None = None
    running: int = 0
    waiting: int = 0
    failed: int = 0


EVENTS = ("on_job_start", "on_job_end", "on_hang", "on_pause", "on_drained")


class Hooks:
    """The five events. Without a command for one, it costs nothing."""

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

    def told(self, message: str) -> None:
        """Something that the user is called for; their command gets it on its standard input."""
        if self._notify is not None:
            # A newline first, so that a comment in the command hides nothing of ours.
            command = f'printf "%s\\n" "$GPUTUI_MESSAGE" | (\n{self._notify}\n)'
            self._run(command, "notify", {"GPUTUI_MESSAGE": message.replace("\0", "")})

    def job_started(self, job: Job, facts: Facts) -> None:
        """Beside the job, which does not wait for it; once for each attempt."""
        command = self._commands["on_job_start"]
        if command is not None:
            gpus = job.active.gpus if job.active is not None else job.attempts[-1].gpus
            about = {
                "GPUTUI_ATTEMPT": str(job.issued),
                "GPUTUI_JOB_GPUS": ",".join(gpus),
                "GPUTUI_JOB_STATE": "running",
            }
            unknown = dict.fromkeys(("GPUTUI_EXIT_CODE", "GPUTUI_SIGNAL", "GPUTUI_SECONDS", "GPUTUI_CAUSE"), "")
            self._run(command, "job_start", _of_job(job) | unknown | about | _of_facts(facts))

    def job_ended(self, job: Job, facts: Facts) -> None:
        """After the end is durable, once per job: retries to come are no end."""
        command = self._commands["on_job_end"]
        if command is not None:
            self._run(command, "job_end", _of_job(job) | _of_facts(facts))

    def job_hangs(self, job: Job, words: str, facts: Facts) -> None:
        """`words`: such as `silent 34 m`; once for each attempt and silence."""
        command = self._commands["on_hang"]
        if command is not None:
            gpus = job.active.gpus if job.active is not None else ()
            about = {
                "GPUTUI_ATTEMPT": str(job.issued),
                "GPUTUI_JOB_GPUS": ",".join(gpus),
                "GPUTUI_CAUSE": words,
                "GPUTUI_EXIT_CODE": "",
                "GPUTUI_SIGNAL": "",
                "GPUTUI_SECONDS": "",
            }
            self._run(command, "hang", _of_job(job) | about | _of_facts(facts))

    def paused(self, cause: Cause, facts: Facts) -> None:
        command = self._commands["on_pause"]
        if command is not None:
            variables = {
                "GPUTUI_CAUSE": cause.message,
                "GPUTUI_CAUSE_KIND": str(cause.kind),
                "GPUTUI_JOBS": " ".join(map(str, cause.jobs)),
                "GPUTUI_SIGNATURE": cause.signature or "",
            }
            self._run(command, "pause", variables | _of_facts(facts))

    def drained(self, facts: Facts) -> None:
        """Nothing runs and nothing will start by itself."""
        command = self._commands["on_drained"]
        if command is not None:
            self._run(command, "drained", _of_facts(facts))

    def _run(self, command: str, event: str, facts: Variables) -> None:
        about = {"GPUTUI_EVENT": event, "GPUTUI_SESSION": self._root}
        self._runner.take(Hook(command, event, about | facts))

    def close(self) -> None:
        """Lets go of those under way; they end by themselves. Those that wait are started, without being watched."""
        self._runner.close()


def _of_job(job: Job) -> Variables:
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
        "GPUTUI_SIGNAL": end.signal if isinstance(end, Crashed) else None,
        "GPUTUI_JOB_GPUS": ",".join(last.gpus) if last is not None else "",
        "GPUTUI_SECONDS": f"{last.ended - last.started:.1f}" if last is not None else "",
        "GPUTUI_CAUSE": last.said if last is not None else None,
    }
    return {name: "" if value is None else str(value).replace("\0", "") for name, value in facts.items()}


def _of_facts(facts: Facts) -> Variables:
    return {
        "GPUTUI_OUT": facts.out or "",
        "GPUTUI_ERR": facts.err or facts.out or "",
        "GPUTUI_RUNNING": str(facts.running),
        "GPUTUI_WAITING": str(facts.waiting),
        "GPUTUI_FAILED": str(facts.failed),
    }


# ---- When hooks are due ----


class Reactions:
    """Told every snapshot, in the owner's thread; a job's end counts once for each of its attempts."""

    def __init__(self, hooks: Hooks, folders: Folders, snapshot: Snapshot) -> None:
        self._hooks = hooks
        self._folders = folders
        self._told: set[tuple[JobId, int]] = {
            (job.id, job.issued) for job in snapshot.jobs if isinstance(job.state, Ended)
        }
        self._begun: dict[JobId, int] = {job: snapshot[job].issued for job in snapshot.active}
        running = (snapshot[job].state for job in snapshot.active)
        self._silent: dict[JobId, float] = {
            job: state.silent_since
            for job, state in zip(snapshot.active, running, strict=True)
            if isinstance(state, Running) and state.silent_since is not None
        }
        """What the owner before told of already is not told again."""
        self._alerts = Alerts(snapshot, hooks.session_name)
        self._paused = _cause(snapshot) is not None
        self._worked = False
        self._unseen: set[JobId] = set()

    def look(self, snapshot: Snapshot) -> None:
        self._unseen |= snapshot.changed
        if not snapshot.is_saved:
            return
        changed, self._unseen = self._unseen, set()
        for job_id in sorted(changed):
            self._job(snapshot, snapshot[job_id])
        cause = _cause(snapshot)
        if cause is not None and not self._paused:
            self._hooks.paused(cause, _facts(snapshot))
        self._paused = cause is not None
        works = goes_on(snapshot) if self._worked or snapshot.active else False
        if self._worked and not works:
            self._hooks.drained(_facts(snapshot))
        self._worked = works
        for message in self._alerts.look(snapshot, changed, time.time()):
            self._hooks.told(message)

    def _job(self, snapshot: Snapshot, job: Job) -> None:
        key = (job.id, job.issued)
        ended = isinstance(job.state, Ended) and key not in self._told
        ran = bool(job.attempts) and job.attempts[-1].number == job.issued
        # A quick one has ended before anybody saw it run.
        if (isinstance(job.state, Running) or (ended and ran)) and self._begun.get(job.id) != job.issued:
            self._begun[job.id] = job.issued
            now = self._folders.files(job, job.issued)
            self._hooks.job_started(job, _facts(snapshot, now.out, now.err))
        self._hang(snapshot, job)
        if ended:
            self._told.add(key)
            files = self._folders.written(job, job.issued) if job.issued else None
            out, err = (files.out, files.err) if files is not None else (None, None)
            self._hooks.job_ended(job, _facts(snapshot, out, err))

    def _hang(self, snapshot: Snapshot, job: Job) -> None:
        since = job.state.silent_since if isinstance(job.state, Running) else None
        before = self._silent.pop(job.id, None)
        if since is None:
            return
        self._silent[job.id] = since
        if before is None:
            files = self._folders.files(job, job.issued)
            self._hooks.job_hangs(job, silence(snapshot, job, time.time()), _facts(snapshot, files.out, files.err))


def _facts(snapshot: Snapshot, out: str | None = None, err: str | None = None) -> Facts:
    failed = snapshot.count(*FAILURES)
    return Facts(out=out, err=err, running=snapshot.running, waiting=snapshot.not_begun, failed=failed)


def _cause(snapshot: Snapshot) -> Cause | None:
    """Of a pause of all jobs, or of one group."""
    paused = (caution.cause for caution in snapshot.cautions)
    return snapshot.cause or next(paused, None)
