"""All that a key can do: one table that feeds bindings, footer, palette, help and the keymap in the settings.

Rule of the keys: lower case never touches running work; capitals may, and ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from textual.binding import Binding, BindingType


class Part(StrEnum):
    """The headings of the help."""

    JOBS = "Jobs"
    RUNNING = "Running work (each of these asks)"
    QUEUE = "The queue's order and view"
    LOG = "Log"
    GPUS = "GPUs"
    SESSION = "Scheduler and screen"
    VIEWS = "In a view"


@dataclass(frozen=True)
class Action:
    name: str
    keys: tuple[str, ...]
    label: str
    help: str
    part: Part
    acts: bool = False
    """Changes something: not there in a read-only screen."""
    view: str = ""
    """The one full view that has it; elsewhere its keys may mean something else."""

    @property
    def shown_key(self) -> str:
        return _shown(self.keys[0])

    @property
    def shown_keys(self) -> str:
        return " ".join(map(_shown, self.keys))


def _shown(key: str) -> str:
    return _NAMES.get(key, key.replace("ctrl+", "^"))


_NAMES = {"exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">", "comma": ",",
          "full_stop": ".", "f9": "F9", "delete": "Del", "escape": "Esc", "enter": "Enter", "tab": "Tab",
          "left": "←", "right": "→", "up": "↑", "down": "↓"}  # fmt: skip


def _job(name: str, keys: str, label: str, help: str, part: Part = Part.JOBS) -> Action:
    return Action(name, tuple(keys.split()), label, help, part, acts=True)


def _view(name: str, keys: str, label: str, help: str, part: Part) -> Action:
    return Action(name, tuple(keys.split()), label, help, part)


def _in(view: str, name: str, keys: str, label: str, help: str, *, acts: bool = False) -> Action:
    return Action(name, tuple(keys.split()), label, help, Part.VIEWS, acts, view)


ACTIONS = (
    Action("add", ("a",), "Add", "add a job", Part.JOBS, acts=True),
    Action("sweep", ("A",), "Sweep", "add a sweep, with a live preview", Part.JOBS, acts=True),
    _job("edit", "e", "Edit", "change a waiting job's settings"),
    _job("copy_as_new", "c", "Copy", "add a job like this one"),
    _job("rerun", "r", "Rerun", "run an ended job again, as a new attempt"),
    Action("rerun_failed", ("R",), "Rerun failed", "failed jobs, by crash; one is tried first, R R: all",
           Part.JOBS, acts=True),
    _job("hold", "h", "Hold", "hold a waiting job, or release it"),
    _job("tell_me", "b", "Tell me", "ring and notify when this job ends or hangs, or no longer"),
    _job("remove", "D delete", "Remove", "take jobs off the list; their files stay"),
    _view("details", "enter", "Details", "command, folder, attempts, story, GPU use", Part.JOBS),
    _view("timeline", "t", "Timeline", "jobs, pauses, strangers and idle gaps against time, with what is expected",
          Part.SESSION),
    _view("failures", "F", "Failures", "failed jobs by crash: what they share, the last frames; rerun or hold a kind",
          Part.JOBS),
    _view("metric", "m", "Metric", "what jobs are compared by; again: curves of the marked or the best", Part.JOBS),
    _view("summary", "=", "Summary", "what came of it: the best, what each parameter did, failures, times", Part.JOBS),
    _view("crash", "exclamation_mark", "Crash", "go to the last crash; the same key again goes back", Part.JOBS),
    _view("copy_command", "y", "Copy command", "copy the job's command to the clipboard", Part.JOBS),
    _view("copy_path", "Y", "Copy path", "copy the path of the job's log to the clipboard", Part.JOBS),
    _job("kill", "K f9", "Kill", "end a job with grace; again in the dialog: now", Part.RUNNING),
    _job("suspend", "S", "Suspend", "let a running job stand still, or go on; its GPU memory stays taken",
         Part.RUNNING),
    _job("requeue", "B", "Requeue", "end a running job with grace and queue it again; its checkpoint is kept",
         Part.RUNNING),
    _job("priority_up", "+", "Priority", "higher priority", Part.QUEUE),
    _job("priority_down", "-", "Lower", "lower priority", Part.QUEUE),
    _job("move_up", "[", "Up", "earlier in the queue", Part.QUEUE),
    _job("move_down", "]", "Down", "later in the queue", Part.QUEUE),
    _job("move_top", "{", "Top", "first of its priority", Part.QUEUE),
    _job("move_bottom", "}", "Bottom", "last of its priority", Part.QUEUE),
    _view("mark", "space", "Mark", "mark this job; actions apply to the marked", Part.QUEUE),
    _view("mark_range", "v", "Mark range", "mark from here to where the cursor goes; again ends it", Part.QUEUE),
    _view("mark_all", "*", "Mark all", "mark all that is shown, or none", Part.QUEUE),
    _view("filter", "/", "Filter", "in the queue: state:failed lr=0.1 text !not; in the log: search", Part.QUEUE),
    _view("next_tab", "right", "Next tab", "All, Active, Failed, Done", Part.QUEUE),
    _view("previous_tab", "left", "Previous tab", "the tab before", Part.QUEUE),
    _view("sort", "s", "Sort", "then a column's letter; the same again reverses, s s is the queue's order", Part.QUEUE),
    _view("follow", "f", "Follow", "stay at the log's end, or stop there", Part.LOG),
    _view("stream", "o", "OUT/ERR", "OUT, ERR or both", Part.LOG),
    _view("wrap", "w", "Wrap", "wrap long lines", Part.LOG),
    _view("next_match", "n", "Next", "next match of the search", Part.LOG),
    _view("previous_match", "N", "Previous", "match before", Part.LOG),
    _view("earlier_attempt", "comma", "Attempt", "the attempt before", Part.LOG),
    _view("later_attempt", "full_stop", "Attempt", "the attempt after", Part.LOG),
    _view("full_log", "l", "Full log", "the log on the whole screen, or back", Part.LOG),
    _view("pager", "L", "Pager", "the log in $PAGER", Part.LOG),
    Action("drain_device", ("d",), "Drain", "this GPU gets no more jobs, or jobs again", Part.GPUS, acts=True),
    Action("pause", ("p",), "Pause", "pause or resume the scheduler; running jobs go on", Part.SESSION, acts=True),
    Action("reload", ("ctrl+r",), "Reload", "read the job file again", Part.SESSION, acts=True),
    _view("focus_gpus", "1", "GPUs", "go to the GPUs", Part.SESSION),
    _view("focus_queue", "2", "Queue", "go to the queue", Part.SESSION),
    _view("focus_log", "3", "Log", "go to the log", Part.SESSION),
    _view("next_pane", "tab", "Pane", "go to the next pane", Part.SESSION),
    _view("narrower", "less_than_sign", "Log larger", "more room for the log, or drag its border", Part.SESSION),
    _view("wider", "greater_than_sign", "Queue larger", "more room for the queue", Part.SESSION),
    _view("zoom", "z", "Zoom", "this pane on the whole screen, or back", Part.SESSION),
    _view("back", "escape", "Back", "out of zoom, filter and marks", Part.SESSION),
    _view("palette", ": ctrl+p", "Commands", "every action by name", Part.SESSION),
    _view("help", "?", "Help", "this text", Part.SESSION),
    _view("leave", "q", "Quit", "leave: detach, drain or stop; jobs go on when you detach", Part.SESSION),
    _view("interrupt", "ctrl+c", "Copy", "copy what the mouse selected; without a selection, leave", Part.SESSION),
    _in("summary", "copy_summary", "y", "Copy as text", "=: copy the summary as text"),
    _in("curves", "unmark_curve", "space", "Unmark", "m m: take this curve away"),
    _in("curves", "next_metric", "m", "Next metric", "m m: another metric of the same jobs"),
    _in("curves", "x_axis", "x", "By time", "m m: against steps or against time"),
    _in("timeline", "previous_bar", "left", "Job", "t: the job before on this GPU"),
    _in("timeline", "next_bar", "right", "Job", "t: the job after it"),
    _in("timeline", "lane_above", "up k", "GPU", "t: the GPU above"),
    _in("timeline", "lane_below", "down j", "GPU", "t: the GPU below"),
    _in("timeline", "zoom_in", "+", "Zoom", "t: shorter columns, around the job under the cursor"),
    _in("timeline", "zoom_out", "-", "Zoom out", "t: longer columns"),
    _in("timeline", "pan_back", "<", "Earlier", "t: a quarter of the screen back"),
    _in("timeline", "pan_on", ">", "Later", "t: a quarter of the screen on"),
    _in("timeline", "show_all", "0", "All", "t: all of the session"),
    _in("timeline", "next_crash", "!", "Next crash", "t: to the next crash, and from the last to the first"),
    _in("timeline", "bar_log", "l", "Log", "t: the log of the job under the cursor"),
    _in("details", "compare_attempts", "d", "Compare", "Enter: the ends of the last two attempts' logs side by side"),
    _in("details", "environment", "v", "Environment", "Enter: the environment of the next attempt"),
    _in("details", "details_metric", "m", "Metric", "Enter: other curves"),
    _in("details", "job_log", "l", "Log", "Enter: the log on the whole screen, at the error if there is one"),
    _in("failures", "rerun_group", "r", "Rerun", "F: run the marked jobs of a kind again, or all of it", acts=True),
    _in("failures", "edit_group", "e", "Edit and rerun", "F: replace a part of their commands and run them", acts=True),
    _in("failures", "hold_alike", "h", "Hold alike", "F: hold waiting jobs that share what a kind shares", acts=True),
    _in("failures", "log_at_error", "l", "Log at the error", "F: the log on the whole screen, at the error"),
    _in("failures", "mark_failed", "space", "Mark", "F: mark this job of a kind"),
    _in("failures", "failures_tab", "tab", "Jobs", "F: from the kinds to the jobs of one, and back"),
)  # fmt: skip

BY_NAME = {action.name: action for action in ACTIONS}


def bindings() -> list[BindingType]:
    """Of the main screen."""
    return [_binding(action) for action in ACTIONS if not action.view]


def view_bindings(view: str, *shared: str) -> list[BindingType]:
    """Of a full view: its own actions, and those it shares with the main screen by name."""
    return [_binding(action) for action in ACTIONS if action.view == view or action.name in shared]


def _binding(action: Action) -> Binding:
    return Binding(",".join(action.keys), f"act('{action.name}')", action.label, show=False, id=action.name)


def keymap(written: Mapping[str, str]) -> dict[str, str]:
    """From the settings, `kill = "ctrl+k"`; raises ValueError with the sentence for a name that is none."""
    from difflib import get_close_matches

    for name in written:
        if name not in BY_NAME:
            near = get_close_matches(name, BY_NAME, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(BY_NAME)}"
            raise ValueError(f"keys.{name} is no action{hint}")
    return dict(written)
