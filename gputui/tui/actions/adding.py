"""Actions that add jobs, edit waiting ones, and reload job files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.screen import ModalScreen

from gputui.core.events import Edit
from gputui.core.job import JobSpec, Request, Waiting, predicate
from gputui.session.code_snapshots import with_code
from gputui.session.devices.slot_changes import device_name
from gputui.session.loading import (
    ReloadPlan,
    RerunRules,
    SourceKind,
    SourceRecord,
    describe_reload,
    reload_plan,
    reread,
)
from gputui.session.owner.requests import Load, Loaded
from gputui.sources.source import BadInput, specs
from gputui.sources.sweep import Sweep, pattern_of
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.layout import Pane

from .devices import takes_no_jobs

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


HISTORY = 200
SHOWN = 5


def add(main: MainScreen) -> None:
    """Add a job. If the GPU pane has the focus, the job is for the GPU under the cursor."""
    spec = JobSpec(command="", cwd=os.getcwd(), environment="")
    device = main.gpus.device if main.pane is Pane.GPUS else None
    word = device_name(device) if device is not None else None
    if device is None or word is None:
        _form(main, "Add a job", spec)
    elif takes_no_jobs(device):
        main.say(f"{device.sample.label} accepts no jobs: press d to enable it", grave=True)
    else:
        _form(main, f"Add a job on {device.sample.label}", replace(spec, request=Request(devices=(word,))))


def copy_as_new(main: MainScreen) -> None:
    job = main.job_under_cursor()
    if job is not None:
        spec = replace(job.spec, occurrence=None, hold=False, priority=job.priority)
        _form(main, f"Add a job like #{job.id}", spec)


def _form(main: MainScreen, title: str, spec: JobSpec) -> None:
    from gputui.tui.dialogs.forms import JobForm

    def answered(written: JobSpec | None) -> None:
        if written is not None:
            main.with_session(lambda: load(main, (written,), written.group or "added"))

    main.ask(JobForm(title, spec, history(main), go="add"), answered)


def load(main: MainScreen, specs: tuple[JobSpec, ...], origin: str) -> None:
    """Add jobs. They get the environment of this program unless their spec names another."""

    def done(loaded: Loaded) -> None:
        added = f"#{loaded.jobs[-1]}" if loaded.new == 1 else f"{loaded.new:,} jobs"
        main.say(f"added {added}; {loaded.warning}" if loaded.warning else f"added {added}", grave=bool(loaded.warning))
        if loaded.jobs:
            main.paint()
            main.table.move_to(loaded.jobs[-1])

    main.bridge.load(
        Load(specs, dict(main.host.setup.environment), origin), done, lambda why: main.say(why, grave=True)
    )


def sweep(main: MainScreen) -> None:
    job = main.snapshot[main.table.cursor] if main.table.cursor is not None else None
    ask_sweep(main, pattern_of(job.spec.command) if job is not None else "")


def ask_sweep(main: MainScreen, pattern: str, values: str = "", cwd: str | None = None) -> None:
    """Open the form for a sweep. `values` has one parameter with its values per line. `cwd` is where the jobs run."""
    from gputui.tui.dialogs.forms import SweepForm

    def answered(sweep: Sweep | None) -> None:
        if sweep is not None:
            jobs = specs(sweep, cwd=cwd or os.getcwd(), environment="", group="sweep")
            main.with_session(lambda: load(main, jobs, "sweep"))

    main.ask(SweepForm(pattern, values), answered)


def edit(main: MainScreen) -> None:
    from gputui.tui.dialogs.forms import JobForm

    job = main.job_under_cursor()
    if job is None:
        return
    if not isinstance(job.state, Waiting):
        state = predicate(job.state.name)
        main.say(f"#{job.id} {state}: only waiting jobs can be changed; press c to copy it", grave=True)
        return
    seen_state = main.table.seen(job)

    def answered(written: JobSpec | None) -> None:
        if written is not None:
            main.send([Edit(job=job.id, seen=seen_state, spec=written)], f"#{job.id} changed")

    main.ask(JobForm(f"Edit #{job.id}", job.spec, history(main), go="save", priority=job.priority), answered)


def history(main: MainScreen) -> list[str]:
    """Return the commands of the newest jobs, without duplicates."""
    return list(dict.fromkeys(job.spec.command for job in reversed(main.snapshot.jobs[-HISTORY:])))


# Reloading


def reload(main: MainScreen) -> None:
    if main.bridge.has_session:
        main.bridge.look(lambda owner: list(owner.sources.values()), lambda records: _read(main, records))
    else:
        main.say("no session to reload")


def _read(main: MainScreen, records: list[SourceRecord]) -> None:
    files = [record for record in records if record.kind is SourceKind.FILE]
    if not files:
        main.say("this session was not loaded from a file")
        return

    def work() -> None:
        """Read the files. This runs in a thread because a file may be a program that has to be run."""
        try:
            contents = reread(files)
        except BadInput as error:
            message = f"{error}; nothing was changed"
            main.bridge.post(lambda: main.say(message, grave=True))
            return
        main.bridge.look(
            lambda owner: reload_plan(owner.scheduler.book, contents.specs, contents.groups),
            lambda plan: _ask(main, plan),
        )

    main.run_worker(work, thread=True, group="reload", exclusive=True)


def _ask(main: MainScreen, plan: ReloadPlan) -> None:
    if plan.nothing:
        main.say("no changes in the files")
        return
    if isinstance(main.app.screen, ModalScreen):  # another dialog was opened meanwhile
        main.say("the files have changed: press ^r again to see how")
        return
    choices = [Choice("all", "y", "apply all")]
    if plan.removes() and plan.load():
        choices.append(Choice("keep", "k", "apply, but keep jobs gone from the files"))

    def answered(answer: str | None) -> None:
        if answer is not None:
            _apply(main, plan, keep_gone=answer == "keep")

    main.ask(Ask("Reload", "\n".join(describe_reload(plan, SHOWN)), choices), answered)


def _apply(main: MainScreen, plan: ReloadPlan, *, keep_gone: bool) -> None:
    try:
        jobs = with_code(main.bridge.root, plan.load())
    except BadInput as error:
        main.say(f"{error}; nothing was changed", grave=True)
        return
    load = Load(jobs, dict(main.host.setup.environment), "reload", RerunRules(rerun_failed=False))

    def loaded(_: Loaded) -> None:
        removes = [] if keep_gone else plan.removes()
        main.paint()
        main.send(removes)
        main.say(f"{len(plan.new)} added, {len(plan.changed)} updated, {len(removes)} removed")

    main.bridge.load(load, loaded, lambda why: main.say(why, grave=True))
