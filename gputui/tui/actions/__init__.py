"""What keys do: `table` names every action with its key, the modules beside it hold one function for each.

What may enter: asking the user where it must be asked, and sending what was seen along with what is wanted.
An action is named in `table.ACTIONS`, done by a function that `ACTS` below points to, and nothing else binds keys.
Called by `tui.main_screen`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import adding, devices, jobs, looking, scheduler
from .looking import visit_crash

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


Act = Callable[["MainScreen"], None]

ACTS: dict[str, Act] = {
    "add": adding.add,
    "sweep": adding.sweep,
    "edit": adding.edit,
    "copy_as_new": adding.copy_as_new,
    "rerun": jobs.rerun,
    "rerun_failed": scheduler.rerun_failed,
    "hold": jobs.hold,
    "tell_me": jobs.tell_me,
    "remove": jobs.remove,
    "details": looking.details,
    "failures": looking.failures,
    "timeline": looking.timeline,
    "summary": looking.summary,
    "metric": looking.metric,
    "copy_command": looking.copy_command,
    "copy_path": looking.copy_path,
    "crash": visit_crash,
    "kill": jobs.kill,
    "suspend": jobs.suspend,
    "requeue": jobs.requeue,
    "priority_up": jobs.priority_up,
    "priority_down": jobs.priority_down,
    "move_up": jobs.move_up,
    "move_down": jobs.move_down,
    "move_top": jobs.move_top,
    "move_bottom": jobs.move_bottom,
    "mark": lambda main: main.table.toggle_mark(),
    "mark_range": lambda main: main.table.toggle_range(),
    "mark_all": lambda main: main.table.mark_all(),
    "filter": looking.filter_or_search,
    "next_tab": looking.next_tab,
    "previous_tab": looking.previous_tab,
    "sort": looking.sort,
    "follow": lambda main: main.log_pane.toggle_follow(),
    "stream": lambda main: main.log_pane.cycle_stream(),
    "wrap": looking.wrap,
    "next_match": lambda main: main.log_pane.search_next(),
    "previous_match": lambda main: main.log_pane.search_previous(),
    "earlier_attempt": lambda main: main.log_pane.attempt_earlier(),
    "later_attempt": lambda main: main.log_pane.attempt_later(),
    "full_log": looking.full_log,
    "pager": looking.pager,
    "drain_device": devices.drain_or_enable,
    "pause": scheduler.pause,
    "reload": adding.reload,
    "focus_gpus": looking.focus_gpus,
    "focus_queue": looking.focus_queue,
    "focus_log": looking.focus_log,
    "next_pane": looking.next_pane,
    "narrower": lambda main: main.places.step(-1),
    "wider": lambda main: main.places.step(1),
    "zoom": looking.zoom,
    "back": looking.back,
    "palette": lambda main: main.app.action_command_palette(),
    "help": scheduler.show_help,
    "leave": scheduler.leave,
    "interrupt": looking.interrupt,
}
