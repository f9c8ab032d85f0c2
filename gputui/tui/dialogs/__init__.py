"""The screens: the main one with its panes, and the dialogs that ask, pick, show and edit.

What may enter: composing widgets and handing keys on. A dialog answers with a choice; who asked acts on it.
What keys do is in `tui.actions`, how a pane is drawn in `tui.widgets`.
Called by `tui.app` and `tui.actions`.
"""
