"""What the user wants run when a job starts, ends or hangs, at a pause, when all is done: when, and told what."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from gputui.core.job import Crashed, Ended, Job
from gputui.core.mode import Cause
from gputui.process.event_loop import EventLoop
from gputui.session.config import Config
from gputui.session.files.paths import session_name

from .hook_runner import Hook, HookRunner, Variables


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
