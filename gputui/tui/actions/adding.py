"""Adding jobs from the screen, editing waiting ones, and reloading files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual.screen import ModalScreen

from gputui.core.events import Edit
from gputui.core.job import Job, JobSpec, Request, Waiting, predicate
from gputui.session.devices.lane_changes import title, word_of
from gputui.session.loading import Again, ReloadPlan, Reread, SourceKind, SourceRecord, reload_plan, reread, told
from gputui.session.owner.requests import Load, Loaded
from gputui.sources.source import BadInput, specs
from gputui.sources.sweep import Sweep, pattern_of
from gputui.tui.dialogs.ask import Ask, Choice
from gputui.tui.dialogs.forms import JobForm, SweepForm
from gputui.tui.layout import Pane

from .devices import takes_no_jobs

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


# ---- Adding jobs from the screen, and changing those that wait ----


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
        main.say(f"added {added}; {loaded.warning}" if loaded.warning else f"added {added}", grave=bool(loaded.warning))
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


# ---- Reading the session's job files again ----


SHOWN = 5


def reload(main: MainScreen) -> None:
    if main.bridge.has_session:
        main.bridge.look(lambda owner: list(owner.sources.values()), lambda records: _read(main, records))
    else:
        main.say("there is no session whose files could be read again")


def _read(main: MainScreen, records: list[SourceRecord]) -> None:
    files = [record for record in records if record.kind is SourceKind.FILE]
    if not files:
        main.say("this session was loaded from no file")
        return

    def work() -> None:
        """In a thread: a file may be a program that has to run."""
        try:
            contents = reread(files)
        except BadInput as error:
            sentence = f"{error}; nothing was changed"
            main.bridge.post(lambda: main.say(sentence, grave=True))
            return
        main.bridge.post(lambda: _plan(main, contents))

    main.run_worker(work, thread=True, group="reload", exclusive=True)


def _plan(main: MainScreen, contents: Reread) -> None:
    main.bridge.look(
        lambda owner: reload_plan(owner.scheduler.book, contents.specs, contents.groups), lambda plan: _ask(main, plan)
    )


def _ask(main: MainScreen, plan: ReloadPlan) -> None:
    if plan.nothing:
        main.say("the files say nothing new")
        return
    if isinstance(main.app.screen, ModalScreen):  # it took a while: the keys are for another question now
        main.say("the files were read: ^r asks again what to do about their changes")
        return
    choices = [Choice("all", "y", "apply all of it")]
    if plan.removes() and plan.load():
        choices.append(Choice("keep", "k", "apply it, but keep what is gone from the files"))

    def answered(answer: str | None) -> None:
        if answer is not None:
            _apply(main, plan, keep_gone=answer == "keep")

    main.ask(Ask("Reload", "\n".join(told(plan, SHOWN)), choices), answered)


def _apply(main: MainScreen, plan: ReloadPlan, *, keep_gone: bool) -> None:
    load = Load(plan.load(), main.environment(), "reload", Again(rerun_failed=False))

    def loaded(_: Loaded) -> None:
        removes = [] if keep_gone else plan.removes()
        main.paint()
        main.send(removes)
        main.say(f"{len(plan.new)} added, {len(plan.changed)} updated, {len(removes)} removed")

    main.bridge.do(load, loaded, lambda why: main.say(why, grave=True))
