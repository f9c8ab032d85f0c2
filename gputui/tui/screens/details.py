"""One job, all that can be said of it, as text."""

from __future__ import annotations

from rich.text import Text

from gputui.core.job import Attempt, Job
from gputui.logs.plain import plain
from gputui.tui.bridge import Details
from gputui.tui.model.words import clock, counted, moment, state_words

from .reading import Reading

GIB = 1 << 30
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")


def details_screen(details: Details, name: str, now: float) -> Reading:
    title = f"#{details.job.id} {name}"
    texts = [lambda: job_text(details, now), lambda: environment_text(details.environment)]
    return Reading(title, texts, "v shows the environment, and back")


def job_text(details: Details, now: float) -> Text:
    job, text = details.job, Text()
    _line(text, "state", state_words(job) + (f": {details.why}" if details.why else ""))
    if details.remark:
        _line(text, "remark", details.remark)
    _line(text, "command", job.spec.command)
    if job.active is not None:
        _line(text, "pid", str(details.pid or "none: its command has not begun, or has just ended"))
    _line(text, "cwd", job.spec.cwd)
    _line(text, "files", details.folder)
    _line(text, "asks for", _request(job))
    _line(text, "priority", str(job.priority))
    for label, written in _settings(job):
        _line(text, label, written)
    if job.attempts or job.active is not None:
        _heading(text, "Attempts")
        for attempt in job.attempts:
            text.append(f"  {plain(_attempt(attempt, now))}\n")
        if job.active is not None:
            where = f" on GPU {', '.join(job.active.gpus)}" if job.active.gpus else ""
            since = f"{moment(job.active.since, now)}, for {clock(now - job.active.since)}"
            text.append(f"  {job.active.attempt}  {state_words(job)}{where} since {since}\n")
    _heading(text, "Story")
    for at, words in details.story:
        text.append(f"  {moment(at, now)}  {plain(words)}\n")
    return text


def environment_text(environment: dict[str, str]) -> Text:
    """What looks like a secret is not shown."""
    text = Text()
    text.append("The environment its next attempt gets; what looks secret is masked.\n\n", "dim")
    for name in sorted(environment):
        masked = any(word in name.upper() for word in SECRET)
        text.append(plain(name), "bold").append(f"={'••••••' if masked else plain(environment[name])}\n")
    return text


def _line(text: Text, label: str, words: str) -> None:
    text.append(f"{label:<9}", "bold").append(f" {plain(words)}\n")


def _heading(text: Text, words: str) -> None:
    text.append(f"\n{words}\n", "bold underline")


def _request(job: Job) -> str:
    request = job.spec.request
    words = "one lane" if request.gpus is None else counted(request.gpus, "GPU", "GPUs") if request.gpus else "no GPU"
    if request.memory is not None:
        words += f" with {request.memory / GIB:.1f} GB each"
    elif request.memory_share is not None:
        words += f" with {request.memory_share:.0%} of its memory"
    return words + (f" among {', '.join(request.devices)}" if request.devices else "")


def _settings(job: Job) -> list[tuple[str, str]]:
    spec = job.spec
    parameters = " ".join(f"{key}={value}" for key, value in spec.params.items())
    given = [
        ("group", spec.group),
        ("params", parameters),
        ("after", ", ".join(f"#{other}" for other in job.after) + (" (however they end)" if spec.after_any else "")),
        ("retries", str(spec.retries or "")),
        ("retry on", ", ".join(spec.retry_on)),
        ("timeout", clock(spec.timeout) if spec.timeout else ""),
        ("outfile", spec.outfile or ""),
        ("shell", spec.shell),
    ]
    return [(label, words) for label, words in given if words]


def _attempt(attempt: Attempt, now: float) -> str:
    where = f" on GPU {', '.join(attempt.gpus)}" if attempt.gpus else ""
    words = [
        f"{attempt.number}  {attempt.end.name.replace('_', ' ')}{where}",
        f"{moment(attempt.started, now)}, {clock(attempt.ended - attempt.started)}",
    ]
    if attempt.exit_code is not None:
        words.append(f"exit {attempt.exit_code}")
    usage = attempt.usage
    if usage is not None and usage.gpu_mean is not None:
        words.append(f"GPU {usage.gpu_mean:.0f} % mean")
    if usage is not None and usage.gpu_peak_memory is not None:
        words.append(f"{usage.gpu_peak_memory / GIB:.1f} GB peak")
    if attempt.said:
        words.append(attempt.said)
    return " · ".join(words)
