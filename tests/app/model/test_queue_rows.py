"""Which jobs are shown in which order; after any change, the rows equal newly built ones."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.app import NOW, STATES, Queue, job, jobs
from support.core import operations

from gputui.core.job import Ended, Job, Queued, Running, Succeeded
from gputui.tui.queue.rows import PARAMETER, QUEUE_ORDER, SORTS, TIME, Filter, Rows, Tab
from gputui.views.parameters import Parameters

ORDERS = [QUEUE_ORDER, TIME, *SORTS, *(PARAMETER + name for name in ("lr", "bs", "name", "ｗ"))]
WRITTEN = ["", "state:failed", "lr=0.1", "x", "!state:queued", "gpu:0", "pri:30", "group:a", "nan"]


def rows_of(
    queue: Queue, *, tab: Tab = Tab.ALL, written: str = "", sort: str = QUEUE_ORDER, reverse: bool = False
) -> Rows:
    rows = Rows(Parameters())
    rows.tab, rows.filter, rows.sort, rows.reverse = tab, Filter(written), sort, reverse
    rows.rebuild(queue.snapshot)
    return rows


def ids(rows: Rows) -> list[int]:
    return list(rows.jobs())


@settings(max_examples=80)
@given(st.data())
def test_updated_rows_equal_newly_built_ones(data: st.DataObject) -> None:
    queue = Queue([data.draw(jobs(number)) for number in range(data.draw(st.integers(0, 8)))])
    view: dict[str, Any] = {
        "tab": data.draw(st.sampled_from(list(Tab))),
        "written": data.draw(st.sampled_from(WRITTEN)),
        "sort": data.draw(st.sampled_from(ORDERS)),
        "reverse": data.draw(st.booleans()),
    }
    rows = rows_of(queue, **view)
    for _ in range(data.draw(st.integers(1, 6))):
        before = ids(rows)
        changed = data.draw(st.sets(st.integers(0, len(queue.jobs)), max_size=3))
        for number in sorted(changed):
            new = data.draw(jobs(number))
            queue.jobs[number : number + 1] = [new]
        moved = rows.update(queue.snapshot, changed)
        assert moved or ids(rows) == before
        assert ids(rows) == ids(rows_of(queue, **view))
        for row, shown in enumerate(ids(rows)):
            assert rows.job_at(row) == shown
            assert rows.row_of(shown) == row
            assert shown in rows


def test_the_queue_order_is_running_then_waiting_then_ended_newest_first() -> None:
    running = [job(number, state) for number, state in enumerate(STATES[4:8])]
    waiting = [job(4, priority=10), job(5, priority=90), job(6, priority=30)]
    ended = [job(7, Succeeded()), job(8, Succeeded())]
    assert ids(rows_of(Queue([*running, *waiting, *ended]))) == [0, 1, 2, 3, 5, 6, 4, 8, 7]


def test_tabs_show_their_part() -> None:
    queue = Queue([job(number, state) for number, state in enumerate(STATES)])
    shown = {tab: set(ids(rows_of(queue, tab=tab))) for tab in Tab}
    assert shown[Tab.ALL] == set(range(16))
    assert shown[Tab.ACTIVE] == set(range(8))
    assert shown[Tab.DONE] == {8, 11}, "what was killed is done"
    assert shown[Tab.FAILED] == {9, 10, 12, 13, 14, 15}, "killed by the user is no failure"
    assert sum(len(shown[tab]) for tab in Tab) == 2 * 16, "the other tabs add up to all"


def test_parameters_are_sorted_as_numbers_then_texts_then_nothing() -> None:
    values = ["1e-3", "0.1", "10", "9", "nan", "adam", None, "-2"]
    queue = Queue([job(number, params={"lr": value} if value else {}) for number, value in enumerate(values)])
    by_lr = PARAMETER + "lr"
    assert ids(rows_of(queue, sort=by_lr)) == [7, 0, 1, 3, 2, 5, 4, 6]
    assert ids(rows_of(queue, sort=by_lr, reverse=True)) == [4, 5, 2, 3, 1, 0, 7, 6], "nothing is last both ways"


def test_a_parameter_called_like_a_column_is_sorted_by_its_own_values() -> None:
    queue = Queue([job(0, params={"id": "2"}), job(1, params={"id": "1"})])
    assert ids(rows_of(queue, sort=PARAMETER + "id")) == [1, 0]
    assert ids(rows_of(queue, sort="id")) == [0, 1]


def test_a_renamed_job_is_found_by_its_new_name() -> None:
    queue = Queue([job(0, name="before")])
    rows = rows_of(queue, written="after")
    assert ids(rows) == []
    queue.change(0, spec=replace(queue.jobs[0].spec, name="after"))
    rows.update(queue.snapshot, [0])
    assert ids(rows) == [0]


# The row under the cursor


def finished(one: Job) -> Job:
    return job(one.id, Succeeded())


def test_a_job_that_ends_under_the_cursor_stays_until_the_cursor_leaves_it() -> None:
    queue = Queue([job(0), job(1, STATES[5]), job(2, STATES[5])])
    assert isinstance(queue.jobs[1].state, Running)
    rows = rows_of(queue, tab=Tab.ACTIVE)
    rows.pin(1, queue.snapshot)
    queue.jobs[1], queue.jobs[2] = finished(queue.jobs[1]), finished(queue.jobs[2])
    rows.update(queue.snapshot, [1, 2])
    assert ids(rows) == [1, 0], "the other one that ended is gone"
    assert rows.pin(0, queue.snapshot)
    assert ids(rows) == [0]


def test_a_pinned_job_that_is_removed_goes_at_once() -> None:
    queue = Queue([job(0, STATES[5]), job(1)])
    rows = rows_of(queue)
    rows.pin(0, queue.snapshot)
    queue.change(0, state=Succeeded(), archived=True)
    assert rows.update(queue.snapshot, [0])
    assert ids(rows) == [1]


def test_a_pinned_job_that_runs_again_goes_to_its_place() -> None:
    queue = Queue([job(0, STATES[5]), job(1)])
    rows = rows_of(queue)
    rows.pin(0, queue.snapshot)
    queue.jobs[0] = finished(queue.jobs[0])
    rows.update(queue.snapshot, [0])
    assert ids(rows) == [0, 1]
    queue.change(0, state=Queued(NOW), position=5.0)
    rows.update(queue.snapshot, [0])
    assert ids(rows) == [1, 0]
    assert not isinstance(queue.jobs[0].state, Ended)
    assert not rows.pin(1, queue.snapshot)


# What it costs


def test_a_change_or_a_key_costs_the_same_with_a_hundred_thousand_jobs() -> None:
    def cost(count: int) -> int:
        queue = Queue([job(number) for number in range(count)])
        rows = rows_of(queue)
        queue.jobs[count // 2] = job(count // 2, Succeeded())
        after = queue.snapshot

        def change_and_move() -> None:
            rows.update(after, [count // 2])
            rows.pin(count // 3, after)
            rows.row_of(count // 3)
            rows.job_at(3)

        return operations(change_and_move)

    assert cost(100_000) < cost(1_000) + 40


# Folding


def half_done() -> Queue:
    running, waiting = [job(number, STATES[5]) for number in range(2)], [job(number) for number in range(2, 30)]
    return Queue([*running, *waiting, *(job(number, Succeeded()) for number in range(30, 50))])


def test_most_waiting_jobs_are_folded_when_ended_ones_would_be_out_of_sight() -> None:
    queue = half_done()
    rows = rows_of(queue)
    assert len(rows) == 50, "as many as there are, before it is known how many are in sight"
    rows.room = 20
    assert rows.refold()
    shown = [rows.job_at(row) for row in range(len(rows))]
    assert shown == [0, 1, 2, 3, 4, 5, 6, None, *range(49, 29, -1)]
    assert (rows.fold.hidden, rows.row_of(7), 7 in rows) == (23, None, True)
    assert ids(rows) == [*range(30), *range(49, 29, -1)], "they are in the view all the same"
    assert list(rows.between(6, 8)) == [*range(6, 30), 49]
    assert (rows.beside(6, 1), rows.beside(49, -1), rows.beside(30, 1)) == (7, 29, None)


def test_sorting_and_filtering_unfold_and_so_does_the_cursor() -> None:
    queue = half_done()
    for view in ({"sort": "id"}, {"written": "true"}, {"tab": Tab.ACTIVE}, {"reverse": True}):
        rows = rows_of(queue, **view)
        rows.room = 20
        rows.refold()
        assert not rows.fold.hidden, view
    rows = rows_of(queue)
    rows.room = 20
    assert rows.refold()
    assert rows.pin(15, queue.snapshot)
    assert (len(rows), rows.row_of(15)) == (50, 15)
    assert rows.pin(3, queue.snapshot)
    assert (rows.fold.hidden, rows.row_of(3)) == (23, 3), "nothing above the cursor moved"


def test_a_queue_that_fits_is_not_folded() -> None:
    rows = rows_of(half_done())
    rows.room = 50
    assert not rows.refold()


def test_folding_leaves_no_empty_rows() -> None:
    rows = rows_of(half_done())
    rows.room = 40
    assert rows.refold()
    assert len(rows) == 40
    assert rows.number_of(29) == (30, 50), "folded or not"


def test_sorting_in_slices_gives_the_order_of_newly_built_rows() -> None:
    queue = Queue([job(number, params={"lr": str(number % 7)}) for number in range(300)])
    rows, before = rows_of(queue), queue.snapshot
    turns = rows.compute_keys(before, PARAMETER + "lr")
    next(turns)
    assert ids(rows) == list(range(300)), "nothing changes by it"
    queue.jobs[40] = job(40, Succeeded(), params={"lr": "0.5"})
    queue.jobs.append(job(300, params={"lr": "-1"}))

    def whole() -> Generator[None, None, None]:
        rows.take_order(queue.snapshot, PARAMETER + "lr", (yield from turns), before.jobs)

    assert list(whole()) == [None, None], "a few at a time"
    assert ids(rows) == ids(rows_of(queue, sort=PARAMETER + "lr"))
    assert ids(rows)[0] == 300
