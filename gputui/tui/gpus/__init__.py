"""The GPU pane: every device in a line or half a line, with what is on it.

What may enter: text and layout of devices, pure as far as it goes; `pane` alone knows Textual's widgets.
Called by `tui.screens` and by actions on devices.
"""
