"""What devices did before now, whose load and memory it was, and what has been wrong with them since when.

What may enter: bounded tracks of figures, their file, telling sides apart, warnings; nothing that draws.
Called by `session.devices`, and read by `tui.widgets`.
"""
