"""The scheduler as pure code: jobs and their states, slots, placement, the circuit breaker, results and estimates.

This package contains only decisions and their data. It uses no I/O, clock, threads or event loop, and takes the current
time as an argument. It imports nothing from the rest of gputui, which import-linter enforces. Only `session.owner`
changes a `Scheduler`, through `handle` and `place`. All other code reads snapshots.
"""
