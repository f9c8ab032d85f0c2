"""What the screen shows, as plain data: rows, columns, filters, where panes are, words for states.

What may enter: pure functions and frozen data; nothing of Textual.
Called by the screens, widgets and actions.
"""
