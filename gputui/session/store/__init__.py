"""The durable queue: one SQLite file, its commits, its copies, and the way back from a damaged one.

What may enter: what is read from or written to the store. Only the holder of the session's lock opens it.
A change is durable when `Store.commit` has returned, and not before.
Called by `session.owner`, and by `ownership` when a session begins.
"""
