"""What the words of a verb may be: flags, the choice of a session, the selection of jobs.

What may enter: what several verbs share when they read words; what one verb alone understands stays with it.
A job's settings are not defined here: `sources.settings` is their one table.
Called by `cli.verbs`, `cli.run` and `cli.app`.
"""
