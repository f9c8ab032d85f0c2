"""Whatever was open before and however it was closed, an action is for the job under the cursor; and a dialog acts on
exactly the jobs that it named."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.stage import HELD, LONG, Stage, on_stage, simulated_lanes
from textual.command import CommandPalette
from textual.events import MouseDown, MouseUp
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from gputui.core.events import JobCommand, Kill, Move, MoveTarget, Notify, Pause, Rerun, Seen, Settings, UserCommand
from gputui.core.job import JobId, StateName
from gputui.session.messages import Commands
from gputui.tui.action_table import ACTIONS
from gputui.tui.actions.looking import show_log
from gputui.tui.dialogs.ask import Ask, Dialog, Pick, Reading
from gputui.tui.dialogs.choosers import MetricChooser, SortPrompt
from gputui.tui.dialogs.device import DeviceScreen
from gputui.tui.dialogs.forms import JobForm, SweepForm
from gputui.tui.dialogs.replace_form import ReplaceForm
from gputui.tui.views.base import FullView
from gputui.tui.views.curves import CurvesView
from gputui.tui.views.details import DetailsView
from gputui.tui.views.failures import FailuresView
from gputui.tui.views.job_facts import TailDiffView
from gputui.tui.views.summary import SummaryView
from gputui.tui.views.timeline import TimelineView

FIRST, RUNNING, FAILED, TWICE, DONE, HELD_FIRST, WAITING = range(7)
"""Never the first job of its state: that is the one which a mistake would hit."""
CRASH = "echo 'val_loss=0.5'; echo 'ValueError: bad lr' >&2; exit 1"

TARGETS: dict[JobId, tuple[str, ...]] = {
    RUNNING: ("kill", "suspend", "requeue", "tell_me", "details", "copy_command", "copy_path", "copy_as_new"),
    TWICE: ("rerun", "remove", "details", "copy_command", "copy_path", "copy_as_new"),
    WAITING: ("kill", "edit", "hold", "tell_me", "remove", "priority_up", "priority_down", "move_up", "move_down",
              "move_top", "move_bottom", "details", "copy_command", "copy_as_new"),
}  # fmt: skip
"""The actions that fit a job of this state."""

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
    "suspend?": (FIRST, ("S",), Ask),
    "requeue?": (FIRST, ("B",), Ask),
    "remove?": (FAILED, ("D",), Ask),
    "run again?": (DONE, ("r",), Ask),
    "leave?": (FIRST, ("q",), Ask),
    "kill? from details": (FIRST, ("enter", "K"), Ask),
    "rerun failed": (FIRST, ("R",), Pick),
    "add": (FIRST, ("a",), JobForm),
    "edit": (HELD_FIRST, ("e",), JobForm),
    "copy": (FIRST, ("c",), JobForm),
    "sweep": (FIRST, ("A",), SweepForm),
    "edit and rerun": (FIRST, ("F", "e"), ReplaceForm),
    "device": (FIRST, ("1", "enter"), DeviceScreen),
    "sort": (FIRST, ("s",), SortPrompt),
    "metric": (FIRST, ("m",), MetricChooser),
    "help": (FIRST, ("?",), Reading),
    "environment": (FIRST, ("enter", "v"), Reading),
    "palette": (FIRST, (":",), CommandPalette),
}
"""On which job, by which keys, and what is open then."""


async def prepared(stage: Stage) -> None:
    await stage.add(LONG, f"echo val_loss=0.25; {LONG}")
    await stage.becomes(RUNNING, StateName.RUNNING)
    await stage.add(CRASH, f"{CRASH} # twice", "echo val_loss=0.5")
    for job in (FAILED, TWICE):
        await stage.becomes(job, StateName.FAILED)
    await stage.becomes(DONE, StateName.SUCCEEDED)
    await stage.add("echo third", "echo fourth", **HELD)
    await stage.command(Rerun(job=TWICE))
    await stage.until(lambda: len(stage.job(TWICE).attempts) == 2, "it ran twice")
    await stage.until(lambda: all(stage.snapshot.results.get(job) for job in (RUNNING, DONE)), "results were read")
    stage.main.look()


class Acted:
    """What an action did: the dialogs it opened, the commands it sent, the views, and what it copied."""

    def __init__(self) -> None:
        self.titles: list[str] = []
        self.commands: list[UserCommand] = []
        self.details: list[JobId] = []
        self.copied: list[str] = []


@contextmanager
def watched(stage: Stage) -> Iterator[Acted]:
    """Every question is answered with its first choice at once, and nothing reaches the owner."""
    main, acted = stage.main, Acted()

    def ask(screen: ModalScreen[Any], then: Callable[[Any], object]) -> None:
        acted.titles.append(screen._title)  # type: ignore[attr-defined]
        if isinstance(screen, Ask):
            then(screen.choices[0].value)
        elif isinstance(screen, JobForm):
            then(screen._before if screen._title.startswith("Change") else None)

    def command(events: Sequence[UserCommand], then: Callable[..., object]) -> None:
        acted.commands += events

    def open_details(job: JobId) -> None:
        acted.details.append(job)

    replaced = {(main, "ask"): ask, (main.bridge, "command"): command, (main, "open_details"): open_details,
                (main.app, "copy_to_clipboard"): acted.copied.append}  # fmt: skip
    for (owner, name), value in replaced.items():
        setattr(owner, name, value)
    try:
        yield acted
    finally:
        for owner, name in replaced:
            delattr(owner, name)


def missed(stage: Stage, name: str, job: JobId) -> str | None:
    """What is wrong with the target of an action; None if it is exactly this job."""
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


async def wrong_targets(stage: Stage) -> list[str]:
    """On the main screen, for a job of each state under the cursor."""
    wrong = []
    for job, names in TARGETS.items():
        await stage.go_to(job)
        wrong += [sentence for name in names if (sentence := missed(stage, name, job))]
    return wrong


# Ways to close what is open


def is_open(stage: Stage) -> bool:
    main = stage.main
    return stage.screen is not main or main.places.zoomed is not None or bool(main.filter_bar.display)


async def by_key(stage: Stage, key: str) -> None:
    for _ in range(4):
        if is_open(stage) and isinstance(stage.screen, (FullView, ModalScreen)):
            await stage.press(key)
    for _ in range(4):  # a key that means something else there
        if is_open(stage):
            await stage.press("escape")


async def by_escape(stage: Stage) -> None:
    await by_key(stage, "escape")


async def by_q(stage: Stage) -> None:
    await by_key(stage, "q")


async def by_ctrl_c(stage: Stage) -> None:
    await by_key(stage, "ctrl+c")


async def clicked(stage: Stage, x: int, y: int, times: int) -> None:
    """As a terminal sends it: all that is read at once is on its way before the first of it is answered."""
    for mouse in (MouseDown, MouseUp) * times:
        stage.app.post_message(
            mouse(None, x, y, 0, 0, button=1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y)
        )
    await stage.settle()


async def by_click(stage: Stage, times: int = 1) -> None:
    for _ in range(3):
        lines = stage.lines()
        for word in ("Esc Back", " esc  "):
            row = next((number for number, line in enumerate(lines) if word in line), None)
            if stage.screen is not stage.main and row is not None:
                await clicked(stage, lines[row].index(word) + 2, row, times)
                break
    await by_escape(stage)


async def by_two_clicks(stage: Stage) -> None:
    await by_click(stage, times=2)


async def with_another_owner_meanwhile(stage: Stage) -> None:
    """Ctrl-Z, and fg: somebody else had the session in between."""
    stage.app.before_stop()
    stage.app.after_continue()
    await stage.settle()
    await by_escape(stage)


async def through_a_log(stage: Stage) -> None:
    """As the keys `l` of views leave: all that is open goes at once."""
    show_log(stage.main, DONE, "")
    await stage.settle()
    await by_escape(stage)


async def while_the_queue_moves(stage: Stage) -> None:
    owner = stage.app.bridge.owner
    assert owner is not None
    owner.do(Commands((Move(job=WAITING, where=MoveTarget.UP),))).result(30)
    stage.main.paint()
    await stage.settle()
    await by_escape(stage)


WAYS: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "Esc": by_escape,
    "q": by_q,
    "Ctrl-C": by_ctrl_c,
    "click": by_click,
    "two clicks": by_two_clicks,
    "another owner meanwhile": with_another_owner_meanwhile,
    "the queue moves meanwhile": while_the_queue_moves,
    "through a log": through_a_log,
}


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


def test_every_view_and_dialog_is_among_those_that_are_tried() -> None:
    def kinds(base: type[Any]) -> set[type[Any]]:
        below = set(base.__subclasses__())
        return {kind for each in below for kind in ({each} if not each.__subclasses__() else set()) | kinds(each)}

    tried = {kind for _, _, kind in OPENED_BY.values()}
    ours = {kind for kind in kinds(FullView) | kinds(ModalScreen) if kind.__module__.startswith("gputui.")}
    assert ours <= tried


def test_every_action_on_jobs_is_among_those_that_are_tried() -> None:
    elsewhere = {"add", "sweep", "rerun_failed", "drain_device", "pause", "reload"}
    tried = {name for names in TARGETS.values() for name in names}
    assert {action.name for action in ACTIONS if action.acts and not action.view} <= tried | elsewhere


async def found_wrong(stage: Stage, way: str) -> dict[str, list[str]]:
    """What was open before, with what was wrong after it was closed in this way."""
    await prepared(stage)
    wrong: dict[str, list[str]] = {}
    for what, (_, _, kind) in OPENED_BY.items():
        if what == "leave?" and way in ("q", "Ctrl-C"):
            continue  # which answer it: the screen is left
        if way == "through a log" and not (kind is not None and issubclass(kind, FullView)):
            continue
        await opened(stage, what)
        await WAYS[way](stage)
        assert not is_open(stage), what
        assert stage.app.screen_stack[1:] == [stage.main], what
        await stage.press("2")
        wrong[what] = await wrong_targets(stage)
    return wrong


@pytest.mark.parametrize("way", WAYS)
def test_after_any_view_or_dialog_every_action_is_for_the_job_under_the_cursor(way: str, tmp_path: Path) -> None:
    @on_stage(lanes=simulated_lanes(3))
    async def story(stage: Stage) -> None:
        wrong = {what: some for what, some in (await found_wrong(stage, way)).items() if some}
        assert wrong == {}
        await stage.go_to(RUNNING)
        await stage.press("K")
        assert f"Kill #{RUNNING}?" in stage.text

    story(tmp_path)


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


@on_stage(lanes=simulated_lanes(3))
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


@on_stage(lanes=simulated_lanes(3))
async def test_rerunning_failed_jobs_leaves_out_those_that_failed_after_the_question(stage: Stage) -> None:
    await prepared(stage)
    sent: list[UserCommand] = []
    await stage.press("R")
    [late] = await stage.add(CRASH)
    await stage.becomes(late, StateName.FAILED)
    stage.app.bridge.command = lambda events, then: sent.extend(events)  # type: ignore[method-assign]
    await stage.press("enter")
    await stage.back_on_main()
    assert {event.job for event in sent if isinstance(event, JobCommand)} == {FAILED, TWICE}


@on_stage(lanes=simulated_lanes(3))
async def test_edit_and_rerun_changes_nothing_of_a_job_that_somebody_else_reran_meanwhile(stage: Stage) -> None:
    await prepared(stage)
    await stage.press("F", "e")
    form = stage.screen
    await stage.command(Pause(), Rerun(job=FAILED))
    form.query_one("#sought", Input).value, form.query_one("#instead", Input).value = "bad lr", "good lr"
    await stage.press("enter")
    await stage.told(f"#{FAILED} just changed")
    assert stage.job(FAILED).spec.command == CRASH
    assert "good lr" in stage.job(TWICE).spec.command


@on_stage(lanes=simulated_lanes(3))
async def test_an_action_in_a_view_leaves_the_marks_of_the_queue_alone(stage: Stage) -> None:
    await prepared(stage)
    stage.table.marks = {FAILED, DONE}
    await stage.go_to(WAITING)
    await stage.press("enter", "h")
    await stage.told(f"released #{WAITING}")
    assert stage.table.marks == {FAILED, DONE}


@on_stage(lanes=simulated_lanes(2))
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


@on_stage(lanes=simulated_lanes(3))
async def test_the_cursor_of_the_curves_stays_on_its_job_when_a_better_one_comes_before_it(stage: Stage) -> None:
    await prepared(stage)
    gate = stage.folder / "gate"
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
def test_every_dialog_says_all_of_its_keys(size: tuple[int, int], tmp_path: Path) -> None:
    @on_stage(lanes=simulated_lanes(3), size=size)
    async def story(stage: Stage) -> None:
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

    story(tmp_path)
