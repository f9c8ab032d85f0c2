"""`gputui [JOBS …]`: everything that happens before there is a screen, and the jobs that are loaded as it opens.

What may enter: flags of the app, refusals that must come before the terminal is taken, the take-over question.
How things look and what keys do belongs to `gputui.tui`.
Called by `cli.top` and by `cli.verbs.demo`; it shares its inputs and wishes with `cli.run`.
"""
