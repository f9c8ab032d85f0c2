"""Reading the session's job files again: what is new, changed and gone is shown, and applied when the user agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.session.owner.load_plan import Again
from gputui.session.owner.reload_plan import ReloadPlan, reload_plan, told
from gputui.session.owner.requests import Load, Loaded
from gputui.session.owner.rereading import Reread, reread
from gputui.session.store.source_record import SourceKind, SourceRecord
from gputui.sources.source import BadInput
from gputui.tui.screens.ask import Ask, Choice

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

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
