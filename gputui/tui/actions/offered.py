"""The actions offered in the footer for the focused pane and the job under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core.job import Active, Ended, Held, Job, Stopping, Suspended, Waiting
from gputui.tui.chrome import Offer, OfferedKeys
from gputui.tui.layout import Pane
from gputui.tui.queue.rows import BAD_ENDS
from gputui.views.status import StatusWord, pauses, queue_status

from .devices import takes_no_jobs
from .table import BY_NAME

if TYPE_CHECKING:
    from gputui.tui.main_screen import MainScreen


VIEWS = ("metric", "failures", "timeline", "summary")


def offer(name: str) -> Offer:
    """Return an action with its usual label."""
    return name, BY_NAME[name].label


def offered(main: MainScreen) -> OfferedKeys:
    """Return the actions for the footer, labelled with what they would do now. The most likely ones come first."""
    return allowed(_offers(main), read_only=main.read_only)


def allowed(offers: OfferedKeys, *, read_only: bool) -> OfferedKeys:
    """Remove the actions that a read-only screen refuses."""
    if not read_only:
        return offers
    row, more, views = ([each for each in some if not BY_NAME[each[0]].acts]
                        for some in (offers.row, offers.more, offers.views))  # fmt: skip
    return OfferedKeys(row, more, views, offers.always)


def _offers(main: MainScreen) -> OfferedKeys:
    if not main.bridge.has_session:
        return OfferedKeys([("details", "Processes"), ("add", "Add here"), offer("sweep"), offer("palette")])
    views = [offer(name) for name in VIEWS]
    if main.pane is Pane.GPUS:
        device = main.gpus.device
        drain = "Enable" if device is not None and takes_no_jobs(device) else "Drain"
        row = [("details", "Processes"), ("add", "Add here"), ("drain_device", drain)]
        jobs = ", ".join(f"#{job}" for job in device.jobs) if device is not None else ""
        row += [("requeue", f"Requeue {jobs}"), ("kill", f"Kill {jobs}")] if jobs else []
        zoom = ("zoom", "Unzoom" if main.zoomed is Pane.GPUS else "Zoom")
        return OfferedKeys(row, [*_scheduler(main), offer("next_pane")], [zoom, *views])
    if main.pane is Pane.LOG:
        row = [offer("follow"), offer("stream"), offer("wrap"), ("filter", "Search"), offer("next_match"),
               ("full_log", "Full/back"), offer("earlier_attempt"), offer("pager")]  # fmt: skip
        return OfferedKeys(row, [offer("next_pane")])
    scheduler = _scheduler(main) if main.snapshot.cause is None else []
    undo = ["undo"] if main.bridge.done else []
    queue = [offer(name) for name in ("add", *undo, "sort", "filter", "mark", "next_pane", "sweep", "palette")]
    return OfferedKeys(_row(main), [*scheduler, *queue], views)


def _row(main: MainScreen) -> list[Offer]:
    cursor = main.table.cursor
    job = main.snapshot[cursor] if cursor is not None and cursor in main.snapshot else None
    crashed = [offer("rerun_failed")] if main.snapshot.count(*BAD_ENDS) else []
    of_job = _of_job(job) if job is not None else [offer("add")]
    # While paused, the keys to resume come first, so that a narrow line does not omit them.
    if pauses(main.snapshot):
        return of_job
    return [*(crashed if main.snapshot.paused_scopes else []), *_scheduler(main), *of_job]


def _scheduler(main: MainScreen) -> list[Offer]:
    if queue_status(main.snapshot).word is StatusWord.DONE:
        return []
    return [("pause", "Pause" if pauses(main.snapshot) else "Resume")]


def _of_job(job: Job) -> list[Offer]:
    if isinstance(job.state, Suspended):
        return [("suspend", "Continue"), offer("kill"), offer("requeue"), offer("details")]
    if isinstance(job.state, Stopping):
        return [("kill", "Kill now"), offer("details")]
    if job.submitted:
        return [("hold", "Hold"), offer("kill"), offer("requeue"), offer("details")]
    if isinstance(job.state, Active):
        return [offer("kill"), offer("suspend"), offer("requeue"), offer("details")]
    if isinstance(job.state, Waiting):
        held = "Release" if isinstance(job.state, Held) else "Hold"
        return [offer("priority_up"), ("priority_down", "Lower"), offer("move_up"), ("hold", held), offer("edit"),
                offer("kill"), offer("details")]  # fmt: skip
    if isinstance(job.state, Ended):
        return [offer("rerun"), offer("details"), offer("copy_as_new"), offer("remove")]
    return []
