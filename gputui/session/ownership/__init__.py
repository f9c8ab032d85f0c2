"""Who owns a session: the lock, becoming owner, keepers that wait for an owner's death, beginning a session.

What may enter: all that is about having a session or letting go of it; what an owner does is in `session.owner`.
The kernel's lock is the only truth; pids and files are hints.
Called by the app, `run`, `keep`, and by clients that find no owner.
"""
