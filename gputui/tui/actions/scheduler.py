"""Keys for the scheduler as a whole: pausing, going on after crashes, leaving."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gputui.core.amounts import counted
from gputui.core.events import Drain, Edit, Pause, PauseKind, Requeue, Rerun, Resume, Seen, TryFirst, UserCommand
from gputui.core.job import FAILURES, Active, Job, JobId, JobSpec, StateName, Stopping
from gputui.core.snapshot import Snapshot, crashed_jobs, over, rerun_manner, rule
from gputui.tui.bridge import Way
from gputui.tui.dialogs.ask import Ask, Choice, Item, Pick, help_screen
from gputui.tui.queue.rows import BAD_ENDS
from gputui.views.failures import said_of, signature_of
from gputui.views.status import counts_told, goes_on, pauses, starts_jobs

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


SHOWN = 8


def pause(main: MainScreen) -> None:
    running = pauses(main.snapshot)
    event: UserCommand = Pause(PauseKind.USER) if running else Resume()
    done = "paused: running jobs go on" if running else "the scheduler starts jobs again"
    main.send([event], done, keeps_marks=True)


def rerun_failed(main: MainScreen) -> None:
    """By crash; what the current pause names is picked already."""
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in main.snapshot:
        if job.state.name in BAD_ENDS and job.state.name is not StateName.SKIPPED:
            groups[signature_of(job)].append(job)
    if not groups:
        main.say("no job has failed")
        return
    named = set(crashed_jobs(main.snapshot))
    ordered = sorted(groups, key=lambda words: (-sum(job.id in named for job in groups[words]), -len(groups[words])))
    items = [Item(each, _group(groups[each]), _picked(groups[each], named)) for each in ordered]
    seen_states = {job.id: main.table.seen(job) for jobs in groups.values() for job in jobs}

    def answered(picked: list[str] | None) -> None:
        jobs = sorted((job for each in picked or () for job in groups[each]), key=lambda job: job.id)
        if jobs:
            rerun_and_resume(main, jobs, seen_states=seen_states, at_once=dialog.twice)

    likely = [job for each in ordered if _picked(groups[each], named) for job in groups[each]]
    body = "Failed jobs by crash. Their environment stays the one they were added with." + _how(main.snapshot, likely)
    go = f"rerun{rerun_manner(main.snapshot, likely)}"
    dialog = Pick("Rerun", body, items, go=go, twice=("R", "all at once"))
    main.ask(dialog, answered)


def _how(snapshot: Snapshot, jobs: Sequence[Job]) -> str:
    """In which order they start; nothing where crashes never pause anything."""
    caution = over(snapshot, jobs)
    if caution is not None and caution.tries:
        return f"\n#{caution.job} is tried alone now: they start when it {rule(caution.life)}."
    if not snapshot.settings.pause_after:
        return ""
    when = (
        rule(caution.life)
        if caution is not None
        else "succeeds or lives three times as long as they did, 1:00 at least"
    )
    return f"\nOf several one is tried first; the others start when it {when}."


def rerun_and_resume(
    main: MainScreen,
    jobs: Sequence[Job],
    changed: Mapping[JobId, JobSpec] | None = None,
    seen_states: Mapping[JobId, Seen] | None = None,
    *,
    at_once: bool = False,
) -> None:
    """One is tried first, unless all are wanted at once.

    `changed`: what some of them become first; `seen_states`: as they were painted when it was asked.
    """
    seen_states = seen_states or {job.id: main.table.seen(job) for job in jobs}
    events: list[UserCommand] = [Rerun(job=job.id, seen=seen_states[job.id]) for job in jobs]
    # In the same request, so that none of them starts in between.
    events += [Edit(job=job, spec=spec) for job, spec in (changed or {}).items()]
    queued = f"{counted(len(jobs), 'job', 'jobs')} queued again"
    resumes = [] if pauses(main.snapshot) else [Resume()]
    if at_once:
        main.send([*events, *resumes], queued)
        return
    by_people = not starts_jobs(main.snapshot)
    first = [TryFirst(tuple(job.id for job in jobs))] if len(jobs) > 1 else []
    main.send([*(resumes if by_people else []), *events, *first], f"{queued}{order_told(main.snapshot, jobs)}")


def order_told(snapshot: Snapshot, jobs: Sequence[Job]) -> str:
    """What becomes of reruns, as things stand: one first, or all of them after the one that is tried now."""
    caution = over(snapshot, jobs)
    if caution is not None and caution.tries:
        return f"; {'it starts' if len(jobs) == 1 else 'they start'} when #{caution.job} {rule(caution.life)}"
    failed = [job for job in jobs if job.state.name in FAILURES]
    return f", #{failed[0].id} is tried first" if len(failed) > 1 and snapshot.settings.pause_after else ""


def _group(jobs: list[Job]) -> str:
    """With the words of the newest of them: a true message, not what they are compared by."""
    ids = " ".join(f"#{job.id}" for job in jobs[:SHOWN]) + (" …" if len(jobs) > SHOWN else "")
    return f"{len(jobs):,} × {said_of(jobs[-1])}   {ids}"


def _picked(jobs: list[Job], named: set[int]) -> bool:
    return any(job.id in named for job in jobs) if named else True


def leave(main: MainScreen) -> None:
    snapshot = main.snapshot
    if main.bridge.only_looks or not main.bridge.has_session or not goes_on(snapshot):
        main.on_leave(Way.DETACH)
        return
    started = "started" if snapshot.count(StateName.SUSPENDED) else "running"
    stopped = counted(snapshot.running, f"{started} job", f"{started} jobs")
    detach = Choice(Way.DETACH, "d", "detach: everything goes on without this screen", also=("q", "ctrl+c"))
    others = [
        Choice(Way.DRAIN, "r", "drain: running jobs end by themselves, nothing new starts"),
        Choice(Way.STOP, "s", f"stop: end {stopped}, keep the queue"),
    ]
    main.ask(
        Ask("Leave", counts_told(snapshot), [detach] if main.read_only else [detach, *others], cancel="stay"),
        lambda way: main.on_leave(Way(way)) if way else None,
    )


def leaving_events(main: MainScreen, way: Way) -> list[UserCommand]:
    """What must be durable before this screen goes, so that nobody undoes it."""
    if way is Way.DRAIN:
        return [Drain()]
    if way is Way.STOP:
        return [Pause(PauseKind.STOPPED), *requeues(main)]
    return []


def requeues(main: MainScreen) -> list[UserCommand]:
    snapshot = main.snapshot
    active = (snapshot[job] for job in snapshot.active)
    return [
        Requeue(job=job.id) for job in active if isinstance(job.state, Active) and not isinstance(job.state, Stopping)
    ]


def show_help(main: MainScreen) -> None:
    main.ask(help_screen(main.changed_keys, main.size.width), lambda _: None)
