"""The table of all actions. The bindings, footer, palette, help and keymap are derived from it.

Lowercase keys never affect running jobs. Uppercase keys may, and ask first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType

from gputui.core.events import MoveTarget
from gputui.sources.values import suggestion
from gputui.tui.layout import Pane

from . import adding, devices, display, jobs, scheduler, undo

if TYPE_CHECKING:
    from gputui.tui.dialogs.help import Topic
    from gputui.tui.main_screen import MainScreen


class Part(StrEnum):
    """A section of the help."""

    JOBS = "Jobs"
    RUNNING = "Running jobs (each asks first)"
    QUEUE = "Queue order and view"
    LOG = "Log"
    GPUS = "GPUs"
    SESSION = "Scheduler and TUI"


VIEWS = {
    "timeline": "Timeline (t)", "details": "Details (Enter)", "failures": "Failures (F)", "curves": "Curves (m m)",
    "summary": "Summary (=)",
}  # fmt: skip
"""The views that have actions of their own, with the titles of their sections of the help."""


@dataclass(frozen=True)
class Action:
    part: Part | None
    """The section of the help, or None for an action of a view."""
    name: str
    keys: tuple[str, ...]
    label: str
    do: Callable[[MainScreen], None] | None
    """The function that performs the action, or None if the view does so in its method `act_NAME`."""
    help: str
    acts: bool = False
    """Whether the action changes something and is therefore refused by a read-only screen."""
    view: str = ""
    """The name of the view that has the action, or empty for the main screen."""

    @property
    def shown_key(self) -> str:
        return _key_label(self.keys[0])

    @property
    def shown_keys(self) -> str:
        return " ".join(map(_key_label, self.keys))


def _key_label(key: str) -> str:
    return _KEY_LABELS.get(key, key.replace("ctrl+", "^"))


_KEY_LABELS = {"exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">", "comma": ",",
               "full_stop": ".", "f9": "F9", "delete": "Del", "escape": "Esc", "enter": "Enter", "tab": "Tab",
               "space": "Space", "left": "←", "right": "→", "up": "↑", "down": "↓"}  # fmt: skip


def _shows(part: Part, name: str, keys: str, label: str, do: Callable[[MainScreen], None], help: str) -> Action:
    return Action(part, name, tuple(keys.split()), label, do, help)


def _changes(part: Part, name: str, keys: str, label: str, do: Callable[[MainScreen], None], help: str) -> Action:
    return Action(part, name, tuple(keys.split()), label, do, help, acts=True)


def _in(view: str, name: str, keys: str, label: str, help: str, *, acts: bool = False) -> Action:
    return Action(None, name, tuple(keys.split()), label, None, help, acts, view)


ACTIONS = (
    _changes(Part.JOBS, "add", "a", "Add", adding.add, "add a job"),
    _changes(Part.JOBS, "sweep", "A", "Sweep", adding.sweep, "add a sweep, with a live preview"),
    _changes(Part.JOBS, "edit", "e", "Edit", adding.edit, "edit a waiting job's settings"),
    _changes(Part.JOBS, "copy_as_new", "c", "Copy", adding.copy_as_new, "copy: add a job like this one"),
    _changes(Part.JOBS, "rerun", "r", "Rerun", jobs.rerun, "rerun an ended job as a new attempt"),
    _changes(Part.JOBS, "rerun_failed", "R", "Rerun failed", scheduler.rerun_failed,
             "rerun failed jobs by error; R R: all at once"),
    _changes(Part.JOBS, "hold", "h", "Hold", jobs.hold, "hold or release a waiting job"),
    _changes(Part.JOBS, "notify", "b", "Notify", jobs.notify, "notify when this job ends or hangs (on/off)"),
    _changes(Part.JOBS, "remove", "D delete", "Remove", jobs.remove, "remove jobs from the list; files stay"),
    _changes(Part.JOBS, "undo", "u", "Undo", undo.undo,
             "undo the last change, then the one before it"),
    _shows(Part.JOBS, "details", "enter", "Details", display.details, "details: command, attempts, history, GPU use"),
    _shows(Part.SESSION, "timeline", "t", "Timeline", lambda main: display.open_in_session(main, main.open_timeline),
           "timeline: jobs, pauses, idle gaps, forecast"),
    _shows(Part.JOBS, "failures", "F", "Failures", lambda main: main.open_failures(),
           "failures by error: what they share; rerun"),
    _shows(Part.JOBS, "metric", "m", "Metric", display.metric, "choose the metric; m m: curves"),
    _shows(Part.JOBS, "summary", "=", "Summary", lambda main: display.open_in_session(main, main.auto_summary.open),
           "summary: best jobs, parameters, failures"),
    _shows(Part.JOBS, "error", "exclamation_mark", "Error", display.visit_error,
           "go to the last error; press again to go back"),
    _shows(Part.JOBS, "copy_command", "y", "Copy command", display.copy_command, "copy the job's command"),
    _shows(Part.JOBS, "copy_path", "Y", "Copy path", display.copy_path, "copy the path of the job's log"),
    _changes(Part.RUNNING, "kill", "K f9", "Kill", jobs.kill, "kill gracefully; K again in the dialog: now"),
    _changes(Part.RUNNING, "suspend", "S", "Suspend", jobs.suspend, "suspend or continue; it keeps its GPU memory"),
    _changes(Part.RUNNING, "requeue", "B", "Requeue", jobs.requeue,
             "stop gracefully and requeue; checkpoint stays"),
    _changes(Part.QUEUE, "priority_up", "+", "Priority", lambda main: jobs.change_priority(main, jobs.PRIORITY_STEP),
             "raise priority"),
    _changes(Part.QUEUE, "priority_down", "-", "Lower", lambda main: jobs.change_priority(main, -jobs.PRIORITY_STEP),
             "lower priority"),
    _changes(Part.QUEUE, "move_up", "[", "Up", lambda main: jobs.move(main, MoveTarget.UP),
             "move up in the queue"),
    _changes(Part.QUEUE, "move_down", "]", "Down", lambda main: jobs.move(main, MoveTarget.DOWN),
             "move down in the queue"),
    _changes(Part.QUEUE, "move_top", "{", "Top", lambda main: jobs.move(main, MoveTarget.TOP),
             "move above all jobs of the same priority"),
    _changes(Part.QUEUE, "move_bottom", "}", "Bottom", lambda main: jobs.move(main, MoveTarget.BOTTOM),
             "move below all jobs of the same priority"),
    _shows(Part.QUEUE, "mark", "space", "Mark", lambda main: main.table.toggle_mark(),
           "mark this job; actions apply to marked jobs"),
    _shows(Part.QUEUE, "mark_range", "v", "Mark range", lambda main: main.table.toggle_range(),
           "mark a range: move, then press again to end it"),
    _shows(Part.QUEUE, "mark_all", "*", "Mark all", lambda main: main.table.mark_all(),
           "mark or unmark all shown jobs"),
    _shows(Part.QUEUE, "filter", "/", "Filter", display.filter_or_search,
           "filter (state:failed lr=0.1); log: search"),
    _shows(Part.QUEUE, "next_tab", "right", "Next tab", lambda main: display.turn_tab(main, 1),
           "next tab: All, Active, Failed, Done"),
    _shows(Part.QUEUE, "previous_tab", "left", "Previous tab", lambda main: display.turn_tab(main, -1),
           "previous tab"),
    _shows(Part.QUEUE, "sort", "s", "Sort", display.sort, "sort by a column; s s: queue order"),
    _shows(Part.LOG, "follow", "f", "Follow", lambda main: main.log_pane.follow(not main.log_pane.following),
           "start or stop following the log"),
    _shows(Part.LOG, "stream", "o", "OUT/ERR", lambda main: main.log_pane.cycle_stream(), "OUT, ERR or both"),
    _shows(Part.LOG, "wrap", "w", "Wrap", display.wrap, "wrap long lines"),
    _shows(Part.LOG, "next_match", "n", "Next", lambda main: main.log_pane.search_next(), "next match"),
    _shows(Part.LOG, "previous_match", "N", "Previous", lambda main: main.log_pane.search_previous(),
           "previous match"),
    _shows(Part.LOG, "earlier_attempt", "comma", "Attempt", lambda main: main.log_pane.step_attempt(-1),
           "previous attempt"),
    _shows(Part.LOG, "later_attempt", "full_stop", "Attempt", lambda main: main.log_pane.step_attempt(1),
           "next attempt"),
    _shows(Part.LOG, "full_log", "l", "Full log", display.full_log, "log full screen, or back"),
    _shows(Part.LOG, "pager", "L", "Pager", display.pager, "open the log in $PAGER"),
    _changes(Part.GPUS, "drain_device", "d", "Drain", devices.drain_or_enable, "drain or enable this GPU"),
    _changes(Part.SESSION, "pause", "p", "Pause", scheduler.pause, "pause or resume; running jobs continue"),
    _changes(Part.SESSION, "reload", "ctrl+r", "Reload", adding.reload, "reload the job files"),
    _shows(Part.SESSION, "focus_gpus", "1", "GPUs", lambda main: main.go_to(Pane.GPUS), "go to the GPUs"),
    _shows(Part.SESSION, "focus_queue", "2", "Queue", lambda main: main.go_to(Pane.QUEUE), "go to the queue"),
    _shows(Part.SESSION, "focus_log", "3", "Log", lambda main: main.go_to(Pane.LOG), "go to the log"),
    _shows(Part.SESSION, "next_pane", "tab", "Pane", display.next_pane, "go to the next pane"),
    _shows(Part.SESSION, "narrower", "less_than_sign", "Larger log", lambda main: main.move_border(-1),
           "enlarge the log"),
    _shows(Part.SESSION, "wider", "greater_than_sign", "Larger queue", lambda main: main.move_border(1),
           "enlarge the queue"),
    _shows(Part.SESSION, "zoom", "z", "Zoom", display.zoom, "this pane full screen, or back"),
    _shows(Part.SESSION, "back", "escape", "Back", display.back, "leave zoom, clear filter and marks"),
    _shows(Part.SESSION, "palette", ": ctrl+p", "Commands", lambda main: main.app.action_command_palette(),
           "palette: all actions by name"),
    _shows(Part.SESSION, "help", "?", "Help", lambda main: show_help(main), "this help; / searches it"),
    _shows(Part.SESSION, "leave", "q", "Quit", scheduler.leave, "quit: detach, drain or stop"),
    _shows(Part.SESSION, "interrupt", "ctrl+c", "Copy", display.interrupt,
           "copy the mouse selection; without one, quit"),
    _in("summary", "copy_summary", "y", "Copy as text", "copy the summary as text"),
    _in("summary", "other_parameters", "p", "Other parameters", "heat map of two other parameters"),
    _in("summary", "cell_left", "left", "Cell", "previous cell of the heat map; Enter: sweep"),
    _in("summary", "cell_right", "right", "Cell", "next cell of the heat map"),
    _in("curves", "unmark_curve", "space", "Unmark", "hide this curve"),
    _in("curves", "next_metric", "m", "Next metric", "another metric of the same jobs"),
    _in("curves", "x_axis", "x", "By time", "plot by step or by time"),
    _in("curves", "x_back", "left", "Cursor", "move the cursor back"),
    _in("curves", "x_on", "right", "Cursor", "move the cursor; the table shows values"),
    _in("curves", "log_y", "L", "Log y", "logarithmic or linear y axis"),
    _in("curves", "smooth", "e", "Smooth", "more smoothing, or none"),
    _in("curves", "curves_in", "+", "Zoom", "zoom in around the cursor"),
    _in("curves", "curves_out", "-", "Zoom out", "zoom out"),
    _in("curves", "curves_back", "<", "Earlier", "move the zoomed part to the left"),
    _in("curves", "curves_on", ">", "Later", "move the zoomed part to the right"),
    _in("curves", "curves_all", "0", "All", "the whole curves"),
    _in("timeline", "previous_bar", "left", "Job", "previous job on this GPU"),
    _in("timeline", "next_bar", "right", "Job", "next job on this GPU"),
    _in("timeline", "gpu_above", "up k", "GPU", "the GPU above"),
    _in("timeline", "gpu_below", "down j", "GPU", "the GPU below"),
    _in("timeline", "zoom_in", "+", "Zoom", "zoom in on the selected job"),
    _in("timeline", "zoom_out", "-", "Zoom out", "zoom out"),
    _in("timeline", "pan_back", "<", "Earlier", "back a quarter page"),
    _in("timeline", "pan_on", ">", "Later", "forward a quarter page"),
    _in("timeline", "show_all", "0", "All", "whole session"),
    _in("timeline", "next_error", "!", "Next error", "next error, wraps around"),
    _in("timeline", "bar_log", "l", "Log", "log of the selected job"),
    _in("details", "compare_attempts", "d", "Compare", "compare the ends of the last two logs"),
    _in("details", "environment", "v", "Environment", "the environment of the next attempt"),
    _in("details", "details_metric", "m", "Metric", "another metric in the large chart"),
    _in("details", "details_tab", "tab", "Facts", "show or hide the charts"),
    _in("details", "job_log", "l", "Log", "log full screen, at the error if any"),
    _in("failures", "rerun_group", "r", "Rerun", "rerun the marked jobs, or all with this error", acts=True),
    _in("failures", "edit_group", "e", "Edit and rerun", "replace text in commands and rerun", acts=True),
    _in("failures", "hold_alike", "h", "Hold similar", "hold waiting jobs with the same parameters", acts=True),
    _in("failures", "log_at_error", "l", "Log at error", "log full screen, at the error"),
    _in("failures", "mark_failed", "space", "Mark", "mark this job"),
    _in("failures", "failures_tab", "tab", "Jobs", "switch between errors and jobs"),
)  # fmt: skip

BY_NAME = {action.name: action for action in ACTIONS}


def bindings() -> list[BindingType]:
    """Return the bindings of the main screen."""
    return [_binding(action) for action in ACTIONS if not action.view]


def view_bindings(view: str, *shared: str) -> list[BindingType]:
    """Return the bindings of a full view: its own actions and the actions of the main screen named in `shared`."""
    return [_binding(action) for action in ACTIONS if action.view == view or action.name in shared]


def _binding(action: Action) -> Binding:
    return Binding(",".join(action.keys), f"act('{action.name}')", action.label, show=False, id=action.name)


def keymap(written: Mapping[str, str]) -> dict[str, str]:
    """Return the checked keymap of the settings, such as `kill = "ctrl+k"`. Raise ValueError for unknown actions."""
    for name in written:
        if name not in BY_NAME:
            raise ValueError(f"keys.{name}: unknown action; {suggestion(name, BY_NAME)}")
    return dict(written)


# Help


NOTES = """\
Lowercase keys never touch running jobs; capitals may, but ask.
Actions apply to marked jobs, if any. To watch only: gputui --read-only"""
MOVING = (
    ("j k", "next or previous line; also ↓ ↑"),
    ("g G", "first or last line; also Home and End"),
    ("^d ^u", "half a page down or up"),
    ("PgDn", "a page down; PgUp: a page up"),
)
TAKEN_KEYS = (
    (":", "palette, if the terminal takes ^p or F1"),
    ("PgDn", "and PgUp, if it takes ^d or ^u"),
    ("F2 F3", "in the sweep form, if it takes ^s or ^t"),
    (": name", "runs any action without its key"),
)
"""Alternatives to keys that some terminals intercept, such as ^p and F1 in VS Code."""


def show_help(main: MainScreen) -> None:
    from gputui.tui.dialogs.help import HelpScreen

    main.ask(HelpScreen(NOTES, topics(main.changed_keys)), lambda _: None)


def topics(keys: Mapping[str, str]) -> list[Topic]:
    """Return the topics of the help. `keys` contains the keys that the user has changed."""
    lines: dict[str, list[tuple[str, str]]] = {}
    for action in ACTIONS:
        title = VIEWS[action.view] if action.part is None else action.part
        lines.setdefault(title, []).append((keys.get(action.name, action.shown_keys), action.help))
    parts = [(title, lines[title]) for title in (*Part, *VIEWS.values())]
    return [*parts, ("Moving in a pane or view", MOVING), ("If the terminal takes a key for itself", TAKEN_KEYS)]
