"""After any view or dialog, an action applies to the job under the cursor; a dialog acts on the jobs it named."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.app import HELD, LONG, Stage, on_stage
from support.sessions import simulated_slots
from textual.events import MouseDown, MouseUp
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from gputui.core.events import JobCommand, Kill, Move, MoveTarget, Notify, Pause, Rerun, Seen, Settings, UserCommand
from gputui.core.job import JobId, StateName
from gputui.session.messages import Commands
from gputui.tui.actions.display import show_log
from gputui.tui.actions.table import ACTIONS
from gputui.tui.app import Palette
from gputui.tui.dialogs.ask import Ask, Dialog, Pick, Reading
from gputui.tui.dialogs.choosers import MetricChooser, SortPrompt
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.dialogs.forms import JobForm, ReplaceForm, SweepForm
from gputui.tui.dialogs.help import HelpScreen
from gputui.tui.views.base import FullView
from gputui.tui.views.curves import CurvesView
from gputui.tui.views.details import DetailsView
from gputui.tui.views.failures import FailuresView
from gputui.tui.views.job_facts import TailDiffView
from gputui.tui.views.summary import SummaryView
from gputui.tui.views.timeline import TimelineView

FIRST, RUNNING, FAILED, TWICE, DONE, HELD_FIRST, WAITING = range(7)
"""Never the first job of its state: that is the one which a mistake would hit."""
FAILS = "echo 'val_loss=0.5'; echo 'ValueError: bad lr' >&2; exit 1"

TARGETS: dict[JobId, tuple[str, ...]] = {
    RUNNING: ("kill", "suspend", "requeue", "notify", "details", "copy_command", "copy_path", "copy_as_new"),
    TWICE: ("rerun", "remove", "details", "copy_command", "copy_path", "copy_as_new"),
    WAITING: ("kill", "edit", "hold", "notify", "remove", "priority_up", "priority_down", "move_up", "move_down",
              "move_top", "move_bottom", "details", "copy_command", "copy_as_new"),
}  # fmt: skip
"""The actions on a job, by a job of each kind."""

OPENED_BY: dict[str, tuple[JobId, tuple[str, ...], type[Screen[Any]] | None]] = {
    "failures": (FIRST, ("F",), FailuresView),
    "timeline": (FIRST, ("t",), TimelineView),
    "details": (FIRST, ("enter",), DetailsView),
    "details of another job": (FIRST, ("enter", "j"), DetailsView),
    "details from the timeline": (FIRST, ("t", "enter"), DetailsView),
    "details from the timeline, from the GPUs": (FIRST, ("1", "t", "enter"), DetailsView),
    "failures from the timeline": (FIRST, ("t", "F"), FailuresView),
    "attempts compared": (TWICE, ("enter", "d"), TailDiffView),
    "curves": (FIRST, ("m", "m"), CurvesView),
    "summary": (FIRST, ("=",), SummaryView),
    "GPUs zoomed": (FIRST, ("1", "z"), None),
    "log zoomed": (FIRST, ("l",), None),
    "filter": (FIRST, ("/",), None),
    "kill?": (FIRST, ("K",), Ask),
    "quit?": (FIRST, ("q",), Ask),
    "kill? from details": (FIRST, ("enter", "K"), Ask),
    "rerun failed": (FIRST, ("R",), Pick),
    "add": (FIRST, ("a",), JobForm),
    "sweep": (FIRST, ("A",), SweepForm),
    "edit and rerun": (FIRST, ("F", "e"), ReplaceForm),
    "device": (FIRST, ("1", "enter"), DeviceScreen),
    "sort": (FIRST, ("s",), SortPrompt),
    "metric": (FIRST, ("m",), MetricChooser),
    "help": (FIRST, ("?",), HelpScreen),
    "environment": (FIRST, ("enter", "v"), Reading),
    "palette": (FIRST, (":",), Palette),
}
"""On which job, by which keys, and what is open then."""


async def prepared(stage: Stage) -> None:
    await stage.add(LONG, f"echo val_loss=0.25; {LONG}")
    await stage.becomes(RUNNING, StateName.RUNNING)
    await stage.add(FAILS, f"{FAILS} # twice", "echo val_loss=0.5")
    for job in (FAILED, TWICE):
        await stage.becomes(job, StateName.FAILED)
    await stage.becomes(DONE, StateName.SUCCEEDED)
    await stage.add("echo third", "echo fourth", **HELD)
    await stage.command(Rerun(job=TWICE))
    await stage.until(lambda: len(stage.job(TWICE).attempts) == 2, "it ran twice")
    await stage.until(lambda: all(stage.snapshot.results.get(job) for job in (RUNNING, DONE)), "results were read")
    stage.main.look()


@dataclass
class Acted:
    """What an action did: titles of dialogs, commands sent, jobs whose details were opened, copied texts."""

    titles: list[str] = field(default_factory=list)
    commands: list[UserCommand] = field(default_factory=list)
    details: list[JobId] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


@contextmanager
def watched(stage: Stage) -> Iterator[Acted]:
    """Answer every question with its first choice at once; no command reaches the scheduler."""
    main, acted = stage.main, Acted()

    def ask(screen: ModalScreen[Any], then: Callable[[Any], object]) -> None:
        acted.titles.append(screen._title)  # type: ignore[attr-defined]
        if isinstance(screen, Ask):
            then(screen.choices[0].value)
        elif isinstance(screen, JobForm):
            then(screen._before if screen._title.startswith("Change") else None)

    replaced = {
        (main, "ask"): ask,
        (main.bridge, "command"): lambda events, then: acted.commands.extend(events),
        (main, "open_details"): acted.details.append,
        (main.app, "copy_to_clipboard"): acted.copied.append,
    }
    for (target, name), value in replaced.items():
        setattr(target, name, value)
    try:
        yield acted
    finally:
        for target, name in replaced:
            delattr(target, name)


def missed(stage: Stage, name: str, job: JobId) -> str | None:
    """Return what is wrong with the target of an action; None if it is exactly this job."""
    with watched(stage) as acted:
        stage.main.action_act(name)
    meant = stage.main.snapshot[job]
    commands = [event for event in acted.commands if isinstance(event, JobCommand)]
    right = {Seen(meant.issued, meant.state.name)}
    if any(event.job != job or event.seen not in right for event in commands):
        return f"{name} on #{job} sent {commands}"
    if any(f"#{job}" not in title.rstrip("?").split() for title in acted.titles):
        return f"{name} on #{job} asked {acted.titles}"
    if acted.details not in ([], [job]):
        return f"{name} on #{job} opened {acted.details}"
    if any(copied != meant.spec.command and f"job_{job}/" not in copied for copied in acted.copied):
        return f"{name} on #{job} copied {acted.copied}"
    happened = commands or acted.titles or acted.details or acted.copied
    return None if happened else f"{name} on #{job} did nothing: {stage.said[-1:]}"


async def wrong_targets(stage: Stage, targets: dict[JobId, tuple[str, ...]]) -> list[str]:
    wrong = []
    for job, names in targets.items():
        await stage.go_to(job)
        wrong += [sentence for name in names if (sentence := missed(stage, name, job))]
    return wrong


# Ways to close what is open


def is_open(stage: Stage) -> bool:
    main = stage.main
    return stage.screen is not main or main.zoomed is not None or bool(main.filter_bar.display)


async def by_key(stage: Stage, key: str) -> None:
    for _ in range(4):
        if is_open(stage) and isinstance(stage.screen, (FullView, ModalScreen)):
            await stage.press(key)
    for _ in range(4):  # a key that means something else there
        if is_open(stage):
            await stage.press("escape")


async def by_escape(stage: Stage) -> None:
    await by_key(stage, "escape")


async def by_double_click(stage: Stage) -> None:
    """Click twice on `Esc`; as in a terminal, the second click is on its way before the first is handled."""
    for _ in range(3):
        lines = stage.lines()
        places = ((line.find(word), y) for y, line in enumerate(lines) for word in ("Esc ", " Esc: "))
        spot = next((place for place in places if place[0] >= 0), None)
        if stage.screen is not stage.main and spot is not None:
            x, y = spot[0] + 2, spot[1]
            for mouse in (MouseDown, MouseUp) * 2:
                click = mouse(None, x, y, 0, 0, button=1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
                stage.app.post_message(click)
            await stage.settle()
    await by_escape(stage)


async def after_changes(stage: Stage) -> None:
    """The queue moves, and the session changes hands as with Ctrl-Z and `fg`."""
    owner = stage.app.bridge.owner
    assert owner is not None
    owner.do(Commands((Move(job=WAITING, where=MoveTarget.UP),))).result(30)
    stage.main.paint()
    stage.app.before_stop()
    stage.app.after_continue()
    await stage.settle()
    await by_escape(stage)


async def through_a_log(stage: Stage) -> None:
    """As the key `l` of views does: everything that is open closes at once."""
    show_log(stage.main, DONE, "")
    await stage.settle()
    await by_escape(stage)


WAYS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "Esc": by_escape,
    "q": partial(by_key, key="q"),
    "Ctrl-C": partial(by_key, key="ctrl+c"),
    "double click": by_double_click,
    "after changes": after_changes,
    "through a log": through_a_log,
}
PROBES: dict[JobId, tuple[str, ...]] = {WAITING: ("kill", "details")}
"""One action for each way to find the job: the chosen ones, and the one under the cursor."""


async def opened(stage: Stage, what: str) -> None:
    job, keys, kind = OPENED_BY[what]
    await stage.press("2")
    await stage.go_to(job)
    if "1" in keys:
        await stage.until(lambda: stage.main.gpus.device is not None, "there is a device")
    for key in keys:
        await stage.press(key)
        if isinstance(view := stage.screen, DetailsView):
            await stage.until(lambda: view.details is not None, "the details are there")
    if kind is not None:
        assert isinstance(stage.screen, kind), f"{what}: {stage.screen}, {stage.said[-3:]}"


def test_every_view_and_dialog_is_covered() -> None:
    def kinds(base: type[Any]) -> set[type[Any]]:
        below = set(base.__subclasses__())
        return {kind for each in below for kind in ({each} if not each.__subclasses__() else set()) | kinds(each)}

    covered = {kind for _, _, kind in OPENED_BY.values()}
    ours = {kind for kind in kinds(FullView) | kinds(ModalScreen) if kind.__module__.startswith("gputui.")}
    assert ours <= covered


def test_every_action_on_jobs_is_covered() -> None:
    elsewhere = {"add", "sweep", "rerun_failed", "drain_device", "pause", "reload", "undo"}
    covered = {name for names in TARGETS.values() for name in names}
    assert {action.name for action in ACTIONS if action.acts and not action.view} <= covered | elsewhere


@pytest.mark.parametrize("way", WAYS)
def test_after_any_view_or_dialog_every_action_is_for_the_job_under_the_cursor(way: str, tmp_path: Path) -> None:
    @on_stage(slots=simulated_slots(3), size=(100, 24))
    async def run(stage: Stage) -> None:
        await prepared(stage)
        for what, (_, _, kind) in OPENED_BY.items():
            if what == "quit?" and way in ("q", "Ctrl-C"):
                continue  # these keys answer it
            if way == "through a log" and not (kind is not None and issubclass(kind, FullView)):
                continue
            await opened(stage, what)
            await WAYS[way](stage)
            assert not is_open(stage), what
            assert stage.app.screen_stack[1:] == [stage.main], what
            await stage.press("2")
            assert await wrong_targets(stage, PROBES) == [], what
        assert await wrong_targets(stage, TARGETS) == []
        await stage.go_to(RUNNING)
        await stage.press("K")
        assert f"Kill #{RUNNING}?" in stage.text

    run(tmp_path)


# What a dialog named


ASKED: dict[str, tuple[JobId, str, str]] = {
    "kill": (RUNNING, "K", "y"),
    "kill now": (RUNNING, "K", "K"),
    "kill a waiting job": (WAITING, "K", "y"),
    "suspend": (RUNNING, "S", "S"),
    "requeue": (RUNNING, "B", "y"),
    "rerun": (DONE, "r", "y"),
    "remove": (FAILED, "D", "y"),
    "edit": (WAITING, "e", "enter"),
}


@on_stage(slots=simulated_slots(3))
async def test_a_dialog_acts_on_the_jobs_it_named_whatever_moves_meanwhile(stage: Stage) -> None:
    await prepared(stage)
    for what, (job, key, answer) in ASKED.items():
        sent: list[UserCommand] = []
        await stage.go_to(job)
        before = stage.main.snapshot[job]
        await stage.press(key)
        assert f"#{job}" in stage.text, what
        stage.table.marks = {FIRST, HELD_FIRST}
        stage.table.move_to(FIRST)
        owner = stage.app.bridge.owner
        assert owner is not None
        owner.do(Commands((Move(job=WAITING, where=MoveTarget.TOP), Notify(job=FIRST, wanted=True)))).result(30)
        stage.main.paint()
        await stage.settle()
        stage.app.bridge.command = lambda events, then: sent.extend(events)  # type: ignore[method-assign]  # noqa: B023
        await stage.press(answer)
        await stage.back_on_main()
        del stage.app.bridge.command
        assert [(event.job, event.seen) for event in sent if isinstance(event, JobCommand)] == [
            (job, Seen(before.issued, before.state.name))
        ], what
        stage.table.clear_marks()


@on_stage(slots=simulated_slots(3))
async def test_rerunning_failed_jobs_omits_those_that_failed_after_the_question(stage: Stage) -> None:
    await prepared(stage)
    sent: list[UserCommand] = []
    await stage.press("R")
    [late] = await stage.add(FAILS)
    await stage.becomes(late, StateName.FAILED)
    stage.app.bridge.command = lambda events, then: sent.extend(events)  # type: ignore[method-assign]
    await stage.press("enter")
    await stage.back_on_main()
    assert {event.job for event in sent if isinstance(event, JobCommand)} == {FAILED, TWICE}


@on_stage(slots=simulated_slots(3))
async def test_edit_and_rerun_does_not_change_a_job_that_was_rerun_meanwhile(stage: Stage) -> None:
    await prepared(stage)
    await stage.press("F", "e")
    form = stage.screen
    await stage.command(Pause(), Rerun(job=FAILED))
    form.query_one("#sought", Input).value, form.query_one("#instead", Input).value = "bad lr", "good lr"
    await stage.press("enter")
    await stage.told(f"#{FAILED} just changed")
    assert stage.job(FAILED).spec.command == FAILS
    assert "good lr" in stage.job(TWICE).spec.command


@on_stage(slots=simulated_slots(3))
async def test_an_action_in_a_view_keeps_the_marks_of_the_queue(stage: Stage) -> None:
    await prepared(stage)
    stage.table.marks = {FAILED, DONE}
    await stage.go_to(WAITING)
    await stage.press("enter", "h")
    await stage.told(f"released #{WAITING}")
    assert stage.table.marks == {FAILED, DONE}


@on_stage(slots=simulated_slots(2))
async def test_the_device_dialog_follows_its_device_and_asks_about_what_it_shows(stage: Stage) -> None:
    first, second = await stage.add(LONG, LONG, name="a job")
    await stage.becomes(second, StateName.RUNNING)
    await stage.press("1")
    await stage.until(lambda: all(device.jobs for device in stage.app.bridge.picture.devices), "both are seen")
    stage.main.look()
    await stage.press("enter")
    await stage.shows(f"K  kill #{first}")
    [third] = await stage.add(LONG, name="a job")
    await stage.command(Kill(job=first, now=True))
    await stage.becomes(third, StateName.RUNNING)
    await stage.shows(f"K  kill #{third}")
    await stage.press("K", "y")
    await stage.becomes(third, StateName.KILLED)
    assert stage.state(second) is StateName.RUNNING


@on_stage(slots=simulated_slots(3))
async def test_the_cursor_of_the_curves_stays_on_its_job_when_a_better_one_appears(stage: Stage) -> None:
    await prepared(stage)
    gate = stage.directory / "gate"
    [late] = await stage.add(f"echo val_loss=0.9; until test -e {gate}; do sleep 0.01; done; echo val_loss=0.1; {LONG}")
    await stage.until(lambda: stage.main.snapshot.results.get(late), "it printed a result")
    await stage.press("m", "m")
    view = stage.screen
    assert isinstance(view, CurvesView)
    [job] = view.chosen()
    gate.touch()
    await stage.until(lambda: view.rows()[0].job.id == late, "it is the best now")
    assert [each.id for each in view.chosen()] == [job.id] != [late]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_every_dialog_shows_all_its_keys(size: tuple[int, int], tmp_path: Path) -> None:
    @on_stage(slots=simulated_slots(3), size=size)
    async def history(stage: Stage) -> None:
        await prepared(stage)
        await stage.command(Settings(pause_after=0))
        await stage.add(*(f"echo '{letter}Error: one of many' >&2; exit 1" for letter in "ABCDEFGHIJKLMNOPQRST"))
        await stage.until(lambda: stage.snapshot.count(StateName.FAILED) == 22, "many kinds have failed")
        await stage.command(Settings(pause_after=3))
        for what, (_, _, kind) in OPENED_BY.items():
            if kind is None or not issubclass(kind, Dialog):
                continue
            await opened(stage, what)
            shown = " ".join(re.sub(r"[│╭╮╰╯─]", " ", stage.text).split())
            for hint in stage.screen.query(".hint").results(Static):
                assert " ".join(str(hint.render()).split()) in shown, f"{what}: {hint.render()} in\n{stage.text}"
            assert "esc" in shown.lower() or kind is SortPrompt, f"{what}:\n{stage.text}"
            await by_escape(stage)

    history(tmp_path)
