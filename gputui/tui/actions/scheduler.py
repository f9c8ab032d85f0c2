"""Actions on the scheduler: pause it, rerun failed jobs, and quit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gputui.core.amounts import counted
from gputui.core.events import Drain, Edit, Pause, PauseKind, Rerun, Resume, Seen, TryFirst, UserCommand
from gputui.core.job import FAILURES, Job, JobId, JobSpec, StateName
from gputui.core.snapshot import Snapshot
from gputui.tui.bridge import Way
from gputui.tui.dialogs.ask import Ask, Choice, Item, Pick
from gputui.views.failures import error_message, error_signature
from gputui.views.status import format_counts, has_pending_work, pauses, starts_jobs
from gputui.views.waiting import failed_jobs, pause_covering, rerun_suffix, resume_rule

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


SHOWN = 8


def pause(main: MainScreen) -> None:
    running = pauses(main.snapshot)
    event: UserCommand = Pause(PauseKind.USER) if running else Resume()
    done = "paused: running jobs continue" if running else "scheduler resumed"
    main.send([event], done, keeps_marks=True)


def rerun_failed(main: MainScreen) -> None:
    """Show failed jobs grouped by error and offer to rerun them. The jobs of the current pause are preselected."""
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in main.snapshot:
        if job.state.name in FAILURES:
            groups[error_signature(job)].append(job)
    if not groups:
        main.say("no job has failed")
        return
    named = set(failed_jobs(main.snapshot))
    in_pause = {error: sum(job.id in named for job in jobs) for error, jobs in groups.items()}
    items = []
    likely: list[Job] = []
    for error in sorted(groups, key=lambda error: (-in_pause[error], -len(groups[error]))):
        jobs = groups[error]
        ids = " ".join(f"#{job.id}" for job in jobs[:SHOWN]) + (" …" if len(jobs) > SHOWN else "")
        picked = bool(in_pause[error]) if named else True
        items.append(Item(error, f"{len(jobs):,} × {error_message(jobs[-1])}   {ids}", picked))
        likely += jobs if picked else []
    seen_states = {job.id: main.table.seen(job) for jobs in groups.values() for job in jobs}

    def answered(errors: list[str] | None) -> None:
        jobs = sorted((job for error in errors or () for job in groups[error]), key=lambda job: job.id)
        if jobs:
            rerun_and_resume(main, jobs, seen_states=seen_states, at_once=dialog.twice)

    body = "Failed jobs by error. They keep their original environment." + _how(main.snapshot, likely)
    go = f"rerun{rerun_suffix(main.snapshot, likely)}"
    dialog = Pick("Rerun", body, items, go=go, twice=("R", "at once"))
    main.ask(dialog, answered)


def _how(snapshot: Snapshot, jobs: Sequence[Job]) -> str:
    """Describe the order in which the jobs will start. Return an empty text if errors never pause the scheduler."""
    paused = pause_covering(snapshot, jobs)
    if paused is not None and paused.probing:
        return f"\nProbe #{paused.job} is running: they start once it {resume_rule(paused.life)}."
    if not snapshot.settings.pause_after:
        return ""
    when = (
        resume_rule(paused.life)
        if paused is not None
        else ("succeeds or has run three times as long as the failed jobs did (at least 1:00)")
    )
    return f"\nOne runs first; the others start once it {when}."


def rerun_and_resume(
    main: MainScreen,
    jobs: Sequence[Job],
    changed: Mapping[JobId, JobSpec] | None = None,
    seen_states: Mapping[JobId, Seen] | None = None,
    *,
    at_once: bool = False,
) -> None:
    """Rerun failed jobs and resume the scheduler if it is paused. One job runs first unless `at_once` is set.

    `changed` contains the new specs of edited jobs. `seen_states` contains the job states at the time when the dialog
    was opened.
    """
    seen_states = seen_states or {job.id: main.table.seen(job) for job in jobs}
    events: list[UserCommand] = [Rerun(job=job.id, seen=seen_states[job.id]) for job in jobs]
    # Sent in the same request, so that none starts with the old settings.
    events += [Edit(job=job, spec=spec) for job, spec in (changed or {}).items()]
    queued = f"{counted(len(jobs), 'job', 'jobs')} queued again"
    resumes = [] if pauses(main.snapshot) else [Resume()]
    if at_once:
        main.send([*events, *resumes], queued)
        return
    first = [TryFirst(tuple(job.id for job in jobs))] if len(jobs) > 1 else []
    # A pause after errors ends by itself once the first job has succeeded.
    resumes = [] if starts_jobs(main.snapshot) else resumes
    main.send([*resumes, *events, *first], f"{queued}{describe_order(main.snapshot, jobs)}")


def describe_order(snapshot: Snapshot, jobs: Sequence[Job]) -> str:
    """Describe which rerun job starts first, or say that the jobs start after the running probe."""
    paused = pause_covering(snapshot, jobs)
    if paused is not None and paused.probing:
        return f"; {'it starts' if len(jobs) == 1 else 'they start'} once #{paused.job} {resume_rule(paused.life)}"
    failed = [job for job in jobs if job.state.name in FAILURES]
    return f", #{failed[0].id} runs first" if len(failed) > 1 and snapshot.settings.pause_after else ""


def leave(main: MainScreen) -> None:
    snapshot = main.snapshot
    if main.bridge.read_only or not main.bridge.has_session or not has_pending_work(snapshot):
        main.host.leave(Way.DETACH)
        return
    started = "started" if snapshot.count(StateName.SUSPENDED) else "running"
    stopped = counted(snapshot.running, f"{started} job", f"{started} jobs")
    detach = Choice(Way.DETACH, "d", "detach: jobs keep running in the background", also=("q", "ctrl+c"))
    others = [
        Choice(Way.DRAIN, "r", "drain: let running jobs finish, start no new ones"),
        Choice(Way.STOP, "s", f"stop: end {stopped}, keep the queue"),
    ]
    main.ask(
        Ask("Quit", format_counts(snapshot), [detach] if main.read_only else [detach, *others], cancel="stay"),
        lambda way: main.host.leave(Way(way)) if way else None,
    )


def leaving_events(way: Way) -> list[UserCommand]:
    """Return the commands that must be committed before the app exits."""
    if way is Way.DRAIN:
        return [Drain()]
    if way is Way.STOP:
        return [Pause(PauseKind.STOPPED)]
    return []
