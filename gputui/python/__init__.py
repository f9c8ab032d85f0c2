"""What serves users' Python: the interface that their programs import, and the processes that run their code.

What may enter: `api`, behind `gputui.Session` and `gputui.job`, and `user_code`, which other Pythons than ours run.
`gputui.tasks` and `gputui.inside` are names that users and stored commands know: they only point here.
`api` is called by users' programs, `user_code` by stored commands, sources and sessions.
"""
