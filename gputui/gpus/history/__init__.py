"""What devices did before now, and whose load and memory it was.

What may enter: bounded tracks of figures, their file, and telling sides apart; nothing that draws.
Called by `session.devices`, and read by `tui.widgets`.
"""
