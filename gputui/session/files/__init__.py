"""The session's folder on disk: where everything is, who may be there, each job's folder with INFO and markers.

What may enter: paths and what is written below them, held open by descriptors so that a moved folder is not lost.
The queue itself is in `session.store`; nothing here decides what a job does.
Called by `session.owner`, `store` and `ownership`; by `cli` before a session opens.
"""
