"""A session: one folder with one queue, the owner that holds its lock, and everybody's way to talk to that owner.

The rooms: `store` is durable, `owner` decides turn by turn, `devices` looks, `control` talks, `ownership` says who
owns, `files` is the folder. Beside them: what several rooms need (errors, environment, settings, which session).
What may enter: nothing that draws or prints. Called by `cli`, `tui` and `python.api`.
"""
