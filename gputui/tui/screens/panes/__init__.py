"""What the main screen does for its panes: their places, and what the queue and the log are told.

What may enter: parts of `MainScreen` that belong to one pane each.
Called by `tui.screens.main` alone.
"""
