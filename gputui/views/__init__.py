"""What a snapshot tells, computed when asked: why a job waits, when the queue is empty, short names, one word for all.

What may enter: pure functions from jobs, lanes or a snapshot to something that people read, the same for every view.
Nothing here changes a scheduler.
Called by `session`, `cli` and `tui`.
"""
