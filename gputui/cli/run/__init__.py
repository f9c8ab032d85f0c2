"""`gputui run`: jobs without a screen, from the command line's JOBS to the exit status that covers them.

What may enter: reading inputs, owning or joining a session, watching its jobs, what signals and keys mean meanwhile.
What is printed belongs to `cli.output`, what becomes durable to `session.owner`.
Called by `gputui.__main__`; `cli.app` shares its inputs and wishes.
"""
