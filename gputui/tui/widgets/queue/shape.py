"""What the queue's columns must have room for. Widths only grow while a list is shown, so that nothing jumps."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from gputui.core.job import DEFAULT_PRIORITY
from gputui.core.lanes import DeviceKind, Lane
from gputui.core.results import JobResults
from gputui.core.views.cells import width
from gputui.tui.model.column_choice import LEAST_NAME, TableShape
from gputui.tui.model.result_cells import ResultShape, result_shape
from gputui.tui.model.words import gpus_of

if TYPE_CHECKING:
    from .painted import PaintedRows

LEAST_NODE = 5
"""Cells of a place on a cluster, `n12:0`; it has them before any job has a place."""
MOST_PLACE = 8
NAME_STEP = 4
"""Cells by which names get wider at a time."""


class ShapeMemory:
    def __init__(self, table: PaintedRows) -> None:
        self._table = table
        self._longest_name = LEAST_NAME
        self._longest_place = 3
        self._priorities = self._days = self._peaks = False
        self._results = ResultShape()
        self._shown: TableShape | None = None

    def changed(self) -> bool:
        """Whether columns must be chosen anew."""
        before = self._shown
        return self.now() != before

    def now(self) -> TableShape:
        table = self._table
        snapshot, parameters = table.snapshot, table.parameters
        self._look_at_visible()
        table.told.shape = self._results = result_shape(snapshot, self._seen(), self._results)
        columns = parameters.columns()
        self._shown = TableShape(
            highest_id=snapshot.first_id + len(snapshot.jobs),
            parameters=columns,
            names=not columns or not parameters.tells_all(),
            longest_name=self._longest_name,
            priorities=self._priorities,
            places=self._places(),
            results=self._results,
            days=self._days,
            peaks=self._peaks,
            pids=not self._on_cluster,
        )
        return self._shown

    def _look_at_visible(self) -> None:
        table = self._table
        today = date.fromtimestamp(table.told.now)
        for job in table.visible_jobs():
            self._priorities |= job.priority != DEFAULT_PRIORITY
            self._longest_place = max(self._longest_place, min(MOST_PLACE, len(gpus_of(job))))
            if job.attempts:
                last = job.attempts[-1]
                self._days |= date.fromtimestamp(last.ended) != today
                self._peaks |= last.usage is not None and last.usage.gpu_peak_memory is not None
            longest = width(job.spec.name or table.parameters.rest(job) or table.parameters.of(job))
            if longest > self._longest_name:
                self._longest_name = -(-longest // NAME_STEP) * NAME_STEP

    @property
    def _lanes(self) -> tuple[Lane, ...]:
        return (*self._table.snapshot.lanes, *self._table.snapshot.leaving)

    @property
    def _on_cluster(self) -> bool:
        return any(lane.kind is DeviceKind.SLURM for lane in self._lanes[:1])

    def _places(self) -> int:
        """Where all jobs run on the one device there is, or on none, nobody needs to be told where."""
        lanes = self._lanes
        if self._on_cluster:
            return max(LEAST_NODE, self._longest_place)
        devices = {lane.devices for lane in lanes if lane.devices}
        return self._longest_place if len(devices) > 1 or any(len(each) > 1 for each in devices) else 0

    def _seen(self) -> JobResults | None:
        results = self._table.snapshot.results
        results_in_sight = (results.get(job.id) for job in self._table.visible_jobs())
        return next((each for each in results_in_sight if each is not None), None)
