"""The view on one job: what is wrong and what to do, facts, attempts side by side, story, and two curves.

What may enter: how these are laid out and painted. What is told comes from the snapshot and, through the bridge, from
the owner. Opened by `tui.actions` and by other views.
"""
