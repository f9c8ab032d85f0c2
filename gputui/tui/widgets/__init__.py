"""What the main screen is made of, by what the user sees: the queue, the GPUs, the logs, and single lines.

What may enter: drawing newest data at the cost of what is in sight; a widget sends nothing to a session.
Called by `tui.screens`.
"""
