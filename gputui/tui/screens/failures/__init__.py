"""The view on failed jobs by how they failed: groups, their jobs, the last frames, and the keys that mend them.

What may enter: how these are laid out and painted, and the form that changes commands before a rerun. Which jobs
belong together and what they share is told by `core.views`, what a log says by `logs.crashes`. Opened by `tui.actions`.
"""
