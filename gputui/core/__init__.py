"""The scheduler, pure: events in, instructions out. What a job is, its states, lanes, placement, the crash breaker.

What may enter: decisions and the data they are made of. No I/O, no clock, no threads, no event loop: the time is told.
It imports nothing of gputui; an import-linter contract and a test in a process of its own hold it to that.
Called by every room. Only `session.owner` changes a `Scheduler`, by `handle` and `place`; others see snapshots.
"""
