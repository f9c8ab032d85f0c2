"""The durable queue: one SQLite file, its commits, its backups, and the recovery of a damaged file.

This package holds everything that reads or writes the store. Only the holder of the session's lock opens it. A change
is durable once `Store.commit` has returned. `session.owner` calls this package, as does `ownership` when a session is
created.
"""
