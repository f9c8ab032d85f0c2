"""A session: one folder with one queue, the owner that holds its lock, and everybody's way to talk to that owner.

The rooms: `store` is durable, `owner` decides turn by turn, `devices` looks, `control` talks, `ownership` says who
owns, `files` is the folder, `feeds` and `hooks` go on beside jobs. Next to them stands what several rooms need.
What may enter: nothing that draws or prints. Called by `cli`, `tui` and `python.api`.
"""
