"""Which actions the footer offers: those that make sense for the pane and the job the user looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputui.core.job import Active, Ended, Held, Job, Stopping, Suspended, Waiting
from gputui.core.mode import Mode
from gputui.tui.model.arrangement import Pane
from gputui.tui.model.rows import BAD_ENDS

from .devices import takes_no_jobs
from .table import BY_NAME

if TYPE_CHECKING:
    from gputui.tui.screens.main import MainScreen

Offer = tuple[str, str]


def offered(main: MainScreen) -> list[Offer]:
    """Names with what they would do now, the likely ones first."""
    offers = _offers(main)
    return [(name, label) for name, label in offers if not (main.read_only and BY_NAME[name].acts)]


def _offers(main: MainScreen) -> list[Offer]:
    if not main.bridge.has_session:
        return [_("add"), _("sweep"), ("details", "Processes"), _("palette")]
    if main.pane is Pane.GPUS:
        device = main.gpus.device
        drain = "Enable" if device is not None and takes_no_jobs(device) else "Drain"
        return [("details", "Processes"), ("drain_device", drain), *_scheduler(main), _("zoom"), _("next_pane")]
    if main.pane is Pane.LOG:
        return [_("follow"), _("stream"), _("wrap"), ("filter", "Search"), _("next_match"), ("full_log", "Full/back"),
                _("earlier_attempt"), _("pager"), _("next_pane")]  # fmt: skip
    cursor = main.table.cursor
    job = main.snapshot[cursor] if cursor is not None and cursor in main.snapshot else None
    crashed = [_("rerun_failed")] if main.snapshot.count(*BAD_ENDS) else []
    of_job = _of_job(job) if job is not None else []
    # Whoever is paused by crashes looks for the way out; it must not be what a narrow line leaves out.
    paused = main.snapshot.cause is not None and bool(main.snapshot.cause.jobs)
    likely = [*crashed, *of_job] if paused else [*of_job, *crashed]
    return [_("add"), *_scheduler(main), *likely,
            _("mark"), _("filter"), ("next_tab", "Tabs"), _("next_pane"), _("sweep"), _("palette")]  # fmt: skip


def _(name: str) -> Offer:
    return name, BY_NAME[name].label


def _scheduler(main: MainScreen) -> list[Offer]:
    return [("pause", "Pause" if main.snapshot.mode is Mode.RUNNING else "Resume")]


def _of_job(job: Job) -> list[Offer]:
    if isinstance(job.state, Suspended):
        return [("suspend", "Continue"), _("kill"), _("requeue"), _("details")]
    if isinstance(job.state, Stopping):
        return [("kill", "Kill now"), _("details")]
    if isinstance(job.state, Active):
        return [_("kill"), _("suspend"), _("requeue"), _("details")]
    if isinstance(job.state, Waiting):
        held = "Release" if isinstance(job.state, Held) else "Hold"
        return [_("priority_up"), ("priority_down", "Lower"), _("move_up"), ("hold", held), _("edit"), _("kill"),
                _("details")]  # fmt: skip
    return [_("rerun"), _("details"), _("copy_as_new"), _("remove")] if isinstance(job.state, Ended) else []
