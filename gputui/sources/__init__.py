"""Sources turn what a user wrote (files, standard input, Python, sweeps) into job specs.

What may enter: a reader for each kind of input, named in `kinds`; and `settings`, the one table of all that can be
said of a job. Bad input is refused whole, with file, line and reason; nothing here knows a session.
Called by `cli`, `tui`, `python.api` and by `session.owner` for sources that go on.
"""
