"""Adding jobs from the screen, and changing those that wait."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gputui.core.events import Edit
from gputui.core.job import Job, JobSpec, Request, Waiting
from gputui.core.states import predicate
from gputui.session.devices.device_commands import title, word_of
from gputui.session.owner.requests import Load, Loaded
from gputui.sources.pattern import pattern_of
from gputui.sources.source import specs
from gputui.sources.sweep import Sweep
from gputui.tui.model.arrangement import Pane
from gputui.tui.screens.job_form import JobForm
from gputui.tui.screens.sweep_form import SweepForm

from .devices import takes_no_jobs

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

HISTORY = 200


def add(main: MainScreen) -> None:
    """On the card under the cursor, where the keys go to the cards."""
    spec = JobSpec(command="", cwd=os.getcwd(), environment="")
    device = main.gpus.device if main.pane is Pane.GPUS else None
    word = word_of(device) if device is not None else None
    if device is None or word is None:
        _form(main, "Add a job", spec)
    elif takes_no_jobs(device):
        main.say(f"{title(device)} takes no jobs of this session: d enables it", grave=True)
    else:
        _form(main, f"Add a job on {title(device)}", replace(spec, request=Request(devices=(word,))))


def copy_as_new(main: MainScreen) -> None:
    job = main.job_under_cursor()
    if job is not None:
        spec = replace(job.spec, occurrence=None, hold=False, name=job.spec.name, priority=job.priority)
        _form(main, f"Add a job like #{job.id}", spec)


def _form(main: MainScreen, title: str, spec: JobSpec) -> None:
    def answered(written: JobSpec | None) -> None:
        if written is not None:
            main.with_session(lambda: load(main, (written,), written.group or "added"))

    main.ask(JobForm(title, spec, history(main), go="adds it"), answered)


def load(main: MainScreen, specs: tuple[JobSpec, ...], origin: str) -> None:
    """With the environment of this program, unless a spec names another."""

    def done(loaded: Loaded) -> None:
        added = f"#{loaded.jobs[-1]}" if loaded.new == 1 else f"{loaded.new:,} jobs"
        main.say(f"added {added}")
        if loaded.jobs:
            main.paint()
            main.table.move_to(loaded.jobs[-1])

    main.bridge.do(Load(specs, main.environment(), origin), done, lambda why: main.say(why, grave=True))


def sweep(main: MainScreen) -> None:
    job = main.snapshot[main.table.cursor] if main.table.cursor is not None else None

    def answered(sweep: Sweep | None) -> None:
        if sweep is not None:
            jobs = specs(sweep, cwd=os.getcwd(), environment="", group="sweep")
            main.with_session(lambda: load(main, jobs, "sweep"))

    main.ask(SweepForm(pattern_of(job.spec.command) if job is not None else ""), answered)


def edit(main: MainScreen) -> None:
    job = main.job_under_cursor()
    if job is None:
        return
    if not isinstance(job.state, Waiting):
        main.say(
            f"#{job.id} {predicate(job.state.name)}: only a waiting job can be changed; c adds one like it", grave=True
        )
        return
    seen_state = main.table.seen(job)

    def answered(written: JobSpec | None) -> None:
        if written is not None:
            main.send([Edit(job=job.id, seen=seen_state, spec=written)], f"#{job.id} changed")

    main.ask(JobForm(f"Change #{job.id}", job.spec, history(main), go="changes it", priority=job.priority), answered)


def history(main: MainScreen) -> list[str]:
    """Commands of this session, the newest first, each once."""
    snapshot = main.snapshot
    newest: dict[str, None] = {}
    for number in range(len(snapshot.jobs) - 1, max(-1, len(snapshot.jobs) - 1 - HISTORY), -1):
        job: Job = snapshot.jobs[number]
        newest.setdefault(job.spec.command)
    return list(newest)
