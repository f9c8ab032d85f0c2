"""Hooks: what the user wants run at a job's start or end, at a pause, or when the session is drained.

What may enter: when a hook is due, what it is told, and running it so that it cannot hold up or hurt the owner.
Hooks come from the user's own settings only.
Called by `session.control.serving`, which sets them up for an owner.
"""
