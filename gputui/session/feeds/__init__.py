"""The sources that go on while jobs run: followed files and yielders, read in threads of their own.

What may enter: reading on from where an owner before left off, and making what was read durable with its jobs.
How a file is followed or a yielder run belongs to `sources`.
Called by `session.owner`, and by `run`, which reports on them.
"""
